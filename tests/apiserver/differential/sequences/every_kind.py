"""The same questions to every built-in kind: bad metadata, at creation and in changes of the object and its status."""

from __future__ import annotations

from typing import Any, Final

from tests.apiserver.differential.kinds import KINDS, Kind
from tests.apiserver.differential.steps import CUSTOM as WIDGETS
from tests.apiserver.differential.steps import Sequence, Step, defined, patch, post, sequence, widget

NEW: Final[tuple[dict[str, Any], ...]] = (
    {"labels": {"a": "-"}},
    {"finalizers": ["plain"]},
    {"finalizers": ["not good/x"]},
    {"name": "Up_"},
    {"name": "", "generateName": "Up_-"},
    {"name": "a/b"},
    {"name": "", "generateName": "a%b"},
)
CHANGED: Final[tuple[dict[str, Any], ...]] = (
    {"labels": {"a": "-"}},
    {"labels": {"a~b/c": "d"}, "annotations": {"a b": "c"}},
    {"deletionTimestamp": "2030-01-01T00:00:00Z"},
    {"deletionGracePeriodSeconds": 5, "finalizers": ["plain", "e.com/fine"]},
    {"finalizers": ["not good/x"]},
    {"finalizers": ["orphan", "foregroundDeletion"]},
    {"ownerReferences": [{"uid": "u"}]},
    {"ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": n, "uid": n, "controller": True} for n in "ab"]},
    {"creationTimestamp": "2029-01-01T00:00:00Z"},
    {"generateName": "q-"},
    {"generateName": "q/"},
    {"generation": 7},
    {"selfLink": "/x", "uid": "other"},
)


def _changes(path: str) -> list[Step]:
    return [patch(path, {"metadata": fault}) for fault in CHANGED]


def _of(plural: str, kind: Kind) -> list[Sequence]:
    name = plural.replace(".", "-")
    made = [
        sequence(f"metadata-new-{name}", [kind.create(metadata=fault) for fault in NEW]),
        sequence(f"metadata-{name}", kind.create(), _changes(kind.one)),
    ]
    if kind.has_status:
        made.append(sequence(f"metadata-status-{name}", kind.create(), _changes(f"{kind.one}/status")))
    return made


SEQUENCES = (
    *(each for plural, kind in KINDS.items() for each in _of(plural, kind)),
    sequence("metadata-new-widgets", defined(), [post(WIDGETS, widget("a", metadata=fault)) for fault in NEW]),
    sequence("metadata-widgets", defined(), post(WIDGETS, widget("a")), _changes(f"{WIDGETS}/a")),
    sequence(
        "metadata-status-widgets",
        defined(version={"subresources": {"status": {}}}),
        post(WIDGETS, widget("a")),
        _changes(f"{WIDGETS}/a/status"),
    ),
)
