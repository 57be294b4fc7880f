"""From the objects of the API and of kubelet to the state of a round."""

from __future__ import annotations

from collections.abc import Mapping

from koord.agent.devices.inventory import Inventory
from koord.agent.guests import with_guests
from koord.agent.host import knobs, proc, usage
from koord.agent.host.cgroups import Cgroups
from koord.agent.host.convert import PERIOD_US
from koord.agent.host.features import is_shown
from koord.agent.host.knobs import CPUSET_CPUS, MEMORY_LIMIT
from koord.agent.host.layout import driver_of
from koord.agent.host.topology import Topology
from koord.agent.pods import AgentPod
from koord.agent.state import DEFAULT_GATES, Kernel, Kubelet, NodeState
from koord.api.configuration.features import AgentGate
from koord.api.configuration.overlay import overlay
from koord.api.configuration.slo_defaults import default_node_slo, effective_qos_strategy
from koord.api.kubernetes.cgroup import CgroupDriver, qos_dir
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.resources import stored_amounts
from koord.api.kubernetes.words import KubeQoS
from koord.api.machinery.shield import Shield
from koord.api.protocol.annotations.colocation import COLOCATION_STRATEGY
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.node_slo import NodeSLOSpec
from koord.api.protocol.pool_on_node import with_pool
from koord.api.text.cpuset import CPUSet


def kernel_of(cgroups: Cgroups, driver: CgroupDriver) -> Kernel:
    pods = qos_dir(KubeQoS.GUARANTEED, driver)
    identity = is_shown(cgroups, knobs.GROUP_IDENTITY, pods)
    return Kernel(
        # The kernels that have group identity also let more be saved up.
        burst_within_quota=not identity,
        has_group_identity=identity,
        has_watermarks=is_shown(cgroups, knobs.MEMORY_WMARK_RATIO, pods),
    )


def capacity_of(cgroups: Cgroups, topology: Topology) -> tuple[int, int]:
    """Milli-cores and bytes of the node: of the machine, or of the cgroup that is the node."""
    cpu_milli = len(topology.cpus) * 1000
    memory_bytes = proc.memory(cgroups.files).total
    if not cgroups.root:
        return cpu_milli, memory_bytes
    cpus, limit = cgroups.get(CPUSET_CPUS, ""), cgroups.get(MEMORY_LIMIT, "")
    quota = usage.cpu_quota_us(cgroups, "")
    if isinstance(cpus, CPUSet) and cpus:
        cpu_milli = len(cpus & topology.all) * 1000
    if quota > 0:
        cpu_milli = min(cpu_milli, quota * 1000 // PERIOD_US)
    if isinstance(limit, int) and limit > 0:
        memory_bytes = min(memory_bytes, limit)
    return cpu_milli, memory_bytes


def driver_in(cgroups: Cgroups, named: str = "") -> CgroupDriver:
    """By kubelet's word, else by the directories that there are; systemd's where nothing tells."""
    if named:
        return CgroupDriver(named)
    return driver_of(cgroups) or CgroupDriver.SYSTEMD


def is_switched_off(node: Node) -> bool:
    """The switch on the node itself, which holds with the manager down."""
    try:
        strategy = COLOCATION_STRATEGY.read(node.metadata)
    except AnnotationError:
        return False
    return strategy is not None and strategy.enable is False


def state_of(
    cgroups: Cgroups,
    topology: Topology,
    driver: CgroupDriver,
    node: Node,
    slo: NodeSLOSpec | None,
    pods: dict[str, AgentPod],
    kubelet: Kubelet,
    gates: Mapping[AgentGate, bool] = DEFAULT_GATES,
    devices: Inventory | None = None,
    guests: Mapping[str, AgentPod] | None = None,
    shield: Shield | None = None,
) -> NodeState:
    """`guests` is None where no copilot answers."""
    capacity = stored_amounts(node.status.capacity)
    cpu_milli, memory_bytes = capacity_of(cgroups, topology)
    in_force = None if slo is None else overlay(default_node_slo(), slo)
    if in_force is not None and guests is not None:
        in_force = with_guests(in_force)
    return NodeState(
        node=node,
        # What the node says of itself counts: all other components use it too.
        capacity_cpu_milli=capacity.get("cpu", cpu_milli),
        capacity_memory_bytes=capacity.get("memory", memory_bytes),
        allocatable=with_pool(node, stored_amounts(node.status.allocatable)),
        slo=in_force,
        qos=effective_qos_strategy(in_force.resource_qos_strategy if in_force else None),
        pods=pods,
        topology=topology,
        driver=driver,
        kubelet=kubelet,
        kernel=kernel_of(cgroups, driver),
        gates=gates,
        devices=devices,
        guests=guests or {},
        is_colocation_off=is_switched_off(node),
        shield=shield or Shield(),
    )
