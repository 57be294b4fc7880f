"""Where the embedded server differs from the real one and is meant to, each with its reason."""

from __future__ import annotations

from fnmatch import fnmatchcase

_NO_MAP = "until stored, the real server tells a map without entries from no map; here they are one, shown as null"

KNOWN_DIFFERENCES: dict[tuple[str, int, str], str] = {
    ("merge-patch-lists", 4, "body.message"): _NO_MAP,
    ("merge-patch-lists", 4, "body.details.causes[0].message"): _NO_MAP,
}
"""(sequence, step, path in the answer) -> why. Names and paths may have wildcards; step -1 is any."""


def unexplained(sequence: str, step: int, found: list[str]) -> list[str]:
    """The differences that no known one explains."""
    return [line for line in found if not any(_explains(known, sequence, step, line) for known in KNOWN_DIFFERENCES)]


def _explains(known: tuple[str, int, str], sequence: str, step: int, line: str) -> bool:
    name, number, path = known
    at = line.partition(": ")[0].replace("[", "(").replace("]", ")")
    return (
        fnmatchcase(sequence, name)
        and number in (-1, step)
        and fnmatchcase(at, path.replace("[", "(").replace("]", ")"))
    )
