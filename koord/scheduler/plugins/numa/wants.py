"""What a pod asks of CPUs and NUMA nodes.

Only pods of class LSE or LSR and of prod priority get CPUs of their own, unless the node binds all its pods. The
required policy comes before the preferred one, and where both are empty or Default the plugin's arguments decide.
ConstrainedBurst binds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from koord.api.protocol import names
from koord.api.protocol.annotations.cpu import NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC
from koord.api.protocol.annotations.reservation import SCHEDULING_HINT
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.priority import PriorityClass, priority_class, raw_qos_class
from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.numa.accumulator import BindPolicy, Exclusive
from koord.scheduler.plugins.numa.allocation import NAME, OWN_CPUS, Allocation, exclusive_of, held_by, wants_it_alone
from koord.scheduler.plugins.numa.facts import CPU
from koord.scheduler.plugins.numa.hints import Policy
from koord.scheduler.state.pods import Amounts

NOT_INTEGER: Final = "the requested CPUs must be integer"
_ASKING: Final = frozenset(
    {
        names.ANNOTATION_RESOURCE_SPEC,
        names.ANNOTATION_NUMA_TOPOLOGY_SPEC,
        names.ANNOTATION_SCHEDULING_HINT,
        names.OLD_ANNOTATION_SCHEDULING_HINT,
    }
)


@dataclass(frozen=True, slots=True)
class Wants:
    """Of pods that look alike to the plugin."""

    requests: Amounts
    bind: BindPolicy | Literal[""] = ""
    "How its CPUs are chosen, if it gets some of its own wherever it runs."
    required: BindPolicy | Literal[""] = ""
    exclusive: Exclusive = ""
    policy: Policy | Literal[""] = ""
    alone: bool = False
    "Whether it takes NUMA nodes only as `hints.is_open` says."
    refused: str = ""
    "Why the pod, unchanged, cannot be placed anywhere."
    exactly: Allocation | None = None
    "What it must get, if a hint has chosen that for it."

    @property
    def cpu_milli(self) -> int:
        return next((number for name, number in self.requests if name == CPU), 0)

    @property
    def is_plain(self) -> bool:
        """Whether it asks for amounts alone."""
        return not (self.bind or self.policy or self.refused or self.exactly)


def asks_for_amounts(ask: Ask) -> bool:
    """Whether a pod asks for nothing but amounts: true of most pods, by a look at their labels and annotations."""
    meta = ask.meta
    return raw_qos_class(meta.labels) not in OWN_CPUS and _ASKING.isdisjoint(meta.annotations)


def _chosen(ask: Ask) -> Allocation | None:
    """What a pod says that it got, if a scheduling hint says that this counts."""
    held = held_by(ask.pod)
    if held is None:
        return None
    hint = SCHEDULING_HINT.read(ask.meta)
    return held if hint is not None and NAME in hint.extensions else None


def wants_of(ask: Ask, default: BindPolicy | Literal[""]) -> Wants:
    """`default`: the policy of pods that name none."""
    if asks_for_amounts(ask):
        return Wants(ask.requests)
    meta = ask.meta
    may_own = raw_qos_class(meta.labels) in OWN_CPUS
    try:
        numa = NUMA_TOPOLOGY_SPEC.read(meta)
        spec = RESOURCE_SPEC.read(meta)
        exactly = _chosen(ask)
    except AnnotationError as error:
        return Wants(ask.requests, refused=str(error))
    policy, alone = numa.numa_topology_policy, wants_it_alone(meta)
    wants = Wants(ask.requests, policy=policy, alone=alone, exactly=exactly)
    if not may_own or priority_class(ask.pod) is not PriorityClass.PROD:
        return wants
    required = default if spec.required_cpu_bind_policy == "Default" else spec.required_cpu_bind_policy
    preferred = spec.preferred_cpu_bind_policy
    bind = required or (default if preferred in ("", "Default") else preferred)
    if bind not in ("FullPCPUs", "SpreadByPCPUs") or not wants.cpu_milli:
        return wants
    if wants.cpu_milli % 1000:
        return Wants(ask.requests, refused=NOT_INTEGER)
    return Wants(ask.requests, bind, bind if required else "", exclusive_of(spec), policy, alone, "", exactly)
