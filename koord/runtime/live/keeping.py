"""The proxy's records on disk, one file each, so that a killed proxy knows after its restart what it knew before.

If the disk refuses a record, that is logged once. The runtime has already done what the record is about, so no call
fails for it; after a restart only the runtime's own lists are left.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from koord.api.machinery.codec import UNREADABLE
from koord.runtime.records import ContainerRecord, Records, SandboxRecord

T = TypeVar("T")

log = logging.getLogger(__name__)

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
"""What may be the name of a file."""


class Keeping:
    def __init__(self, folder: Path) -> None:
        self._sandboxes, self._containers = folder / "sandboxes", folder / "containers"
        for directory in (self._sandboxes, self._containers):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.records = Records(_read(self._sandboxes, SandboxRecord), _read(self._containers, ContainerRecord))
        self._told = ""

    def put(self, record: SandboxRecord | ContainerRecord) -> None:
        folder: Path
        if isinstance(record, SandboxRecord):
            self.records.sandboxes[record.id] = record
            folder = self._sandboxes
        else:
            self.records.containers[record.id] = record
            folder = self._containers
        if _ID.fullmatch(record.id):
            new = folder / f".{record.id}"
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                new.write_bytes(msgspec.json.encode(record))
                new.replace(folder / record.id)
                self._told = ""
            except OSError as error:
                self._complain(folder, error)

    def _complain(self, folder: Path, error: OSError) -> None:
        why = error.strerror or str(error)
        if why != self._told:
            log.error("%s: %s; a restart finds no records of pods that are created until then", folder, why)
            self._told = why

    def _unlink(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            self._complain(path.parent, error)

    def drop_sandbox(self, id: str) -> None:
        if self.records.sandboxes.pop(id, None) is not None:
            self._unlink(self._sandboxes / id)
        for container in [record.id for record in self.records.containers.values() if record.sandbox == id]:
            self.drop_container(container)

    def drop_container(self, id: str) -> None:
        if self.records.containers.pop(id, None) is not None:
            self._unlink(self._containers / id)

    def bring_in_line(self, records: Records) -> None:
        for gone in self.records.sandboxes.keys() - records.sandboxes.keys():
            self.drop_sandbox(gone)
        for gone in self.records.containers.keys() - records.containers.keys():
            self.drop_container(gone)
        for pod in records.sandboxes.values():
            self.records.sandboxes.setdefault(pod.id, pod)
        for container in records.containers.values():
            self.records.containers.setdefault(container.id, container)


def _read(folder: Path, kind: type[T]) -> dict[str, T]:
    records = {}
    for path in folder.iterdir():
        if path.name.startswith("."):
            path.unlink()
            continue
        try:
            records[path.name] = msgspec.json.decode(path.read_bytes(), type=kind)
        except (OSError, *UNREADABLE) as error:
            log.warning("%s is damaged and left out: %s", path, error)
            path.unlink(missing_ok=True)
    return records
