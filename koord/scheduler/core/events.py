"""What a change of an object could do for pending pods: the event that the queue receives, or None.

A plugin says in `wakes_on` which reasons could help the pods that it rejected. So only a change that could help a pod
is a reason here: a node with less capacity, or a pod that requests more, helps no pending pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from koord.api.kubernetes.core import ConfigMap, Namespace
from koord.api.kubernetes.dynamic_resources import DeviceTaintRule, ResourceClaim
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import ContainerPort, Pod
from koord.api.kubernetes.resources import pod_limits
from koord.api.machinery.faults import BadInput
from koord.api.machinery.struct import Struct
from koord.api.protocol.crd.device import Device
from koord.api.protocol.crd.network_topology import ClusterNetworkTopology
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.crd.node_resource_topology import NodeResourceTopology
from koord.api.protocol.crd.node_slo import NodeSLO
from koord.scheduler.core.queue import ClusterEvent
from koord.scheduler.state.cluster import allocatable_of
from koord.scheduler.state.extended_amounts import changed_extended, extended_amounts
from koord.scheduler.state.pods import requests_of
from koord.scheduler.state.storage import StorageObject
from koord.scheduler.state.table import Reason

_OfNode: TypeAlias = NodeMetric | NodeSLO | NodeResourceTopology
"""Named as their node."""
_DOMAIN: Final = "koordinator.sh/"
_CAME: Final = Reason.PODS
_LEFT: Final = Reason.PODS | Reason.FREED
_POD_NAMES: Final = {
    Reason.PODS: "AssignedPodUpdatePodLabel",
    Reason.FREED: "AssignedPodUpdatePodScaleDown",
}
"What kube-scheduler's metrics call a change of one kind."
_NODE_NAMES: Final = {
    Reason.ALLOCATABLE: "NodeUpdateNodeAllocatable",
    Reason.LABELS: "NodeUpdateNodeLabel",
    Reason.TAINTS: "NodeUpdateNodeTaint",
    Reason.UNSCHEDULABLE: "NodeUpdateNodeTaint",
    Reason.LOAD: "NodeUpdateNodeAnnotation",
}


def pod_event(old: Pod | None, new: Pod | None) -> ClusterEvent | None:
    """A pod came, changed or went. Only pods that have a node matter to others."""
    was, is_there = _takes_room(old), _takes_room(new)
    if is_there and not was:
        return ClusterEvent(int(_CAME), new, "AssignedPodAdd")
    if was and not is_there:
        return ClusterEvent(int(_LEFT), old, "AssignedPodDelete")
    if old is None or new is None or not is_there:
        return None
    reasons = Reason(0)
    going = (old.metadata.deletion_timestamp, new.metadata.deletion_timestamp)
    if old.metadata.labels != new.metadata.labels or going[0] != going[1]:
        reasons |= Reason.PODS
    if _gives_room(old, new):
        reasons |= Reason.FREED
    return ClusterEvent(int(reasons), new, _POD_NAMES.get(reasons, "AssignedPodUpdate")) if reasons else None


def _gives_room(old: Pod, new: Pod) -> bool:
    """Whether a pod that keeps its node may use less there than before: less of an amount, by requests or by limits, or
    less of ports, volumes and the like. Another pod of the same name may use anything."""
    if old.metadata.uid != new.metadata.uid or _told_to_plugins(old) != _told_to_plugins(new):
        return True
    if old.spec == new.spec and old.status == new.status:
        return False
    if _ports(old) != _ports(new) or old.spec.volumes != new.spec.volumes:
        return True
    try:
        before, now = dict(requests_of(old)), dict(requests_of(new))
        limited, limits = pod_limits(old, use_status=False), pod_limits(new, use_status=False)
    except BadInput:
        # What it takes is unknown: it may be less than before.
        return True
    return _falls(before, now) or _falls(limited, limits)


def _falls(before: Mapping[str, int], now: Mapping[str, int]) -> bool:
    return any(now.get(name, 0) < amount for name, amount in before.items())


def _ports(pod: Pod) -> list[tuple[ContainerPort, ...]]:
    return [container.ports for container in (*pod.spec.containers, *pod.spec.init_containers)]


def _told_to_plugins(pod: Pod) -> dict[str, str]:
    """What plugins may read of what a pod takes: CPUs, devices, its own estimate of load."""
    return {key: text for key, text in pod.metadata.annotations.items() if _DOMAIN in key}


def node_event(old: Node | None, new: Node | None) -> ClusterEvent | None:
    """A node came, changed or went. One that goes may take along what others are spread against, or shun."""
    if new is None:
        return None if old is None else ClusterEvent(int(Reason.LABELS), old, "NodeDelete")
    if old is None:
        return ClusterEvent(int(Reason.NODE), new, "NodeAdd")
    changed = changed_extended(old, new)
    if changed is not None:
        return _amounts_event(old, new, changed)
    reasons, grown = Reason(0), frozenset[str]()
    if old.status.allocatable != new.status.allocatable or old.metadata.annotations != new.metadata.annotations:
        before = allocatable_of(old)
        grown = frozenset(name for name, amount in allocatable_of(new).items() if amount > before.get(name, 0))
        if grown:
            reasons |= Reason.ALLOCATABLE
    if old.metadata.annotations != new.metadata.annotations:
        # Its limits of usage, for one, are there.
        reasons |= Reason.LOAD
    if old.metadata.labels != new.metadata.labels:
        reasons |= Reason.LABELS
    if old.spec.taints != new.spec.taints:
        reasons |= Reason.TAINTS
    if old.spec.unschedulable and not new.spec.unschedulable:
        reasons |= Reason.UNSCHEDULABLE
    return ClusterEvent(int(reasons), new, _NODE_NAMES.get(reasons, "NodeUpdate"), grown) if reasons else None


def _amounts_event(old: Node, new: Node, changed: frozenset[str]) -> ClusterEvent | None:
    """A node gives other amounts of some extended resources."""
    before, after = extended_amounts(old, changed), extended_amounts(new, changed)
    grown = frozenset(name for name, amount in after.items() if amount > before.get(name, 0))
    if not grown:
        return None
    return ClusterEvent(int(Reason.ALLOCATABLE), new, _NODE_NAMES.get(Reason.ALLOCATABLE, "NodeUpdate"), grown)


def namespace_event(old: Namespace | None, new: Namespace | None) -> ClusterEvent | None:
    """Terms choose namespaces by their labels: whose pods are shunned, or sought, may have changed."""
    if old is not None and new is not None and old.metadata.labels == new.metadata.labels:
        return None
    return ClusterEvent(int(Reason.PODS), new or old, "NamespaceUpdate")


def storage_event(old: StorageObject | None, new: StorageObject | None) -> ClusterEvent:
    """A claim, a volume, a class, or what a driver says came, changed or went."""
    thing = old if new is None else new
    return ClusterEvent(int(Reason.STORAGE), thing, f"{type(thing).__name__}Update")


def claim_event(old: ResourceClaim | None, new: ResourceClaim | None) -> ClusterEvent | None:
    """A claim gave its devices back, which others may have; or it came, or was changed, which helps its own pods."""
    was_allocated = old is not None and old.status.allocation is not None
    if was_allocated and (new is None or new.status.allocation is None):
        return ClusterEvent(int(Reason.CLAIMS), new or old, "ResourceClaimDeallocate")
    if new is None or (old is not None and (old.spec, old.status) == (new.spec, new.status)):
        return None
    return ClusterEvent(int(Reason.CLAIMS), new, "ResourceClaimAdd" if old is None else "ResourceClaimUpdate")


def devices_event(old: Struct | None, new: Struct | None) -> ClusterEvent | None:
    """Drivers have other devices, or a class changed. What goes helps no pod."""
    return None if new is None else ClusterEvent(int(Reason.CLAIMS), new, f"{type(new).__name__}Update")


def taint_rule_event(old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> ClusterEvent:
    """Devices are tainted otherwise: one that loses a taint may be what a pod waits for."""
    return ClusterEvent(int(Reason.CLAIMS), new or old, "DeviceTaintRuleUpdate")


def load_event(old: NodeMetric | None, new: NodeMetric | None) -> ClusterEvent:
    """A node has reported its usage, or its report is gone."""
    return ClusterEvent(int(Reason.LOAD), _node(old, new), "NodeMetricUpdate")


def slo_event(old: NodeSLO | None, new: NodeSLO | None) -> ClusterEvent:
    """A node protects its services otherwise."""
    return ClusterEvent(int(Reason.LOAD), _node(old, new), "NodeSLOUpdate")


def device_event(old: Device | None, new: Device | None) -> ClusterEvent | None:
    """A node's devices were added, changed or removed. The pods say which devices they have."""
    if old is not None and new is not None and _told(old) == _told(new):
        return None
    device = old if new is None else new
    assert device is not None
    return ClusterEvent(int(Reason.EXACT), device.metadata.name, "DeviceUpdate")


def _told(device: Device) -> tuple[object, ...]:
    return device.spec, device.metadata.labels, device.metadata.annotations


def config_event(old: ConfigMap | None, new: ConfigMap | None) -> ClusterEvent | None:
    """What plugins read of a ConfigMap is otherwise: templates of devices."""
    if old is not None and new is not None and old.data == new.data:
        return None
    return ClusterEvent(int(Reason.EXACT), new or old, "ConfigMapUpdate")


def topology_event(old: NodeResourceTopology | None, new: NodeResourceTopology | None) -> ClusterEvent | None:
    """What is known of a node's CPUs and NUMA nodes is otherwise."""
    if old is not None and new is not None and _reported(old) == _reported(new):
        return None
    return ClusterEvent(int(Reason.EXACT), _node(old, new), "NodeResourceTopologyUpdate")


def network_event(old: ClusterNetworkTopology | None, new: ClusterNetworkTopology | None) -> ClusterEvent | None:
    """The layers of the network are others."""
    if old is not None and new is not None and old.spec == new.spec:
        return None
    return ClusterEvent(int(Reason.LABELS), name="ClusterNetworkTopologyUpdate")


def _reported(report: NodeResourceTopology) -> tuple[object, ...]:
    return report.zones, report.topology_policies, report.attributes, report.metadata.annotations


def _node(old: _OfNode | None, new: _OfNode | None) -> str:
    report = old if new is None else new
    assert report is not None
    return report.metadata.name


def _takes_room(pod: Pod | None) -> bool:
    return pod is not None and bool(pod.spec.node_name) and not pod.is_finished
