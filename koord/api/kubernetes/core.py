"""The small objects everyone knows (namespaces, config maps, events, ...), and the door to Pod and Node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from koord.api.kubernetes.meta import Condition, ObjectMeta, ObjectReference
from koord.api.kubernetes.node import Node as Node
from koord.api.kubernetes.pod import Pod as Pod
from koord.api.kubernetes.words import PreemptionPolicy
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.text.quantity import ResourceList


class NamespaceSpec(Struct):
    """`finalizers` hold a namespace until its content is gone; they are taken away through `finalize`."""

    finalizers: tuple[str, ...] = ()


class NamespaceStatus(Struct):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()

    @property
    def holding_up(self) -> tuple[str, ...]:
        """What keeps a namespace that is being deleted, in the words of its controller."""
        return tuple(condition.message for condition in self.conditions if condition.status == "True")


class Namespace(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ConfigMap(Struct):
    metadata: ObjectMeta = ObjectMeta()
    data: Mapping[str, str] = EMPTY
    binary_data: Mapping[str, bytes] = EMPTY


class Secret(Struct):
    """Values are decoded from base64. `repr` shows their keys only, so that no log ever has a secret."""

    metadata: ObjectMeta = ObjectMeta()
    data: Mapping[str, bytes] = EMPTY
    type: str = "Opaque"

    def __repr__(self) -> str:
        return f"Secret({self.metadata.key}, type={self.type}, keys={sorted(self.data)})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [("metadata", self.metadata.key), ("type", self.type), ("keys", sorted(self.data))]


class ServiceAccount(Struct):
    """The identity of a pod towards the API."""

    metadata: ObjectMeta = ObjectMeta()


class ServicePort(Struct):
    """`target_port` is a number, or the name of a container's port; without it, the port itself."""

    port: int = 0
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str | None = None
    app_protocol: str | None = None


class ServiceSpec(Struct):
    """Pods of one service's selector are spread over nodes and zones by default, and are its endpoints."""

    selector: Mapping[str, str] = EMPTY
    ports: tuple[ServicePort, ...] = ()
    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    ip_families: tuple[str, ...] = ()
    publish_not_ready_addresses: bool = False


class Service(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class LimitRangeSpec(Struct):
    """Bounds by type (Container, Pod, PersistentVolumeClaim), as written: `pod_admission` applies them."""

    limits: tuple[Mapping[str, Any], ...] = ()


class LimitRange(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: LimitRangeSpec = LimitRangeSpec()


class RuntimeClass(Struct):
    """What pods of a runtime cost and where they run; `pod_admission` applies it as written."""

    metadata: ObjectMeta = ObjectMeta()
    handler: str = ""


class ResourceQuotaSpec(Struct):
    hard: ResourceList = EMPTY


class ResourceQuota(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()


class PriorityClass(Struct):
    """Kubernetes' object of that name. koord's bands of priority are in `koord.api.protocol.priority`."""

    value: int
    metadata: ObjectMeta = ObjectMeta()
    global_default: bool = False
    preemption_policy: PreemptionPolicy = PreemptionPolicy.PREEMPT_LOWER_PRIORITY
    description: str = ""


class EventSeries(Struct):
    """The same event again: how often, and when last."""

    count: int = 0
    last_observed_time: str | None = None


class Event(Struct):
    """An event of events.k8s.io/v1."""

    metadata: ObjectMeta = ObjectMeta()
    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
    deprecated_count: int = 0
    deprecated_first_timestamp: str | None = None
    deprecated_last_timestamp: str | None = None
