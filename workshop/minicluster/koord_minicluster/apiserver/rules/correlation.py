"""A value beside what it was: which old item stands for a new one, and whether anything changed.

Items of lists are matched by their keys, if they have any. A value that an update did not touch may stay invalid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from koord.api.cel.declared import is_described
from koord.api.machinery.object_schema import Schema
from koord_minicluster.apiserver.status import shown


@dataclass(slots=True)
class Correlation:
    """A value beside what it was."""

    schema: Schema
    value: Any
    old: Any
    _is_same: bool | None = None
    _old_items: OldItems | None = None

    def key(self, name: str) -> Correlation | None:
        old, value = self.old, self.value
        if not isinstance(old, dict) or not isinstance(value, dict) or name not in old or name not in value:
            return None
        inner = self.schema.properties.get(name) or (self.schema.values if is_described(self.schema.values) else None)
        return None if inner is None else Correlation(inner, value[name], old[name])

    def item(self, item: Any) -> Correlation | None:
        if self._old_items is None:
            self._old_items = OldItems(self.schema, self.old)
        old = self._old_items.counterpart(item)
        return None if old is None or self.schema.items is None else Correlation(self.schema.items, item, old)

    def is_same(self) -> bool:
        if self._is_same is None:
            self._is_same = self._compare()
        return self._is_same

    def _compare(self) -> bool:
        value, old = self.value, self.old
        if isinstance(value, list) and isinstance(old, list):
            if self.schema.list_type != "map" or not value:
                return value == old
            inner = [self.item(item) for item in value]
            return len(value) == len(old) and all(item is not None and item.is_same() for item in inner)
        if isinstance(value, dict) and isinstance(old, dict):
            inner = [self.key(name) for name in value]
            return len(value) == len(old) and all(item is not None and item.is_same() for item in inner)
        return type(value) is type(old) and bool(value == old)


class OldItems:
    """The items of an old list by their keys, if they have some."""

    def __init__(self, schema: Schema, items: Any) -> None:
        self._keys = schema.list_keys
        is_keyed = schema.list_type == "map" and isinstance(items, list)
        self._by_keys = {self._key(item): item for item in reversed(items)} if is_keyed else {}

    def counterpart(self, item: Any) -> Any:
        """What stands for an item in the old list; None if nothing does."""
        return self._by_keys.get(self._key(item)) if isinstance(item, dict) and self._by_keys else None

    def _key(self, item: Any) -> tuple[str, ...]:
        return tuple(shown(item.get(key)) for key in self._keys) if isinstance(item, dict) else ()
