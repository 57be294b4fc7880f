"""An object after a merge patch, as an API server would store it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from koord.api.machinery.codec import convert, encode

T = TypeVar("T")


def patched(thing: T, patch: Mapping[str, Any]) -> T:
    """What a patch says is None is taken away."""
    return convert(type(thing), _merged(msgspec.json.decode(encode(thing)), patch))


def _merged(data: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(data) if isinstance(data, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged
