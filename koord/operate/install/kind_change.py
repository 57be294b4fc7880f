"""What a change of a CustomResourceDefinition would take from the objects that exist: asked before koord's definitions
are put in the place of others'.

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
"""The server keeps these of every object."""


def losses(live: Json, wanted: Json) -> tuple[str, ...]:
    """What objects and their clients have under `live` and would not have under `wanted`."""
    new = _versions(wanted)
    found: list[str] = []
    for name, version in _versions(live).items():
        if not version.get("served"):
            continue
        if not (after := new.get(name, {})).get("served"):
            found.append(f"version {name}")
            continue
        found += [f"{path} ({name})" for path in _dropped(_schema(version), _schema(after), "")]
        before, then = (isinstance(part_of(each, "subresources").get("status"), Mapping) for each in (version, after))
        if before != then:
            # Whoever writes both at once would lose one of them.
            found.append(f"status as {'a subresource' if before else 'part of the object'} ({name})")
    return tuple(found)


def _dropped(live: Mapping[str, object], wanted: Mapping[str, object], path: str) -> Iterator[str]:
    """Paths of fields that would be dropped. `wanted` is empty where nothing is said."""
    if (before := _type(live)) and (after := _type(wanted)) and not _fits(before, after):
        yield f"{path} as {before}"
        return
    keeps = wanted.get(_PRESERVES) is True
    if live.get(_PRESERVES) is True and not keeps and not wanted.get("additionalProperties"):
        yield f"{path}.*"
    known, further = part_of(wanted, "properties"), wanted.get("additionalProperties")
    for name, schema in part_of(live, "properties").items():
        here = f"{path}.{name}" if path else name
        same = known.get(name, further)
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
    found = listed if isinstance(listed, list) else []
    return {str(each.get("name", "")): each for each in found if isinstance(each, Mapping)}


def _schema(version: Mapping[str, object]) -> Mapping[str, object]:
    return part_of(version, "schema", "openAPIV3Schema")
