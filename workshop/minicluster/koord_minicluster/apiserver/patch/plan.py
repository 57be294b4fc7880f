"""How a value of some schema merges: the schema, reduced to what ownership and merging ask, compiled once.

A value is a leaf (a scalar, or a list or map that is owned as a whole), a map whose fields are owned one by one, a list
whose items are known by keys, or a set. Where the schema leaves the type open, the value itself decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

from koord.api import builtin_schemas as schemas
from koord.api.machinery.object_schema import MISSING, Schema
from koord.api.machinery.short_cache import LONGEST
from koord_minicluster.apiserver.patch import fields

Kind = Literal["scalar", "map", "list", "any"]
ANY_SCALAR: Final = "untyped"
_MOST_STEPS: Final = 4096


class Untyped(ValueError):
    """A value does not have the shape of its schema; the text says where and why, in the real server's words."""

    def __init__(self, *faults: str) -> None:
        super().__init__(faults[0] if len(faults) == 1 else "\n  ".join(("errors:", *faults)))
        self.faults = faults


Shape = tuple[fields.Set, tuple[tuple[str, str, "Plan"], ...]]
"""The set of a map with certain fields, written as if all were leaves, and name, step and plan of the others."""
Write = Callable[[Any], str]
"""Writes the set of a whole value."""


class Plan:
    """What to do with the values of one schema."""

    __slots__ = (
        "_steps", "atomic", "defaults", "element", "fields", "item",
        "keys", "kind", "leaf", "nullable", "open", "scalar", "shapes", "write",
    )  # fmt: skip

    def __init__(self, kind: Kind, *, atomic: bool = False, scalar: str = ANY_SCALAR, nullable: bool = False) -> None:
        self.kind = kind
        self.atomic = atomic
        self.leaf = kind == "scalar" or atomic
        "Whether the value is owned as a whole."
        self.scalar = scalar
        self.nullable = nullable
        self.open = True
        "Whether somewhere below the type is left open, so that true and 1 may stand at the same place."
        self.fields: dict[str, tuple[str, Plan]] = {}
        "Of a map: the declared fields, each with its step in field sets."
        self.shapes: dict[tuple[str, ...], Shape] = {}
        "Of a map: what is known of values with just these fields."
        self.write: Write | None = None
        "Made when it is first needed."
        self.element: Plan | None = None
        "Of a map: what undeclared fields are; None where there must be none."
        self.item: Plan = self
        "Of a list."
        self.keys: tuple[str, ...] = ()
        "Of a list of maps: what an item is known by, sorted. A list with no keys that is not atomic is a set."
        self.defaults: dict[str, Any] = {}
        self._steps: dict[object, str] = {}
        "Steps already worked out, by the keys' values: the same names return in most objects of a kind."

    def below(self, name: str) -> Plan:
        """The plan of a map's field."""
        field = self.fields.get(name)
        if field is not None:
            return field[1]
        return self.element or _DEDUCED

    def step(self, item: Any) -> str:
        """The step to an item of this list. Raises Untyped if it has none."""
        keys = self.keys
        if type(item) is dict and keys:
            if len(keys) == 1:
                key: object = item.get(keys[0])
                if type(key) is not str or len(key) > LONGEST:
                    return self._step(item)
            else:
                key = tuple([item.get(name) for name in keys])
                if not all(value.__class__ is int or (type(value) is str and len(value) <= LONGEST) for value in key):
                    return self._step(item)
            step = self._steps.get(key)
            if step is None:
                if len(self._steps) >= _MOST_STEPS:
                    self._steps.clear()
                step = self._steps[key] = self._step(item)
            return step
        return self._step(item)

    def _step(self, item: Any) -> str:
        if not self.keys:
            if isinstance(item, dict):
                raise Untyped("associative list without keys has an element that's a map type")
            if isinstance(item, list):
                raise Untyped("not supported: associative list with lists as elements")
            if item is None:
                raise Untyped("associative list without keys has an element that's an explicit null")
            return fields.value(item)
        if item is None:
            raise Untyped("associative list with keys may not have a null element")
        if not isinstance(item, dict):
            raise Untyped("associative list with keys may not have non-map elements")
        values = {}
        for name in self.keys:
            if name in item:
                values[name] = item[name]
            elif name in self.defaults:
                values[name] = self.defaults[name]
        if not values:
            listed = " ".join(f'"{name}"' for name in self.keys)
            raise Untyped(
                f"associative list with keys has an element that omits all key fields [{listed}] "
                "(and doesn't have default values for any key fields)"
            )
        return fields.key(values)

    def of(self, value: Any) -> Plan:
        """The plan that fits a value, where the type is open: maps by field, lists as a whole."""
        if self.kind != "any":
            return self
        if isinstance(value, dict):
            return _OPEN_MAP
        return _OPEN_LIST if isinstance(value, list) else _OPEN_SCALAR


_DEDUCED: Final = Plan("any")
_OPEN_MAP: Final = Plan("map")
_OPEN_MAP.element = _DEDUCED
_OPEN_LIST: Final = Plan("list", atomic=True)
_OPEN_LIST.item = _DEDUCED
_OPEN_SCALAR: Final = Plan("scalar")
_UNTYPED: Final = Plan("any", atomic=True)
_TEXT: Final = Plan("scalar", scalar="string")
_TEXT.open = False

_MOST_PLANS: Final = 50_000
_plans: dict[Schema, Plan] = {}


def plan_of(schema: Schema) -> Plan:
    """The plan of a schema."""
    plan = _plans.get(schema)
    if plan is None:
        if len(_plans) > _MOST_PLANS:
            # Schemas of custom kinds come and go; what is still used is soon compiled again.
            _plans.clear()
        plan = _compiled(schema)
    return plan


def _compiled(schema: Schema, *, preserve: bool = False) -> Plan:
    plan = _plans.get(schema)
    if plan is not None:
        return plan
    preserve = preserve or schema.preserve_unknown
    plan = _bare(schema)
    # Known before its fields are, since schemas may contain themselves.
    _plans[schema] = plan
    if plan.kind == "map":
        for name, child in schema.properties.items():
            plan.fields[name] = (fields.field(name), _compiled(child, preserve=preserve))
        if schema.embedded:
            _type_fields(plan)
        if schema.values is not None:
            plan.element = _compiled(schema.values, preserve=preserve)
        elif preserve or not schema.properties:
            plan.element = _UNTYPED if schema.format == "raw" else _DEDUCED
    elif plan.kind == "list":
        plan.item = _compiled(schema.items, preserve=preserve) if schema.items is not None else _UNTYPED
        if schema.list_type == "map" and schema.items is not None:
            plan.keys = tuple(sorted(schema.list_keys))
            for name in plan.keys:
                key = schema.items.properties.get(name)
                if key is not None and key.default is not MISSING:
                    plan.defaults[name] = key.default
                elif key is not None and (_is_always_there(key) or _may_be_nameless(schema.items)):
                    plan.defaults[name] = _zero(key)
    plan.open = _is_open(plan)
    return plan


def _is_always_there(field: Schema) -> bool:
    return field.written == "always" and not field.pointer


def _may_be_nameless(item: Schema) -> bool:
    """Whether an item without a name is one with an empty name: so it was, before names were asked for."""
    return item.ref.endswith(".LocalObjectReference")


def _is_open(plan: Plan) -> bool:
    if plan.kind == "list":
        return plan.item.open
    below = [child for name, (_, child) in plan.fields.items() if name != "managedFields"]
    if plan.element is not None:
        below.append(plan.element)
    return plan.kind == "any" or any(child.open for child in below)


def _bare(schema: Schema) -> Plan:
    nullable = schema.nullable
    if schema.format == "raw":
        return Plan("any", atomic=True, nullable=nullable)
    if schema.type == "object":
        return Plan("map", atomic=schema.atomic_map, nullable=nullable)
    if schema.type == "array":
        return Plan("list", atomic=schema.list_type == "atomic", nullable=nullable)
    if schema.type == "any" and not schema.int_or_string and schema.format != "quantity":
        return Plan("any", nullable=nullable)
    return Plan("scalar", scalar=_scalar(schema), nullable=nullable)


def _scalar(schema: Schema) -> str:
    if schema.type in ("integer", "number"):
        return "numeric"
    if schema.type == "boolean":
        return "boolean"
    return "string" if schema.type == "string" and schema.format in ("", "byte") else ANY_SCALAR


def _type_fields(plan: Plan) -> None:
    """Gives an object its apiVersion, kind and metadata, which schemas of custom kinds need not declare."""
    for name in ("apiVersion", "kind"):
        plan.fields[name] = (fields.field(name), _TEXT)
    plan.fields["metadata"] = (fields.field("metadata"), _compiled(schemas.object_meta()))


_roots: dict[Schema, Plan] = {}


def root_plan(schema: Schema) -> Plan:
    """The plan of a whole object."""
    plan = _roots.get(schema)
    if plan is None:
        if len(_roots) > _MOST_PLANS:
            _roots.clear()
        compiled = plan_of(schema)
        plan = Plan("map")
        plan.fields.update(compiled.fields)
        plan.element = compiled.element
        _type_fields(plan)
        _roots[schema] = plan
    return plan


_empties: dict[Schema, dict[str, Any]] = {}


def empty(schema: Schema) -> dict[str, Any]:
    """What a new object of a built-in kind holds before anything is set: the fields that always appear."""
    if not schema.ref:
        return {}
    emptied = _empties.get(schema)
    if emptied is None:
        emptied = _empties[schema] = _empty(schema)
    return emptied


def _empty(schema: Schema) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, child in schema.properties.items():
        if child.written != "always":
            continue
        if child.pointer or child.type in ("array", "any") or child.values is not None:
            result[name] = None
        elif child.type == "object":
            result[name] = _empty(child) if child.format != "raw" else None
        elif child.type == "string" and child.format in ("date-time", "micro-time"):
            result[name] = None
        else:
            result[name] = _zero(child)
    return result


def _zero(schema: Schema) -> str | int:
    if schema.type == "string":
        return ""
    return False if schema.type == "boolean" else 0
