"""Fields that koord's components wrote on objects of others, and the patches that remove them.

The API server records the writer of each field in managedFields. So exactly the fields that koord wrote are removed,
and fields that others wrote since stay.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from koord.operate.install.manifest import Json, metadata_of
from koord.operate.install.plan import managers_of

AGENT_WRITES: Final = "koord-agent"
WRITERS: Final = frozenset(
    {"koord-manager", AGENT_WRITES, "koord-scheduler", "koord-descheduler", "koord-yarn-operator", "koord-cli"}
)
"""koord's components, as managedFields name them. Koordinator's have the same names, except for its agent."""
_IN_META: Final = ("labels", "annotations")
_IN_STATUS: Final = ("allocatable", "capacity")


@dataclass(frozen=True, slots=True)
class Traces:
    """Strategic merge patches that remove koord's fields; None if there is nothing to remove."""

    object: Json | None
    status: Json | None
    names: tuple[str, ...]
    "The removed fields in readable form."


def traces(live: Mapping[str, object], writers: frozenset[str] = WRITERS) -> Traces:
    """koord's fields on a Node. `writers`: names of koord's components."""
    owned = [path for manager, path in _written(live) if manager in writers]
    meta: dict[str, Json] = {}
    status: dict[str, object] = {}
    spec: Json = {}
    names: list[str] = []
    for path in owned:
        match path:
            case ("metadata", part, name) if part in _IN_META:
                meta.setdefault(part, {})[name] = None
                names.append(f"{part.removesuffix('s')} {name}")
            case ("spec", "unschedulable"):
                spec["unschedulable"] = None
                names.append("unschedulable")
            case ("status", part, name) if part in _IN_STATUS:
                amounts = status.setdefault(part, {})
                assert isinstance(amounts, dict)
                amounts[name] = None
                names.append(f"{part} {name}")
            case ("status", "conditions", key):
                listed = status.setdefault("conditions", [])
                assert isinstance(listed, list)
                listed.append({"$patch": "delete", **_merge_key(key)})
                names.append(f"condition {_merge_key(key).get('type', key)}")
    uid: Json = {"uid": metadata_of(live).get("uid", "")}
    patch: Json | None = None
    if meta or spec:
        patch = {"metadata": {**uid, **meta}, **({"spec": spec} if spec else {})}
    return Traces(patch, {"metadata": uid, "status": status} if status else None, tuple(dict.fromkeys(names)))


def is_by_koord_alone(live: Mapping[str, object], writers: frozenset[str] = WRITERS) -> bool:
    """Whether only these writers, which are koord's, wrote the object."""
    managers = managers_of(live)
    return bool(managers) and set(managers) <= writers


def written_by(live: Mapping[str, object], path: tuple[str, ...]) -> tuple[str, ...]:
    """The writers of this field."""
    return tuple(dict.fromkeys(manager for manager, field in _written(live) if field == path))


def _written(live: Mapping[str, object]) -> Iterator[tuple[str, tuple[str, ...]]]:
    entries = metadata_of(live).get("managedFields")
    for entry in entries if isinstance(entries, list) else ():
        fields = entry.get("fieldsV1") if isinstance(entry, Mapping) else None
        if isinstance(fields, Mapping):
            for path in _paths(fields, ()):
                yield str(entry.get("manager", "")), path


def _paths(fields: Mapping[str, object], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The fields of an entry: leaves, and items of lists by their keys."""
    for name, below in fields.items():
        if name.startswith("k:"):
            yield (*above, name)
        elif name.startswith("f:"):
            path = (*above, name.removeprefix("f:"))
            deeper = isinstance(below, Mapping) and any(field != "." for field in below)
            if deeper and isinstance(below, Mapping):
                yield from _paths(below, path)
            else:
                yield path


def _merge_key(text: str) -> Json:
    try:
        key = json.loads(text.removeprefix("k:"))
    except ValueError:
        return {}
    return key if isinstance(key, dict) else {}
