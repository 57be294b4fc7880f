"""Nodes, as far as koord decides by them: what they have, what keeps pods off, how they are."""

from __future__ import annotations

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.words import ConditionStatus, NodeConditionType, TaintEffect, TaintKey
from koord.api.machinery.struct import EMPTY, Struct, field
from koord.api.text.quantity import ResourceList


class Taint(Struct):
    key: TaintKey
    effect: TaintEffect
    value: str = ""
    time_added: str | None = None


class NodeSpec(Struct):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = ""
    pod_cidr: str = ""


class NodeCondition(Struct):
    type: NodeConditionType
    status: ConditionStatus
    reason: str = ""
    message: str = ""
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None


class NodeAddress(Struct):
    type: str
    address: str


class DaemonEndpoint(Struct):
    port: int = field(name="Port", default=0)


class NodeDaemonEndpoints(Struct):
    kubelet_endpoint: DaemonEndpoint = DaemonEndpoint()


class ContainerImage(Struct):
    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeSystemInfo(Struct):
    architecture: str = ""
    operating_system: str = ""
    os_image: str = ""
    kernel_version: str = ""
    kubelet_version: str = ""
    container_runtime_version: str = ""
    machine_id: str = ""
    boot_id: str = ""


class NodeStatus(Struct):
    capacity: ResourceList = EMPTY
    allocatable: ResourceList = EMPTY
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    daemon_endpoints: NodeDaemonEndpoints = NodeDaemonEndpoints()
    images: tuple[ContainerImage, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()

    def condition(self, type_: str) -> NodeCondition | None:
        return next((condition for condition in self.conditions if condition.type == type_), None)

    def address(self, type_: str) -> str | None:
        """The first address of a type, for example InternalIP."""
        return next((address.address for address in self.addresses if address.type == type_), None)


class Node(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
