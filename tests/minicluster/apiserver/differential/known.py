"""Where the embedded server differs from the real one and is meant to, each with its reason."""

from __future__ import annotations

from fnmatch import fnmatchcase

_LEFT_OUT = "left out: neither kubectl's daily commands nor koord's users need it"

KNOWN_DIFFERENCES: dict[tuple[str, int, str], str] = {
    ("discovery-admissionregistration", 1, "body.resources.validatingadmissionpolic*"): _LEFT_OUT,
}
"""(sequence, step, path in the answer) -> why. Names and paths may have wildcards; step -1 is any."""


def unexplained(sequence: str, step: int, found: list[str]) -> list[str]:
    """The differences that no known one explains."""
    return [
        line
        for line in found
        if not any(_explains(known_difference, sequence, step, line) for known_difference in KNOWN_DIFFERENCES)
    ]


def _explains(known: tuple[str, int, str], sequence: str, step: int, line: str) -> bool:
    name, number, path = known
    at = line.partition(": ")[0].replace("[", "(").replace("]", ")")
    return (
        fnmatchcase(sequence, name)
        and number in (-1, step)
        and fnmatchcase(at, path.replace("[", "(").replace("]", ")"))
    )
