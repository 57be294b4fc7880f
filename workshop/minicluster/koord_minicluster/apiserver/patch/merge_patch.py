"""JSON merge patch (RFC 7386): a patch is the object with only what changes, and null where something goes.

apply({"a": 1, "b": {"c": 2}}, {"b": {"c": null, "d": 3}})  ->  {"a": 1, "b": {"d": 3}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from koord.api.text import go_text
from koord_minicluster.apiserver.status import bad_request


def apply(doc: Mapping[str, Any], patch: object) -> dict[str, Any]:
    """The document with the patch merged into it; 400 if the patch is no object."""
    if patch is None:
        raise bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise bad_request(f"error decoding patch: {go_text.not_into(patch)}")
    try:
        return _merged(doc, patch)
    except RecursionError:
        raise bad_request(go_text.TOO_DEEP) from None


def _merged(doc: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(doc)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
            continue
        current = result.get(key)
        if not isinstance(current, dict):
            result[key] = without_nulls(value)
        elif isinstance(value, dict):
            result[key] = _merged(current, value)
        else:
            result[key] = value
    return result


def without_nulls(value: Any) -> Any:
    """A value that had nothing to merge with: its nulls delete nothing, and do not stay. Nulls in lists do stay."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
