"""The shapes of Kubernetes' built-in kinds, from a table of facts.

`facts.json` is written by tools/builtin_schemas.py from a real server's OpenAPI; `metrics.json`, of the same form, by
hand, since metrics.k8s.io is another program's. Trees are built when first asked for: a definition is built once and
shared by all who refer to it.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from koord.api.machinery.object_schema import MISSING, Schema, Type

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
POD_TEMPLATE: Final = "io.k8s.api.core.v1.PodTemplateSpec"
_PARTS: Final = ("facts.json", "metrics.json")
_WRITTEN: Final = {"n": "filled", "a": "always", "A": "always"}
Facts = dict[str, Any]


def builtin(ref: str) -> Schema:
    """The schema of a definition, by its name in OpenAPI."""
    return _builder().definition(ref)


def schema_for(group: str, version: str, kind: str) -> Schema:
    """The schema of a built-in kind; KeyError where there is none."""
    return builtin(ref_of(group, version, kind))


def ref_of(group: str, version: str, kind: str) -> str:
    """The name in OpenAPI of a built-in kind; KeyError where there is none."""
    ref: str = _facts()["kinds"][f"{group}/{version}/{kind}"]
    return ref


def object_meta() -> Schema:
    return builtin(META + "ObjectMeta")


@cache
def _facts() -> Facts:
    whole: Facts = {"kinds": {}, "definitions": {}}
    for name in _PARTS:
        part = msgspec.json.decode(files(__package__).joinpath(name).read_bytes())
        for section, table in whole.items():
            table.update(part[section])
    return whole


@cache
def _builder() -> _Builder:
    return _Builder(_facts()["definitions"])


class _Builder:
    def __init__(self, definitions: dict[str, dict[str, Any]]) -> None:
        self._facts, self._built = definitions, dict[str, Schema]()

    def definition(self, ref: str) -> Schema:
        built = self._built.get(ref)
        if built is None:
            facts = self._facts[ref]
            properties: dict[str, Schema] = {}
            # Known before its properties are, since JSON schemas contain themselves.
            built = self._built[ref] = self._schema(facts, properties, ref)
            for name, fact in facts.get("p", {}).items():
                properties[name] = self._schema(fact, {}, "")
        return built

    def _schema(self, fact: dict[str, Any], properties: dict[str, Schema], ref: str) -> Schema:
        base = self.definition(fact["r"]) if "r" in fact else None
        format_ = fact.get("f", base.format if base else "")
        type_: Type = fact.get("t") or (base.type if base else "any")
        items, values = fact.get("i"), fact.get("v")
        return Schema(
            type=type_,
            format=format_,
            properties=base.properties if base else properties,
            items=self._schema(items, {}, "") if items else base.items if base else None,
            values=self._schema(values, {}, "") if values else base.values if base else None,
            required=base.required if base else tuple(fact.get("q", ())),
            default=fact.get("d", MISSING),
            enum=tuple(fact.get("e", ())),
            list_type=fact.get("l", "atomic"),
            list_keys=tuple(fact.get("k", ())),
            atomic_map=bool(fact["a"]) if "a" in fact else bool(base and base.atomic_map),
            patch_strategies=frozenset(fact["s"].split(",")) if "s" in fact else frozenset(),
            patch_merge_key=fact.get("m", ""),
            preserve_unknown=bool(fact.get("x")) or bool(base and base.preserve_unknown),
            int_or_string=format_ == "int-or-string",
            written=_WRITTEN.get(fact.get("w", ""), "set"),  # type: ignore[arg-type] # the table's values are Written
            pointer=fact.get("w") == "A",
            go_type=fact.get("g", base.go_type if base else ref.rpartition(".")[2]),
            go_within=fact.get("u", ""),
            ref=fact.get("r", ref),
        )
