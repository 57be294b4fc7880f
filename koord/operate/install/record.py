"""What was installed: the settings, and a fingerprint of every object, in a ConfigMap beside the workloads.

It is written before the first object and again after the last one. So an interrupted installation can be
continued or removed completely, an upgrade knows the settings, and objects that a new version drops are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from koord.api.machinery.faults import BadInput
from koord.operate.install.manifest import Json, Key, key_of, made
from koord.operate.install.plan import NEVER_PRUNED, fingerprint
from koord.operate.install.settings import Settings

NAME: Final = "koord-installation"


class DamagedRecord(BadInput):
    """A record that cannot be read."""


class _Entry(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    api_version: str
    kind: str
    name: str
    namespace: str = ""
    applied: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    settings: Settings
    applied: Mapping[Key, str]
    "Fingerprints by object; empty for an object that may not have been written."

    def manifest(self) -> Json:
        entries = [_Entry(k.api_version, k.kind, k.name, k.namespace, text) for k, text in self.applied.items()]
        data = {
            "version": self.settings.version,
            "settings": msgspec.json.encode(self.settings, order="sorted").decode(),
            "objects": msgspec.json.encode(entries).decode(),
        }
        return made("v1", "ConfigMap", NAME, self.settings.namespace, data=data)


def begun(settings: Settings, desired: Iterable[Json], before: Record | None) -> Record:
    """The record before the first write: all objects that may exist from here on."""
    applied = dict(before.applied) if before is not None else {}
    return Record(settings, {**applied, **{key: applied.get(key, "") for key in map(key_of, desired)}})


def finished(settings: Settings, desired: Iterable[Json], before: Record | None = None) -> Record:
    """The record after the last write. Objects that upgrades never delete stay in it, for the uninstallation."""
    left = {key: "" for key in (before.applied if before is not None else {}) if key.kind in NEVER_PRUNED}
    return Record(settings, {**left, **{key_of(manifest): fingerprint(manifest) for manifest in desired}})


def read(manifest: Mapping[str, object]) -> Record:
    data = manifest.get("data")
    data = data if isinstance(data, Mapping) else {}
    key = key_of(manifest)
    try:
        settings = msgspec.json.decode(str(data.get("settings", "")), type=Settings)
        entries = msgspec.json.decode(str(data.get("objects", "")), type=list[_Entry])
    except msgspec.MsgspecError as error:
        raise DamagedRecord(f"{key}: cannot be read: {error}; delete it, and run koord install again") from None
    return Record(settings, {Key(e.api_version, e.kind, e.name, e.namespace): e.applied for e in entries})
