"""A rule of admission: when it runs, and what it may use to decide.

Mutating rules turn an object into the object to be stored. Validating rules find faults; the first rule that finds
any decides. Rules of one resource see each other's changes. Metrics and logs use the rules' names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from koord.admission import typed
from koord.admission.cluster_facts import ClusterFacts
from koord.admission.plain import part
from koord.admission.request import Gates, Json, Operation, Request
from koord.api.configuration.features import ManagerGate
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.faults import Fault

CREATE: Final[tuple[Operation, ...]] = ("CREATE",)
UPDATE: Final[tuple[Operation, ...]] = ("UPDATE",)
DELETE: Final[tuple[Operation, ...]] = ("DELETE",)
WRITES: Final[tuple[Operation, ...]] = ("CREATE", "UPDATE")


@dataclass(slots=True)
class RuleContext:
    """One request, with everything that rules may use to decide about it. Typed pods are made on first use."""

    request: Request
    facts: ClusterFacts
    gates: Gates
    seed: int = 0
    warnings: list[str] = field(default_factory=list)
    _pod: Pod | None = None
    _old_pod: Pod | None = None

    @property
    def namespace(self) -> str:
        own = part(self.request.object or {}, "metadata").get("namespace")
        return own or self.request.namespace

    @property
    def pod(self) -> Pod:
        if self._pod is None:
            self._pod = typed.pod(self.request.object or {})
        return self._pod

    @property
    def old_pod(self) -> Pod:
        if self._old_pod is None:
            self._old_pod = typed.pod(self.request.old or {})
        return self._old_pod

    def priority(self, pod: Pod) -> int | None:
        return self.facts.priority(pod.spec.priority, pod.spec.priority_class_name)


Mutate = Callable[[RuleContext, Json], Json]
Validate = Callable[[RuleContext], Iterable[Fault]]


@dataclass(frozen=True, slots=True)
class AdmissionRule:
    """When a rule runs. A rule with a `gate` runs while the gate is on, a rule with `off_by` while that gate is off."""

    name: str
    resource: str
    operations: tuple[Operation, ...]
    subresource: str = ""
    gate: ManagerGate | None = None
    off_by: ManagerGate | None = None
    to_the_end: bool = False
    "Whether it also applies to pods that are being deleted."

    def concerns(self, request: Request, gates: Gates) -> bool:
        if request.resource != self.resource or request.subresource != self.subresource:
            return False
        if request.operation not in self.operations:
            return False
        return (self.gate is None or gates[self.gate]) and (self.off_by is None or not gates[self.off_by])


@dataclass(frozen=True, slots=True)
class Mutating(AdmissionRule):
    run: Mutate = lambda context, obj: obj


@dataclass(frozen=True, slots=True)
class Validating(AdmissionRule):
    run: Validate = lambda context: ()
