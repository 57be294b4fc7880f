"""docs/reference/kinds.md: every kind with its fields, as `kubectl explain` has them."""

from __future__ import annotations

from collections.abc import Iterator

from koord.api.machinery.descriptions import type_description
from koord.api.protocol.crd.definitions import DEFINITIONS, Definition
from tools.reference.structs import Tables, escaped


def page() -> tuple[str, list[str]]:
    """The page, and the fields that have no description."""
    tables = Tables(level=3)
    return "\n".join([*_head(), *(line for one in DEFINITIONS for line in _kind(one, tables))]), tables.undescribed


def _head() -> Iterator[str]:
    yield "# Fields of the kinds"
    yield ""
    yield "Every field of koord's kinds. `kubectl explain` prints the same, and [The kinds](../kinds.md) says what each"
    yield "kind is for. A type that several fields have is described once, where it is used first."
    yield ""


def _kind(definition: Definition, tables: Tables) -> Iterator[str]:
    kind = definition.kind
    yield f"## {kind.kind}"
    yield ""
    yield escaped(type_description(kind.type))
    yield ""
    scope = "in a namespace" if kind.namespaced else "for the cluster"
    short = "".join(f", short `{name}`" for name in definition.short_names)
    yield f"`{kind.group}/{kind.version}`, {scope}, `{kind.plural}`{short}."
    yield ""
    yield from tables.of(kind.type, skip=("metadata",))
