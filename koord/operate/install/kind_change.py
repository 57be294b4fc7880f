"""What existing objects would lose by a change of their CustomResourceDefinition: checked before koord's definitions
replace those of others.

An API server drops whatever a definition does not name ("pruning"), without a word, when an object is next read. So
every field, version and subresource of the live definition has to be in the wanted one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from koord.operate.install.manifest import Json, part_of

_PRESERVES: Final = "x-kubernetes-preserve-unknown-fields"
_EITHER: Final = "x-kubernetes-int-or-string"
_ROOT: Final = frozenset({"apiVersion", "kind", "metadata"})
"""The server keeps these fields of every object."""


def losses(live: Json, wanted: Json) -> tuple[str, ...]:
    """Fields, versions and subresources of `live` that are missing from `wanted`."""
    new = _versions(wanted)
    lost: list[str] = []
    for name, version in _versions(live).items():
        if not version.get("served"):
            continue
        if not (after := new.get(name, {})).get("served"):
            lost.append(f"version {name}")
            continue
        lost += [f"{path} ({name})" for path in _dropped(_schema(version), _schema(after), "")]
        before, then = (
            isinstance(part_of(definition, "subresources").get("status"), Mapping) for definition in (version, after)
        )
        if before != then:
            # A client that writes spec and status in one request would lose one of them.
            lost.append(f"status as {'a subresource' if before else 'part of the object'} ({name})")
    return tuple(lost)


def _dropped(live: Mapping[str, object], wanted: Mapping[str, object], path: str) -> Iterator[str]:
    """Paths of fields that would be dropped. `wanted` is empty if the definition has no schema there."""
    if (before := _type(live)) and (after := _type(wanted)) and not _fits(before, after):
        yield f"{path} as {before}"
        return
    keeps = wanted.get(_PRESERVES) is True
    if live.get(_PRESERVES) is True and not keeps and not wanted.get("additionalProperties"):
        yield f"{path}.*"
    properties, further = part_of(wanted, "properties"), wanted.get("additionalProperties")
    for name, schema in part_of(live, "properties").items():
        here = f"{path}.{name}" if path else name
        same = properties.get(name, further)
        if same is True or (not path and name in _ROOT):
            continue
        if isinstance(same, Mapping) and isinstance(schema, Mapping):
            yield from _dropped(schema, same, here)
        elif not keeps:
            yield here
    values = live.get("additionalProperties")
    if values and not keeps and further is not True:
        if not isinstance(further, Mapping):
            yield f"{path}.*"
        elif isinstance(values, Mapping):
            yield from _dropped(values, further, f"{path}.*")
    items = live.get("items")
    if isinstance(items, Mapping):
        yield from _dropped(items, part_of(wanted, "items"), f"{path}[]")


def _type(schema: Mapping[str, object]) -> str:
    return "integer or string" if schema.get(_EITHER) is True else str(schema.get("type") or "")


def _fits(before: str, after: str) -> bool:
    wider = {"integer or string": ("integer", "string"), "number": ("integer",)}
    return before == after or before in wider.get(after, ())


def _versions(definition: Json) -> dict[str, Mapping[str, object]]:
    listed = part_of(definition, "spec").get("versions")
    versions = listed if isinstance(listed, list) else []
    return {str(item.get("name", "")): item for item in versions if isinstance(item, Mapping)}


def _schema(version: Mapping[str, object]) -> Mapping[str, object]:
    return part_of(version, "schema", "openAPIV3Schema")
