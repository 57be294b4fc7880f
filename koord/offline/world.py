"""The cluster that a set of manifests describes: nodes, pods that run on them, and pods that wait for a place.

A pod with a node counts as running there, unless it has finished. What an API server would have filled in is filled in:
defaults, and priorities from PriorityClasses. What cannot be understood is a fault with its place in the input; all
faults come together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from koord.admission.cluster_facts import SYSTEM_PRIORITIES
from koord.api import kinds
from koord.api.configuration.features import ManagerGate, parse_gates
from koord.api.kinds import Kind
from koord.api.kubernetes.core import PriorityClass
from koord.api.kubernetes.dynamic_resources import ResourceClaim, ResourceClaimTemplate
from koord.api.kubernetes.pod import Pod, PodSpec
from koord.api.kubernetes.policy import PodDisruptionBudget
from koord.api.kubernetes.storage import PersistentVolumeClaim, StorageClass
from koord.api.machinery.faults import BadInput, Fault, Invalid
from koord.api.protocol.priority import BANDS
from koord.api.text.manifest import Manifest, Manifests
from koord.api.workloads.pod_claims import claim_for, missing_claims, with_claims
from koord.offline import defaults
from koord.offline.arrival import KINDS as ARRIVAL_KINDS
from koord.offline.budgets import counted
from koord.offline.denials import denial
from koord.offline.plan_admission import PlanAdmission
from koord.scheduler.core.core import Core
from koord.scheduler.core.inputs import BY_KIND, INPUTS
from koord.scheduler.core.moment import Moment
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.object_faults import faults_of, idle_parts_of
from koord.scheduler.plugins.load_basis import load_basis_of
from koord.scheduler.profiles import Profiles
from koord.scheduler.state.cluster import Cluster


@dataclass(slots=True)
class World:
    """A cluster, its pending pods, and the pods that do not take part."""

    core: Core
    waiting: list[Ask] = field(default_factory=list)
    "The driver of the core puts them."
    running: dict[str, str] = field(default_factory=dict)
    "Pods that have a node already, and the node."
    skipped: dict[str, str] = field(default_factory=dict)
    "Pods that are not placed, and why."
    left: dict[str, str] = field(default_factory=dict)
    "Pods of another scheduler, or of a scheduler name that no scheduler serves, and why."
    denied: dict[str, str] = field(default_factory=dict)
    "Pods that the cluster would not take, and why."
    ignored: dict[str, int] = field(default_factory=dict)
    "Objects that played no part, by kind."
    warnings: list[str] = field(default_factory=list)
    pods: dict[str, Pod] = field(default_factory=dict)
    "Those that run or wait, as the cluster has them."

    @property
    def cluster(self) -> Cluster:
        return self.core.cluster

    def engine_of(self, ask: Ask) -> Engine | None:
        """The engine that decides about a pod; None for another scheduler's pod."""
        return self.core.feed.engine_of(ask)


def world_of(
    manifests: Manifests,
    profiles: Profiles,
    *,
    now_s: float,
    seed: int = 0,
    rounds: int | None = None,
    unanswered: Callable[[str], str] = lambda scheduler_name: "",
) -> World:
    """The world that manifests describe. Raises `Invalid` with every fault.

    `rounds`: how often a pod is tried at most; None for no limit. `unanswered`: why no scheduler serves a scheduler
    name; empty if one does.
    """
    now = Moment(now_s, now_s)
    core = Core(profiles, seed=seed, alone=True, now=now, scores=True, most_tries=rounds)
    builder = _Builder(manifests, core, seed, unanswered)
    for kind in NAMED:
        named = {"/".join(parts) for parts in core.feed.named(kind)}
        items = builder.by_kind.pop(kind, [])
        for item in items:
            if item.key in named:
                builder.take(item)
        builder.by_kind[kind] = [item for item in items if item.key not in named]
    for kind in KINDS:
        for item in builder.by_kind.pop(kind, ()):
            builder.take(item)
    world = builder.world
    ignored = Counter({kind.kind: len(items) for kind, items in builder.by_kind.items() if items})
    for name, number in manifests.unknown.items():
        ignored[name.rpartition(" ")[2]] += number
    world.ignored = dict(sorted(ignored.items()))
    if builder.faults:
        raise Invalid("manifests", builder.faults)
    world.warnings += _malformed(manifests, core)
    return world


def _malformed(manifests: Manifests, core: Core) -> Iterator[str]:
    """What the scheduler would say of objects that it does not understand whole. Of pods that wait, the plan itself
    says so."""
    alike: dict[tuple[str, str], list[str]] = {}
    named = {kind: {"/".join(parts) for parts in core.feed.named(kind)} for kind in NAMED}
    for item in manifests.items:
        if item.kind in named and item.key not in named[item.kind]:
            continue
        waits = isinstance(item.object, Pod) and not item.object.spec.node_name
        faults = () if waits else faults_of(item.kind, item.object)
        for fault in (*faults, *idle_parts_of(item.kind, item.object)):
            alike.setdefault((item.kind.kind, fault), []).append(item.key)
    for (kind, fault), keys in alike.items():
        more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
        yield f"{kind} {keys[0]}{more}: {fault}"


class _Builder:
    def __init__(self, manifests: Manifests, core: Core, seed: int, unanswered: Callable[[str], str]) -> None:
        self.unanswered = unanswered
        self.core = core
        self.world = World(core)
        self.faults = [Fault(str(problem.place), str(problem.fault)) for problem in manifests.faults]
        self.by_kind: dict[Kind[Any], list[Manifest]] = {}
        for item in manifests.items:
            self.by_kind.setdefault(item.kind, []).append(item)
        self.priorities: dict[str, PriorityClass] = {}
        self.default_priority: PriorityClass | None = None
        self.default_classes: list[StorageClass] = []
        self.specs: dict[int, tuple[PodSpec, str, PodSpec]] = {}
        self.all_pods = list(manifests.of(kinds.PODS))
        self.names = {pod.metadata.name for pod in self.all_pods}
        self.made_up: Counter[str] = Counter()
        self.claim_templates: dict[str, ResourceClaimTemplate] = {}
        self.admission = PlanAdmission(manifests.items, parse_gates(ManagerGate), seed)

    def take(self, item: Manifest) -> None:
        try:
            if isinstance(item.object, Pod):
                self.pod(item.object, item.data)
            else:
                filled_in = _FILLED_IN.get(item.kind)
                thing = item.object if filled_in is None else filled_in(self, item.object)
                if item.kind in BY_KIND:
                    self.core.put(item.kind, thing)
        except BadInput as error:
            self.faults.append(Fault(str(item.place), str(error)))

    def priority_class(self, given: PriorityClass) -> PriorityClass:
        self.priorities[given.metadata.name] = given
        # Of several defaults, Kubernetes takes the lowest.
        if given.global_default and (self.default_priority is None or given.value < self.default_priority.value):
            self.default_priority = given
        return given

    def storage_class(self, given: StorageClass) -> StorageClass:
        if defaults.is_default(given):
            self.default_classes.append(given)
        return given

    def claim(self, given: PersistentVolumeClaim) -> PersistentVolumeClaim:
        return defaults.claim(given, self.default_classes)

    def resource_claim(self, given: ResourceClaim) -> ResourceClaim:
        meta = given.metadata
        return given if meta.uid else replace(given, metadata=replace(meta, uid=f"claim {meta.key}"))

    def claim_template(self, given: ResourceClaimTemplate) -> ResourceClaimTemplate:
        self.claim_templates[given.metadata.key] = given
        return given

    def with_claims(self, pod: Pod) -> Pod:
        """A pod with the claims that are made for it from templates."""
        names: dict[str, str] = {}
        for entry in missing_claims(pod):
            key = f"{pod.metadata.namespace}/{entry.resource_claim_template_name}"
            template = self.claim_templates.get(key)
            if template is None:
                self.world.warnings.append(f"Pod {pod.metadata.key}: the ResourceClaimTemplate {key} does not exist")
                continue
            claim = claim_for(pod, entry, template)
            names[entry.name] = name = f"{claim.metadata.generate_name}0"
            claim = replace(claim, metadata=replace(claim.metadata, name=name))
            self.core.put(kinds.RESOURCE_CLAIMS, self.resource_claim(claim))
        return with_claims(pod, names) if names else pod

    def budget(self, given: PodDisruptionBudget) -> PodDisruptionBudget:
        return counted(given, self.all_pods)

    def pod(self, pod: Pod, data: Mapping[str, Any]) -> None:
        world = self.world
        name = pod.metadata.name or self._name(pod)
        refusal = ""
        if not pod.spec.node_name and not pod.is_finished:
            pod, refusal = self.admission.admitted(pod, data)
        if pod.metadata.name != name:
            pod = replace(pod, metadata=replace(pod.metadata, name=name))
        if refusal:
            world.denied[pod.metadata.key] = f"admission would refuse it: {refusal}"
            return
        pod, fault = self._completed(pod)
        key, node = pod.metadata.key, pod.spec.node_name
        if pod.is_finished:
            said = (pod.status.reason, pod.status.message)
            world.skipped[key] = ": ".join((f"has finished ({pod.status.phase})", *filter(None, said)))
            return
        if fault and not node:
            world.denied[key] = f"the API server would not take it: {fault}"
            return
        if pod.spec.priority is None:
            priority = self._priority(pod.spec.priority_class_name)
            if priority is None:
                world.denied[key] = f"no PriorityClass with name {pod.spec.priority_class_name} was found"
                return
            if priority:
                pod = replace(pod, spec=replace(pod.spec, priority=priority))
        if pod.spec.resource_claims and not node:
            pod = self.with_claims(pod)
        ask = Ask(pod)
        # What cannot be counted is found out here, with its place at hand.
        _ = ask.requests, ask.non_zero, load_basis_of(ask.pod, ask.template)
        world.pods[key] = pod
        if node:
            world.running[key] = node
            self.core.put(kinds.PODS, pod)
        elif pod.metadata.deletion_timestamp is not None:
            world.skipped[key] = "is being deleted"
        elif why := self.unanswered(str(pod.spec.scheduler_name)):
            world.left[key] = f"stays pending: {why}"
        elif world.engine_of(ask) is None:
            world.left[key] = f"is left to the scheduler {pod.spec.scheduler_name}"
        else:
            world.waiting.append(ask)

    def _name(self, pod: Pod) -> str:
        """A name for a pod without one: made up by a number here, so that equal inputs give equal plans."""
        base = pod.metadata.generate_name
        while (name := f"{base}{self.made_up[base]}") in self.names:
            self.made_up[base] += 1
        self.made_up[base] += 1
        return name

    def _completed(self, pod: Pod) -> tuple[Pod, str]:
        """A pod with its defaults, and why it would be denied."""
        # Pods of one template share their spec: it is kept, so that its id stays its own.
        cached = self.specs.get(id(pod.spec))
        if cached is None:
            spec = defaults.pod_spec(pod.spec)
            cached = self.specs[id(pod.spec)] = (spec, denial(spec), pod.spec)
        spec, fault, _ = cached
        return (pod if spec is pod.spec else replace(pod, spec=spec)), fault

    def _priority(self, name: str) -> int | None:
        """The value of a class; 0 without a class name, None if the class does not exist."""
        if not name:
            return self.default_priority.value if self.default_priority else 0
        given = self.priorities.get(name)
        if given is not None:
            return given.value
        if name in SYSTEM_PRIORITIES:
            return SYSTEM_PRIORITIES[name]
        # koord's own classes come with its installation; each has the lowest number of its band.
        return next((band.start for class_, band in BANDS.items() if class_ == name), None)


_FILLED_IN: Final[Mapping[Kind[Any], Callable[[_Builder, Any], Any]]] = {
    kinds.PRIORITY_CLASSES: _Builder.priority_class,
    kinds.STORAGE_CLASSES: _Builder.storage_class,
    kinds.PERSISTENT_VOLUME_CLAIMS: _Builder.claim,
    kinds.NODES: lambda builder, node: defaults.node(node),
    kinds.POD_DISRUPTION_BUDGETS: _Builder.budget,
    kinds.RESERVATIONS: lambda builder, reservation: defaults.reservation(reservation),
    kinds.RESOURCE_CLAIMS: _Builder.resource_claim,
    kinds.RESOURCE_CLAIM_TEMPLATES: _Builder.claim_template,
}
"""What an API server and controllers would have made of an object, by kind."""

KINDS: Final[tuple[Kind[Any], ...]] = tuple(
    dict.fromkeys(
        (
            kinds.PRIORITY_CLASSES,
            # The door has them: they decide what pods look like.
            kinds.CLUSTER_COLOCATION_PROFILES,
            *ARRIVAL_KINDS,
            # Claims are made from them for pods.
            kinds.RESOURCE_CLAIM_TEMPLATES,
            *(input_.kind for input_ in INPUTS if not input_.named_only),
        )
    )
)
"""The kinds that play a part, in the order in which they build on one another. All others are ignored."""
NAMED: Final[tuple[Kind[Any], ...]] = tuple(input_.kind for input_ in INPUTS if input_.named_only)
"""Kinds with single objects that plugins name."""
