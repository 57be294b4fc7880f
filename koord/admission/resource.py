"""A resource that admission reviews: its type, its webhooks, its rules, and what the rules look up.

A new resource is one file that ends with its `RESOURCE`, and a line in `resources`. Webhook registration, reviews, the
manager's informers and `koord admit` all work from these descriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from koord.admission.hook import Hook
from koord.admission.rule import Mutating, Validating
from koord.api.configuration.features import ManagerGate
from koord.api.kinds import Kind
from koord.api.machinery.struct import Struct


@dataclass(frozen=True, slots=True)
class Lookup:
    """A field of `ClusterFacts`, and the objects that its value is made from."""

    field: str
    kinds: tuple[Kind[Any], ...]
    make: Callable[..., Any]
    "Makes the value from one list of objects per kind."
    gate: ManagerGate | None = None
    "The manager follows these kinds only while this gate is on."
    by_object: bool = False
    "Whether the value is updated in place, by `put(object)` and `remove(key)`. Otherwise each change makes a new one."
    shapes_hooks: bool = False
    "Whether webhook entries depend on it. The manager then has it before it registers webhooks, and registers them"
    " again when it changes."


@dataclass(frozen=True, slots=True)
class AdmissionResource:
    name: str
    "The plural, as in API paths."
    type: type[Struct]
    "The fields that rules rely on. An object that does not decode as this type is refused."
    hooks: Callable[[str], Iterable[Hook]]
    "Webhook entries. Receives the namespace that koord runs in."
    mutating: tuple[Mutating, ...] = ()
    "In the order in which they run."
    validating: tuple[Validating, ...] = ()
    "In the order in which they run."
    lookups: tuple[Lookup, ...] = ()
