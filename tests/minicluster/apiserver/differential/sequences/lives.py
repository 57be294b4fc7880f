"""The life of an object of every built-in kind: made, read in every form, changed in every way, deleted."""

from __future__ import annotations

from tests.minicluster.apiserver.differential.kinds import KINDS, Kind
from tests.minicluster.apiserver.differential.steps import (
    JSON_PATCH,
    PARTIAL,
    PARTIAL_LIST,
    STRATEGIC,
    TABLE,
    YAML,
    Step,
    apply,
    delete,
    get,
    patch,
    post,
    put,
    rv,
    sequence,
)


def _made(kind: Kind) -> list[Step]:
    unknown = {**kind.made(), "unknownField": 1}
    name = kind.least["metadata"]["name"]
    return [
        kind.create(),
        kind.create(),
        post(f"{kind.path}?dryRun=All", kind.made(metadata={"name": f"{name}b"})),
        get(kind.one),
        post(f"{kind.path}?fieldValidation=Strict", unknown),
        post(f"{kind.path}?fieldValidation=Warn&dryRun=All", {**unknown, "metadata": {"name": f"{name}c"}}),
    ]


def _changed(kind: Kind) -> list[Step]:
    name = kind.least["metadata"]["name"]
    labelled = {
        "apiVersion": kind.least["apiVersion"],
        "kind": kind.kind,
        "metadata": {"name": name, "labels": {"l": "m"}},
    }
    return [
        put(kind.one, kind.made(metadata={"labels": {"a": "b"}})),
        rv(get(kind.one)),
        put(kind.one, kind.made(metadata={"labels": {"a": "c"}, "resourceVersion": "{{rv}}"})),
        put(kind.one, kind.made(metadata={"labels": {"a": "d"}, "resourceVersion": "{{rv}}"})),
        patch(kind.one, {"metadata": {"annotations": {"x": "y"}}}),
        patch(kind.one, {"metadata": {"annotations": {"x": "z"}}}, STRATEGIC),
        patch(kind.one, [{"op": "add", "path": "/metadata/annotations/q", "value": "r"}], JSON_PATCH),
        apply(kind.one, labelled, "other"),
    ]


def _shown(kind: Kind) -> list[Step]:
    one = f"{kind.path}?fieldSelector=metadata.name%3D{kind.least['metadata']['name']}"
    return [
        get(one),
        *[get(one + more, TABLE) for more in ("", "&includeObject=Object", "&includeObject=None")],
        get(one, PARTIAL_LIST),
        *[get(kind.one, form) for form in (TABLE, PARTIAL, YAML)],
        get(f"{kind.path}?fieldSelector=spec.nothing%3D1"),
        get(
            f"{kind.path}?fieldSelector=metadata.namespace%3D{{{{ns}}}}&labelSelector=a%3Dc",
            only=("kind", "code", "message"),
        ),
        get(f"{kind.path}?labelSelector=a%3Dzzz"),
    ]


def _refused(kind: Kind) -> list[Step]:
    return [
        put(kind.one, {**kind.made(), "kind": "Odd"}),
        put(kind.one, kind.made(metadata={"name": "other"})),
        *([patch(kind.one, {"kind": "Odd"})] if kind.kind != "CustomResourceDefinition" else []),
        patch(kind.one, "[]"),
        patch(kind.one, {}, "text/plain"),
        post(kind.one, {}),
        put(kind.path, kind.made()),
        patch(f"{kind.one}/status", {"status": {}}),
        *[get(f"{kind.one}/{subresource}") for subresource in ("status", "scale", "nothing")],
        delete(f"{kind.one}?dryRun=All"),
        delete(kind.one, {"preconditions": {"uid": "x"}}),
        delete(kind.one, {"propagationPolicy": "Odd"}),
    ]


def _deleted(kind: Kind) -> list[Step]:
    if kind.kind == "CustomResourceDefinition":
        # It goes when its objects are gone, which takes a moment.
        return [delete(f"{kind.one}?propagationPolicy=Foreground", only=("kind", "metadata.finalizers"))]
    return [
        delete(f"{kind.one}?propagationPolicy=Foreground"),
        get(kind.one),
        patch(kind.one, {"metadata": {"finalizers": None}}),
        get(kind.one),
        delete(kind.one),
    ]


SEQUENCES = tuple(
    sequence(
        f"whole-life-{plural.replace('.', '-')}",
        _made(kind),
        _changed(kind),
        _shown(kind),
        _refused(kind),
        _deleted(kind),
    )
    for plural, kind in KINDS.items()
)
