"""Devices by claim (dynamic resource allocation), `resource.k8s.io/v1`: what drivers publish, and what users claim.

A driver publishes its devices in ResourceSlices, which form pools. A ResourceClaim asks for devices of a DeviceClass;
the scheduler writes into its status which devices it has. Pods name claims, or templates of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from koord.api.kubernetes.meta import Condition, ObjectMeta
from koord.api.kubernetes.node import Taint
from koord.api.kubernetes.pod import Toleration
from koord.api.machinery.struct import EMPTY, Struct, field
from koord.api.text.quantity import Quantity
from koord.api.text.selector import NodeSelector

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"On claims that are allocated."
POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
"Annotation of a claim that was made from a template: the name in the pod's spec.resourceClaims."
EXTENDED_RESOURCE_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
"Annotation of a claim that the scheduler made for a pod's extended resources."
CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"An extended resource with this prefix means the device class of that name."
ALL_DEVICES: Final = "All"
EXACT_COUNT: Final = "ExactCount"
MOST_RESULTS: Final = 32
"Devices that one claim may have."
MOST_CONSUMERS: Final = 256
"Pods that one claim may be reserved for."


class DeviceAttribute(Struct):
    """One value; exactly one of the fields is set."""

    int_: int | None = None
    bool_: bool | None = None
    string: str | None = None
    version: str | None = None


class CapacityRange(Struct):
    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Struct):
    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRange | None = None


class DeviceCapacity(Struct):
    value: Quantity
    request_policy: CapacityRequestPolicy | None = None


class Counter(Struct):
    value: Quantity


class CounterSet(Struct):
    name: str
    counters: Mapping[str, Counter] = EMPTY


class CounterConsumption(Struct):
    counter_set: str
    counters: Mapping[str, Counter] = EMPTY


class Device(Struct):
    name: str
    attributes: Mapping[str, DeviceAttribute] = EMPTY
    capacity: Mapping[str, DeviceCapacity] = EMPTY
    consumes_counters: tuple[CounterConsumption, ...] = ()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[Taint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False


class ResourcePool(Struct):
    name: str
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Struct):
    driver: str
    pool: ResourcePool
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Struct):
    """A part of a pool of devices, as their driver publishes them."""

    spec: ResourceSliceSpec
    metadata: ObjectMeta = ObjectMeta()


class CelSelector(Struct):
    expression: str


class DeviceSelector(Struct):
    cel: CelSelector | None = None


class OpaqueConfiguration(Struct):
    driver: str
    parameters: Any = None


class DeviceClassConfiguration(Struct):
    opaque: OpaqueConfiguration | None = None


class DeviceClassSpec(Struct):
    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str = ""


class DeviceClass(Struct):
    """A kind of devices that claims ask for by name."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


class CapacityRequirements(Struct):
    requests: Mapping[str, Quantity] = EMPTY


class ExactDeviceRequest(Struct):
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: int = 1
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(Struct):
    name: str
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: int = 1
    tolerations: tuple[Toleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Struct):
    """Either `exactly` one kind of devices, or the first of several that is available."""

    name: str
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Struct):
    """What devices of some requests (all, if none is named) must have in common, or must not."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(Struct):
    requests: tuple[str, ...] = ()
    opaque: OpaqueConfiguration | None = None


class DeviceClaim(Struct):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Struct):
    devices: DeviceClaim = DeviceClaim()


class DeviceResult(Struct):
    """One device that a claim has. `request`: the request, or `request/sub-request`."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str = field(name="shareID", default="")
    consumed_capacity: Mapping[str, Quantity] = EMPTY


class AllocatedConfiguration(Struct):
    source: str
    requests: tuple[str, ...] = ()
    opaque: OpaqueConfiguration | None = None


class DeviceAllocation(Struct):
    results: tuple[DeviceResult, ...] = ()
    config: tuple[AllocatedConfiguration, ...] = ()


class AllocationResult(Struct):
    """The devices of a claim, and the nodes that can use them; without a selector, all nodes can."""

    devices: DeviceAllocation = DeviceAllocation()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ClaimConsumer(Struct):
    """A user of a claim: a pod, as a rule."""

    resource: str
    name: str
    uid: str
    api_group: str = ""


class AllocatedDeviceStatus(Struct):
    driver: str
    pool: str
    device: str
    share_id: str = field(name="shareID", default="")
    conditions: tuple[Condition, ...] = ()


class ResourceClaimStatus(Struct):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ClaimConsumer, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(Struct):
    """Asks for devices, and has them once its status has an allocation."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Struct):
    """What a claim is made from for each pod that names the template."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceTaintSelector(Struct):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Struct):
    taint: Taint
    device_selector: DeviceTaintSelector | None = None


class DeviceTaintRule(Struct):
    """Taints devices by their driver, pool and name, without a change of their slices."""

    spec: DeviceTaintRuleSpec
    metadata: ObjectMeta = ObjectMeta()
