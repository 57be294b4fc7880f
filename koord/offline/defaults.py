"""What the API server would have filled in, as far as it decides where pods go: manifests are as people write them.

| left out | filled in |
| --- | --- |
| a container's request | its limit |
| a request of the pod as a whole | what its containers ask for, else its limit |
| the host port, on the host's network | the container's port |
| a node's allocatable | its capacity |
| a claim's storage class | the default one |
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import PodSpec
from koord.api.kubernetes.pod_defaults import Obj, default_pod
from koord.api.kubernetes.storage import PersistentVolumeClaim, StorageClass
from koord.api.kubernetes.taints import taint_faults
from koord.api.machinery.codec import convert
from koord.api.machinery.faults import BadInput
from koord.api.protocol.crd.reservation import Reservation, ReservationOwner
from koord.scheduler.state.storage import OLD_CLASS_ANNOTATION

DEFAULT_CLASS_ANNOTATIONS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def pod_spec(spec: PodSpec) -> PodSpec:
    """The same object where nothing is left out."""
    data: Obj = {"metadata": {}, "spec": msgspec.to_builtins(spec, str_keys=True)}
    default_pod(data)
    converted = convert(PodSpec, data["spec"])
    return spec if converted == spec else converted


def node(given: Node) -> Node:
    """Raises what an API server would refuse."""
    for fault in taint_faults(given.spec.taints):
        raise BadInput(str(fault.under("spec.taints")))
    if given.status.allocatable or not given.status.capacity:
        return given
    return replace(given, status=replace(given.status, allocatable=given.status.capacity))


def reservation(given: Reservation) -> Reservation:
    """Raises the errors of an API server. A stored reservation is accepted, whatever its schema was then."""
    for i, owner in enumerate(given.spec.owners):
        if owner == ReservationOwner() and not given.metadata.resource_version:
            instead = "{labelSelector: {}} means all pods"
            raise BadInput(f"spec.owners[{i}]: must have object, controller or labelSelector; {instead}")
    return given


def is_default(given: StorageClass) -> bool:
    return any(given.metadata.annotations.get(key) == "true" for key in DEFAULT_CLASS_ANNOTATIONS)


def claim(given: PersistentVolumeClaim, classes: list[StorageClass]) -> PersistentVolumeClaim:
    """A claim with its class; of several default ones, the newest, and of these the first by name."""
    named = given.spec.storage_class_name is not None or OLD_CLASS_ANNOTATION in given.metadata.annotations
    if named or given.spec.volume_name or not classes:
        return given
    newest = max(class_.metadata.creation_timestamp or "" for class_ in classes)
    chosen = min(class_.metadata.name for class_ in classes if (class_.metadata.creation_timestamp or "") == newest)
    return replace(given, spec=replace(given.spec, storage_class_name=chosen))
