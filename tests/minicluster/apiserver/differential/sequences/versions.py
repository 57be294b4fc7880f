"""Definitions with several versions: what is kept of an object that was written in one and is read in another."""

from __future__ import annotations

from typing import Any

from tests.minicluster.apiserver.differential.sequences.definitions import spec_schema, version
from tests.minicluster.apiserver.differential.steps import (
    CRDS,
    CUSTOM,
    Step,
    apply,
    crd,
    delete,
    get,
    patch,
    post,
    put,
    rv,
    sequence,
    served,
    widget,
)

V1, V2 = CUSTOM, CUSTOM.replace("/v1/", "/v2/")
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TEXT = {"type": "string"}


def _widget(name: str, **parts: Any) -> dict[str, Any]:
    return {**widget(name, **parts), "apiVersion": "{{seq}}.example.com/v2"}


def _defined(first: dict[str, Any]) -> list[Step]:
    """Stored as v1, by this schema; v2 has the fields a and b."""
    versions = [version("v1", schema=first), version("v2", storage=False, schema=spec_schema(a=TEXT, b=TEXT))]
    return [post(CRDS, crd(versions=versions)), served(), served(V2)]


SEQUENCES = (
    sequence(
        "versions-owners-patch",
        _defined(spec_schema(a=TEXT)),
        post(V1, widget("w", spec={"a": "1"})),
        patch(f"{V2}/w", {"spec": {"a": "2"}}),
        patch(f"{V2}/w", {"spec": {"b": "2"}}),
        get(f"{V1}/w"),
        get(f"{V2}/w"),
        patch(f"{V1}/w", {"spec": {"a": "3"}}),
        get(f"{V2}/w"),
        patch(f"{V2}/w", {"spec": {"a": "4"}}),
        patch(f"{V1}/w", {"metadata": {"labels": {"x": "y"}}}),
        get(f"{V2}/w"),
        patch(f"{V2}/w", {"spec": {"b": None}}),
        get(f"{V2}/w"),
    ),
    sequence(
        "versions-owners-apply",
        _defined(spec_schema(a=TEXT)),
        apply(f"{V1}/w", widget("w", spec={"a": "1"}), "one"),
        apply(f"{V2}/w", _widget("w", spec={"b": "2"}), "two"),
        get(f"{V2}/w"),
        apply(f"{V2}/w", _widget("w", spec={"a": "2"}), "two"),
        apply(f"{V2}/w", _widget("w", spec={"a": "1"}), "two"),
        get(f"{V1}/w"),
        apply(f"{V2}/w", _widget("w", spec={"a": "1", "b": "1"}), "one"),
        apply(f"{V1}/w", widget("w", spec={"a": "5"}), "one", True),
        get(f"{V2}/w"),
    ),
    sequence(
        "versions-written-in-the-other",
        _defined(spec_schema(a=TEXT)),
        post(V2, _widget("w", spec={"a": "1", "b": "1"})),
        get(f"{V1}/w"),
        patch(f"{V1}/w", {"spec": {"a": "2"}}),
        get(f"{V2}/w"),
        apply(f"{V1}/w", widget("w", spec={"a": "5"}), "one", True),
        get(f"{V2}/w"),
        put(f"{V1}/w", widget("w", spec={"a": "6"}, metadata={"resourceVersion": "0"})),
        rv(get(f"{V1}/w")),
        put(f"{V1}/w", widget("w", spec={"a": "6"}, metadata={"resourceVersion": "{{rv}}"})),
        get(f"{V2}/w"),
        get(V1),
        get(V2),
        patch(f"{V2}/w", {"spec": {"a": None, "b": None}}),
        delete(f"{V1}/w"),
    ),
    sequence(
        "versions-stored-with-more",
        _defined(ANYTHING),
        post(V1, widget("w", spec={"a": "1", "b": "2", "c": "3"})),
        get(f"{V2}/w"),
        patch(f"{V2}/w", {"spec": {"b": "9"}}),
        get(f"{V1}/w"),
        patch(f"{V1}/w", {"spec": {"d": "1"}}),
        get(f"{V2}/w"),
        apply(f"{V2}/w", _widget("w", spec={"b": "7"}), "two"),
        apply(f"{V2}/w", _widget("w", spec={"b": "7"}), "two", True),
        get(f"{V1}/w"),
    ),
)
