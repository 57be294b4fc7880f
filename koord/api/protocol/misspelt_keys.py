"""Labels and annotations whose keys are not the protocol's, but nearly: `koordinator.sh/qosclass`.

The key then has no effect, and no schema finds it. A key counts as misspelt if its domain and its name are both close
to those of one of the protocol's. Other unknown keys are left alone: a newer version may know them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from koord.api.machinery.faults import Fault
from koord.api.protocol import names

MOST_COMPARED: Final = 16
"""Keys of one object that are compared with the protocol's. Each costs up to a millisecond."""
_DOMAIN_CUTOFF, _NAME_CUTOFF = 0.7, 0.8
_SPELLINGS: Final = ("koord", "alibabacloud")
_KEYS: Final = frozenset(
    str(key)
    for constant, key in vars(names).items()
    if isinstance(key, str) and "/" in key and not constant.startswith("RESOURCE_")
)
_PREFIXES: Final = tuple(key for key in _KEYS if key.endswith("/"))


def misspelt_keys(meta: Mapping[str, Any], path: str = "metadata") -> Iterator[Fault]:
    """One fault for each label and annotation of plain metadata whose key is nearly one of the protocol's."""
    for field in ("labels", "annotations"):
        texts = meta.get(field)
        if isinstance(texts, Mapping):
            for key, near in misspelt(key for key in texts if isinstance(key, str)):
                yield Fault(f"{path}.{field}[{key}]", f"koord does not know this key (did you mean {near}?)")


def misspelt(keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Keys that are misspelt, each with the nearest one of the protocol."""
    unknown = (key for key in keys if _is_unknown(key))
    for key in islice(unknown, MOST_COMPARED):
        if near := _nearest(key):
            yield key, near


def _is_unknown(key: str) -> bool:
    domain, slash, _ = key.partition("/")
    is_ours = slash and any(spelling in domain for spelling in _SPELLINGS)
    return bool(is_ours) and key not in _KEYS and not key.startswith(_PREFIXES)


@lru_cache(1024)
def _nearest(key: str) -> str:
    """Empty: none is near."""
    domain, _, name = key.partition("/")
    nearest, most = "", 0.0
    for candidate in _KEYS:
        other_domain, _, other = candidate.partition("/")
        by_name = _likeness(name, other, _NAME_CUTOFF)
        by_domain = _likeness(domain, other_domain, _DOMAIN_CUTOFF) if by_name else 0.0
        if by_domain and (by_name + by_domain, candidate) > (most, nearest):
            nearest, most = candidate, by_name + by_domain
    return nearest


@lru_cache(1024)
def _likeness(text: str, other: str, cutoff: float) -> float:
    """From 0 to 1; 0 below the cutoff."""
    matcher = SequenceMatcher(None, text.lower(), other.lower())
    if matcher.real_quick_ratio() < cutoff or matcher.quick_ratio() < cutoff:
        return 0.0
    ratio = matcher.ratio()
    return ratio if ratio >= cutoff else 0.0
