"""The same questions to every built-in kind: bad metadata, at creation and in changes; bookmarks; templates."""

from __future__ import annotations

from typing import Any, Final

from tests.minicluster.apiserver.differential.kinds import KINDS, Kind
from tests.minicluster.apiserver.differential.steps import CUSTOM as WIDGETS
from tests.minicluster.apiserver.differential.steps import (
    JSON_PATCH,
    MERGE,
    PARTIAL,
    STRATEGIC,
    TABLE,
    Sequence,
    Step,
    apply,
    defined,
    each,
    patch,
    post,
    put,
    sequence,
    watch,
    widget,
)

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


BOOKMARK: Final = (
    "?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    "&fieldSelector=metadata.name%3Dnone"
)
WITH_TEMPLATES: Final = ("deployments", "daemonsets", "replicasets", "statefulsets", "replicationcontrollers")


def _bookmarks(plural: str, kind: Kind) -> Sequence:
    """The object without content that says that the initial events are over, in each form."""
    forms = ("", TABLE, PARTIAL)
    return sequence(
        f"bookmark-{plural.replace('.', '-')}", [watch(kind.path + BOOKMARK, 1, accept=form) for form in forms]
    )


def _labels(plural: str) -> Sequence:
    """A template without labels, or with an empty map of them."""
    kind = KINDS[plural]
    steps = [kind.create()]
    for meta in each({"labels": {}}, {}, {"labels": None}, {"annotations": {}}):
        template = {**kind.least["spec"]["template"], "metadata": meta}
        selector: Any = {"app": "x"} if plural == "replicationcontrollers" else {"matchLabels": {"app": "x"}}
        obj = kind.made(spec={"template": template, "selector": selector})
        steps += [post(kind.path, obj), put(kind.one, obj), apply(kind.one, obj, "other", True)]
    for way in (MERGE, STRATEGIC):
        for labels in ({"app": None}, None):
            steps.append(patch(kind.one, {"spec": {"template": {"metadata": {"labels": labels}}}}, way))
    for gone in ("/app", ""):
        steps.append(patch(kind.one, [{"op": "remove", "path": f"/spec/template/metadata/labels{gone}"}], JSON_PATCH))
    return sequence(f"template-labels-{plural}", steps)


SEQUENCES = (
    *(each for plural, kind in KINDS.items() for each in _of(plural, kind)),
    *(_bookmarks(plural, kind) for plural, kind in KINDS.items()),
    *(_labels(plural) for plural in WITH_TEMPLATES),
    sequence("metadata-new-widgets", defined(), [post(WIDGETS, widget("a", metadata=fault)) for fault in NEW]),
    sequence("metadata-widgets", defined(), post(WIDGETS, widget("a")), _changes(f"{WIDGETS}/a")),
    sequence(
        "metadata-status-widgets",
        defined(version={"subresources": {"status": {}}}),
        post(WIDGETS, widget("a")),
        _changes(f"{WIDGETS}/a/status"),
    ),
)
