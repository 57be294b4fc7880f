"""Where the embedded server differs from the real one and is meant to, each with its reason."""

from __future__ import annotations

from fnmatch import fnmatchcase

_NO_MAP = "until stored, the real server tells a map without entries from no map; here they are one, shown as null"
_LEFT_OUT = "left out: neither kubectl's daily commands nor koord's users need it"
_NO_NETWORK = "left out: hollow nodes run no processes and have no network; asking for it says so"
_COST = "rules are not priced, neither before they run nor while they do: a dear one costs the server its time"
_TYPES = "rules are not type-checked when they are defined; what does not fit is told when an object is checked"
_BOOKMARK = "the object of a bookmark is no object; only its version and annotations mean something"
_OWNERS = "the real server forgets all owners when a field is set that another version of a definition lacks"

KNOWN_DIFFERENCES: dict[tuple[str, int, str], str] = {
    ("merge-patch-lists", 4, "body.message"): _NO_MAP,
    ("merge-patch-lists", 4, "body.details.causes[0].message"): _NO_MAP,
    ("discovery-core-v1", 0, "body.resources.componentstatuses"): _LEFT_OUT,
    **{
        ("discovery-core-v1", 0, f"body.resources.{name}"): _NO_NETWORK
        for name in ("nodes/proxy", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "services/proxy")
    },
    ("discovery-admissionregistration", 1, "body.resources.validatingadmissionpolic*"): _LEFT_OUT,
    ("warnings", 9, "*"): _LEFT_OUT,
    ("schema-list-set-numbers", 3, "*"): "1 and 1.0 are one number here; to Go they are an integer and a float",
    ("watch-initial-kinds", 1, "body[0].object.spec.replicas"): _BOOKMARK,
    ("watch-initial-kinds", 6, "body[0].object.rows[0].cells[7]"): _BOOKMARK,
    ("cel-cost", -1, "*"): _COST,
    ("cel-bad-rules", 2, "*"): _TYPES,
    ("cel-bad-rules", 6, "body.metadata.uid"): "counts the objects that only this server took",
    ("cel-bad-rules", 12, "*"): _TYPES,
    ("crd-versions", 11, "body.metadata.managedFields"): _OWNERS,
    ("crd-versions", 12, "body.metadata.managedFields"): _OWNERS,
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
