"""The input of decisions on this node, apart from usage: the node, its settings, its pods, its CPUs.

Read-only and replaced when something changes, so that a round sees one state throughout. Usage comes as
`koord.agent.series.Samples`.

There is a state only when the Node, kubelet's settings and kubelet's pods are known. While one of them is not, the
daemon has None, and no round takes place: unknown changes nothing. No pods at all is an empty mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeVar, cast

from koord.agent.devices.inventory import Inventory
from koord.agent.host.topology import Topology
from koord.agent.lending.minute import MARK_PERCENT
from koord.agent.lending.peers.policy import AnyPeer
from koord.agent.lending.peers.registry import PEERS
from koord.agent.pods import AgentPod
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.node import Node
from koord.api.machinery.shield import Shield
from koord.api.protocol.crd.node_slo import NodeSLOSpec
from koord.api.protocol.crd.resource_qos import ResourceQOSStrategy
from koord.api.text.cpuset import NO_CPUS, CPUSet

T = TypeVar("T")

DEFAULT_GATES: Final[Mapping[AgentGate, bool]] = MappingProxyType({gate: gate.default for gate in AgentGate})


@dataclass(frozen=True, slots=True)
class Kubelet:
    """What kubelet's configuration says that concerns CPUs."""

    cpu_policy: str = "none"
    "`none` or `static`."
    reserved_cpus: CPUSet = NO_CPUS
    static_cpus: Mapping[str, CPUSet] = field(default_factory=dict)
    "By pod uid, what its own CPU manager gave away."
    cpu_options: Mapping[str, str] = field(default_factory=dict)
    "Of its CPU manager's policy."
    topology_policy: str = "None"
    "How it aligns pods or containers with NUMA nodes, in the words of a NodeResourceTopology."

    @property
    def shares_reserved(self) -> bool:
        """Whether pods without exclusive CPUs also run on the reserved ones, which is kubelet's default."""
        return self.cpu_options.get("strict-cpu-reservation") != "true"


@dataclass(frozen=True, slots=True)
class Kernel:
    """What this kernel has, where decisions depend on it. The defaults are mainline's."""

    burst_within_quota: bool = True
    "Nobody can save up more than one period's quota."
    has_group_identity: bool = False
    has_watermarks: bool = False
    "Memory is reclaimed in the background before a limit is met."


@dataclass(frozen=True, slots=True)
class NodeState:
    node: Node
    capacity_cpu_milli: int
    capacity_memory_bytes: int
    allocatable: Mapping[str, int]
    "By resource name, milli-cores and bytes."
    slo: NodeSLOSpec | None
    "None while it is not known: then nothing is decided, nothing written and nothing put back."
    qos: ResourceQOSStrategy
    "The effective QoS classes of the settings."
    pods: Mapping[str, AgentPod]
    "By uid."
    topology: Topology
    driver: CgroupDriver
    kubelet: Kubelet = Kubelet()
    kernel: Kernel = Kernel()
    gates: Mapping[AgentGate, bool] = field(default_factory=lambda: DEFAULT_GATES)
    devices: Inventory | None = None
    "None before the first look."
    guests: Mapping[str, AgentPod] = field(default_factory=dict)
    "By uid, containers of YARN, in the order in which they go."
    is_colocation_off: bool = False
    "The switch: nothing new, and what is held back is let go."
    shield: Shield = field(default_factory=Shield, repr=False, compare=False)
    "Code that loops over pods handles each pod under this shield."
    _known: dict[object, object] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, of: Callable[[NodeState], T]) -> T:
        """What follows from this state alone, worked out at most once in its life."""
        if of not in self._known:
            self._known[of] = of(self)
        return cast("T", self._known[of])

    @property
    def holds_back_by_quota(self) -> bool:
        """Whether best effort as a whole is held back by time on CPUs, not by fewer CPUs."""
        strategy = self.slo.resource_used_threshold_with_be if self.slo else None
        return strategy is not None and bool(strategy.enable) and strategy.cpu_suppress_policy == "cfsQuota"

    @property
    def safety_mark_percent(self) -> int | None:
        """CPU usage that batch must not push the node above; None where the suppress threshold holds batch back."""
        lending = self.slo.lending_strategy if self.slo else None
        if lending is None or lending.policy or self.is_colocation_off:
            return None
        return lending.cpu_safety_mark_percent or MARK_PERCENT

    @property
    def peer_policy(self) -> AnyPeer | None:
        """The policy of another system that owns this node; None where there is none, or none of that name."""
        lending = self.slo.lending_strategy if self.slo else None
        return None if lending is None or self.is_colocation_off else PEERS.get(lending.policy or "")

    @property
    def cpus(self) -> int:
        return len(self.topology.cpus)
