"""A view: an informer's objects, overlaid with this process's own recent writes.

An informer lags behind, so a controller that uses it alone would create a pod twice. A view therefore shows each object
in its newest known state: the informer's, or the server's answer to our own write until the informer has caught up.
Versions of one kind are comparable numbers; the informer's own version shows how far it has read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from koord.api.machinery.struct import Struct
from koord.api.text.whole_number import natural_number
from koord.kube.informer import Informer
from koord.kube.store import Delta, IndexKeys
from koord_minicluster.controllers.ownership import HasMetadata

T = TypeVar("T", bound=HasMetadata)


class View(Generic[T]):
    """One kind of object. Reading costs what the informer costs while nothing of our own is on its way."""

    def __init__(self, informer: Informer[T]) -> None:
        self.informer = informer
        self._indexes: dict[str, IndexKeys[T]] = {}
        self._written: dict[str, tuple[int, T]] = {}
        self._deleted: dict[str, tuple[str, str]] = {}

    @property
    def has_synced(self) -> bool:
        return self.informer.has_synced

    async def synced(self) -> None:
        await self.informer.synced()

    def add_handler(self, handler: Callable[[Delta[T]], None], /) -> object:
        return self.informer.add_handler(handler)

    def add_index(self, name: str, keys: IndexKeys[T]) -> None:
        self.informer.add_index(name, keys)
        self._indexes[name] = keys

    def get(self, key: str) -> T | None:
        self._catch_up()
        record = self.informer.get(key)
        written = self._written.get(key)
        return self._as_known(key, record if written is None else written[1])

    def by_index(self, name: str, key: str) -> list[T]:
        self._catch_up()
        records = self.informer.by_index(name, key)
        if not self._written and not self._deleted:
            return records
        shown = {record.metadata.key: record for record in records}
        for own_key, (_, record) in self._written.items():
            if key in self._indexes[name](record):
                shown[own_key] = record
            else:
                shown.pop(own_key, None)
        shown_as = (self._as_known(own_key, record) for own_key, record in shown.items())
        return [record for record in shown_as if record is not None]

    def list(self) -> list[T]:
        """All that the informer has. For a first look; it does not show what is on its way."""
        return self.informer.list()

    def written(self, obj: T) -> None:
        """The server's answer to our write."""
        version = _version(obj.metadata.resource_version)
        if version > _version(self.informer.resource_version):
            self._written[obj.metadata.key] = (version, obj)

    def deleted(self, key: str, uid: str) -> None:
        """The server has agreed to delete this object: from here on it shows as being deleted."""
        record = self.informer.get(key)
        if record is not None and record.metadata.uid == uid and record.metadata.deletion_timestamp is None:
            self._deleted[key] = (uid, record.metadata.resource_version)
        elif key in self._written and self._written[key][1].metadata.uid == uid:
            self._deleted[key] = (uid, "")

    def _catch_up(self) -> None:
        """Forgets what the informer has by now."""
        if self._written:
            seen = _version(self.informer.resource_version)
            for key in [key for key, (version, _) in self._written.items() if version <= seen]:
                del self._written[key]
        if self._deleted:
            for key in [key for key, (uid, _) in self._deleted.items() if not self._still_there(key, uid)]:
                del self._deleted[key]

    def _still_there(self, key: str, uid: str) -> bool:
        """Whether the informer has yet to hear of the deletion."""
        record = self.informer.get(key)
        if record is not None and record.metadata.uid == uid:
            return record.metadata.deletion_timestamp is None
        return key in self._written and self._written[key][1].metadata.uid == uid

    def _as_known(self, key: str, record: T | None) -> T | None:
        mark = self._deleted.get(key)
        if record is None or mark is None or mark[0] != record.metadata.uid:
            return record
        if record.metadata.deletion_timestamp is not None:
            return record
        leaving = msgspec.structs.replace(record.metadata, deletion_timestamp=LEAVING)
        assert isinstance(record, Struct)
        return msgspec.structs.replace(record, metadata=leaving)


LEAVING = "1970-01-01T00:00:00Z"
"""The deletion time of what we have just deleted; the true one comes with the informer."""


def _version(text: str) -> int:
    return natural_number(text) or 0
