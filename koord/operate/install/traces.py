"""What koord's components wrote on objects that are not koord's, and the patch that takes it off.

The API server records in managedFields who wrote which field. So exactly what koord wrote goes, whatever it was, and
what others wrote since stays.
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
"""Koord's components, as managedFields name them. Koordinator's have the same names, but for its agent."""
_IN_META: Final = ("labels", "annotations")
_IN_STATUS: Final = ("allocatable", "capacity")


@dataclass(frozen=True, slots=True)
class Traces:
    """Strategic merge patches that take them off; None where there is nothing to take."""

    object: Json | None
    status: Json | None
    names: tuple[str, ...]
    "For people."


def traces(live: Mapping[str, object], writers: frozenset[str] = WRITERS) -> Traces:
    """On a Node. `writers`: those of koord's."""
    owned = [path for manager, path in _written(live) if manager in writers]
    meta: dict[str, Json] = {}
    status: dict[str, object] = {}
    spec: Json = {}
    found: list[str] = []
    for path in owned:
        match path:
            case ("metadata", part, name) if part in _IN_META:
                meta.setdefault(part, {})[name] = None
                found.append(f"{part.removesuffix('s')} {name}")
            case ("spec", "unschedulable"):
                spec["unschedulable"] = None
                found.append("unschedulable")
            case ("status", part, name) if part in _IN_STATUS:
                amounts = status.setdefault(part, {})
                assert isinstance(amounts, dict)
                amounts[name] = None
                found.append(f"{part} {name}")
            case ("status", "conditions", key):
                listed = status.setdefault("conditions", [])
                assert isinstance(listed, list)
                listed.append({"$patch": "delete", **_merge_key(key)})
                found.append(f"condition {_merge_key(key).get('type', key)}")
    uid: Json = {"uid": metadata_of(live).get("uid", "")}
    patch: Json | None = None
    if meta or spec:
        patch = {"metadata": {**uid, **meta}, **({"spec": spec} if spec else {})}
    return Traces(patch, {"metadata": uid, "status": status} if status else None, tuple(dict.fromkeys(found)))


def is_by_koord_alone(live: Mapping[str, object], writers: frozenset[str] = WRITERS) -> bool:
    """Whether nobody but these writers of koord's wrote on it."""
    managers = managers_of(live)
    return bool(managers) and set(managers) <= writers


def written_by(live: Mapping[str, object], path: tuple[str, ...]) -> tuple[str, ...]:
    """Who wrote this field."""
    return tuple(dict.fromkeys(manager for manager, each in _written(live) if each == path))


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
            deeper = isinstance(below, Mapping) and any(each != "." for each in below)
            if deeper and isinstance(below, Mapping):
                yield from _paths(below, path)
            else:
                yield path


def _merge_key(text: str) -> Json:
    try:
        found = json.loads(text.removeprefix("k:"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
