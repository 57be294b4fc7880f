"""What was installed: the settings, and a fingerprint of every object, in a ConfigMap beside the workloads.

It is written before the first object and again after the last one. So an installation that was interrupted can be
continued or taken away whole, an upgrade knows the settings, and what a new version no longer has is deleted.
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
    "By object; empty for one that may not have been reached."

    def manifest(self) -> Json:
        entries = [_Entry(k.api_version, k.kind, k.name, k.namespace, text) for k, text in self.applied.items()]
        data = {
            "version": self.settings.version,
            "settings": msgspec.json.encode(self.settings, order="sorted").decode(),
            "objects": msgspec.json.encode(entries).decode(),
        }
        return made("v1", "ConfigMap", NAME, self.settings.namespace, data=data)


def begun(settings: Settings, desired: Iterable[Json], before: Record | None) -> Record:
    """Before the first write: all that may be there from here on."""
    known = dict(before.applied) if before is not None else {}
    return Record(settings, {**known, **{key: known.get(key, "") for key in map(key_of, desired)}})


def finished(settings: Settings, desired: Iterable[Json], before: Record | None = None) -> Record:
    """What is never deleted on the way stays in the record, for the day when all of it goes."""
    left = {key: "" for key in (before.applied if before is not None else {}) if key.kind in NEVER_PRUNED}
    return Record(settings, {**left, **{key_of(each): fingerprint(each) for each in desired}})


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
