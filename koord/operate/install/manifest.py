"""An object as plain data, with its name, its labels, and its key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

Json: TypeAlias = dict[str, object]

PART_OF: Final = "app.kubernetes.io/part-of"
NAME: Final = "app.kubernetes.io/name"
COMPONENT: Final = "app.kubernetes.io/component"
KOORD: Final = "koord"
FIELD_MANAGER: Final = "koord-install"


@dataclass(frozen=True, slots=True)
class Key:
    """Which object."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {where}"


def part_of(manifest: Mapping[str, object], *path: str) -> Mapping[str, object]:
    """A map inside of it; empty where there is none."""
    value: object = manifest
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def metadata_of(manifest: Mapping[str, object]) -> Mapping[str, object]:
    return part_of(manifest, "metadata")


def key_of(manifest: Mapping[str, object]) -> Key:
    meta = metadata_of(manifest)
    return Key(
        str(manifest.get("apiVersion", "")),
        str(manifest.get("kind", "")),
        str(meta.get("name", "")),
        str(meta.get("namespace", "")),
    )


def labels_of(manifest: Mapping[str, object]) -> Mapping[str, object]:
    return part_of(manifest, "metadata", "labels")


def annotations_of(manifest: Mapping[str, object]) -> Mapping[str, object]:
    return part_of(manifest, "metadata", "annotations")


def made(api_version: str, kind: str, name: str, namespace: str = "", *, component: str = "", **rest: object) -> Json:
    """An object of koord's, labelled as such."""
    labels: Json = {NAME: f"koord-{component}" if component else KOORD, PART_OF: KOORD}
    if component:
        labels[COMPONENT] = component
    own = rest.pop("labels", None)
    if isinstance(own, Mapping):
        labels |= own
    metadata: Json = {"name": name, "labels": labels}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}
