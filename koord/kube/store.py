"""The store: what a kind's objects are right now, and exactly what changed.

A `Store` maps `namespace/name` to a record and keeps indexes over them. Every change goes through it and comes back as
deltas: replaying all deltas from the beginning gives the store. A relist yields only what really differs: an
object with the same uid and version is no change, one with the same name and another uid is a deletion and an addition.

Pure: no I/O and no clock. Identity and index functions must be functions of the record alone, because the store calls
them again on the old record to find what to take back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

import msgspec

from koord.api.machinery.struct import EMPTY

R = TypeVar("R")
Record = TypeVar("Record")

Identity: TypeAlias = tuple[str, str, str]
"""Key, uid and version: an object's identity and state."""

IndexKeys: TypeAlias = Callable[[R], Iterable[str]]
"""The keys under which an index finds a record; none, one or many."""


class Delta(msgspec.Struct, Generic[R], frozen=True, gc=False):
    """One change. `old` is what handlers were last told, also for a deletion."""

    key: str
    old: R | None
    new: R | None

    @property
    def type(self) -> Literal["added", "updated", "deleted"]:
        if self.old is None:
            return "added"
        return "deleted" if self.new is None else "updated"


Deltas: TypeAlias = tuple[Delta[R], ...]


def identity_of(record: Any) -> Identity:
    """The identity of a typed object, by its metadata."""
    metadata = record.metadata
    return metadata.key, metadata.uid, metadata.resource_version


class Store(Generic[R]):
    """Records by key, with indexes."""

    def __init__(
        self,
        identity: Callable[[R], Identity] = identity_of,
        indexes: Mapping[str, IndexKeys[R]] = EMPTY,
    ) -> None:
        self._identity = identity
        self._records: dict[str, R] = {}
        self._indexes: dict[str, _Index[R]] = {}
        for name, keys in indexes.items():
            self.add_index(name, keys)

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, key: object) -> bool:
        return key in self._records

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def get(self, key: str) -> R | None:
        return self._records.get(key)

    def records(self) -> list[R]:
        """All records, as a list that later changes leave alone."""
        return list(self._records.values())

    def by_index(self, name: str, key: str) -> list[R]:
        """The records that the index `name` has under `key`."""
        records = self._indexes[name].entries.get(key)
        return list(records.values()) if records else []

    def index_keys(self, name: str) -> list[str]:
        """The keys of the index `name` that have records."""
        return list(self._indexes[name].entries)

    def add_index(self, name: str, keys: IndexKeys[R]) -> None:
        """Adds an index over present and future records. The same index twice is no error; another of that name is."""
        present = self._indexes.get(name)
        if present is not None:
            if present.keys is not keys:
                raise ValueError(f"index {name!r} exists with another function; give the new one another name")
            return
        index = _Index(keys)
        for key, record in self._records.items():
            index.add(key, record)
        self._indexes[name] = index

    def put(self, record: R) -> Deltas[R]:
        """The object is now `record`. Index functions that fail do so before anything has changed."""
        key, uid, version = self._identity(record)
        old = self._records.get(key)
        if old is None:
            self._set(key, None, record)
            return (Delta(key, None, record),)
        _, old_uid, old_version = self._identity(old)
        if old_uid != uid:
            self._set(key, old, record)
            return Delta(key, old, None), Delta(key, None, record)
        if old_version == version:
            return ()
        self._set(key, old, record)
        return (Delta(key, old, record),)

    def delete(self, key: str) -> Deltas[R]:
        """The object is gone."""
        old = self._records.pop(key, None)
        if old is None:
            return ()
        for index in self._indexes.values():
            index.discard(key, old)
        return (Delta(key, old, None),)

    def uid(self, key: str) -> str | None:
        """The uid of the object that has this key, if one has."""
        record = self._records.get(key)
        return None if record is None else self._identity(record)[1]

    def relist(self) -> Relist[R]:
        """Begin to compare the store with a full list."""
        return Relist(self)

    def _set(self, key: str, old: R | None, new: R) -> None:
        changes = [(index, index.keys_of(new)) for index in self._indexes.values()]
        for index, new_keys in changes:
            index.move(key, old, new, new_keys)
        self._records[key] = new


class Relist(Generic[R]):
    """A full list on its way into a store, in pages.

    What the store had before and the list has not named by the end is gone. Memory is one set of references to
    keys, never a second copy of the records. Dropping a relist half-way is safe: nothing was deleted.
    """

    def __init__(self, store: Store[R]) -> None:
        self._store = store
        self._unseen = set(store)

    def put(self, record: R) -> Deltas[R]:
        deltas = self._store.put(record)
        if self._unseen:
            self._unseen.discard(self._store._identity(record)[0])
        return deltas

    def keep(self, key: str) -> None:
        """The list has this object, though not in a form that can be read: what is known of it stays."""
        self._unseen.discard(key)

    def delete(self, key: str) -> Deltas[R]:
        """The list had the object, and it is gone already."""
        self._unseen.discard(key)
        return self._store.delete(key)

    def finish(self) -> Iterator[Delta[R]]:
        """Delete what was not seen, one by one as the deltas are taken."""
        while self._unseen:
            yield from self._store.delete(self._unseen.pop())


class _Index(Generic[Record]):
    """Index key to the records under it, by their keys."""

    __slots__ = ("entries", "keys")

    def __init__(self, keys: IndexKeys[Record]) -> None:
        self.keys = keys
        self.entries: dict[str, dict[str, Record]] = {}

    def keys_of(self, record: Record) -> tuple[str, ...]:
        keys = self.keys(record)
        return cast("tuple[str, ...]", keys) if type(keys) is tuple else tuple(keys)

    def add(self, key: str, record: Record) -> None:
        self.move(key, None, record, self.keys_of(record))

    def discard(self, key: str, record: Record) -> None:
        for index_key in self.keys_of(record):
            self._remove(index_key, key)

    def move(self, key: str, old: Record | None, new: Record, new_keys: tuple[str, ...]) -> None:
        if old is not None:
            for index_key in self.keys_of(old):
                if index_key not in new_keys:
                    self._remove(index_key, key)
        for index_key in new_keys:
            records = self.entries.get(index_key)
            if records is None:
                self.entries[index_key] = {key: new}
            else:
                records[key] = new

    def _remove(self, index_key: str, key: str) -> None:
        records = self.entries.get(index_key)
        if records is not None:
            records.pop(key, None)
            if not records:
                del self.entries[index_key]
