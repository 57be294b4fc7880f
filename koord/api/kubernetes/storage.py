"""Volumes and claims, as far as they say where a pod may run."""

from __future__ import annotations

from koord.api.kubernetes.meta import ObjectMeta, ObjectReference
from koord.api.kubernetes.pod import (
    AwsDiskVolume,
    AzureDiskVolume,
    CinderVolume,
    ClaimSpec,
    GceDiskVolume,
    HostPathVolume,
    IscsiVolume,
    RbdVolume,
)
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.text.quantity import Quantity, ResourceList
from koord.api.text.selector import LabelSelector, NodeSelector


class ModifyVolumeStatus(Struct):
    target_volume_attributes_class_name: str = ""


class ClaimStatus(Struct):
    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: ResourceList = EMPTY
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None


class PersistentVolumeClaim(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class LocalVolume(Struct):
    path: str = ""


class CsiDisk(Struct):
    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(Struct):
    required: NodeSelector | None = None


class VolumeSpec(Struct):
    capacity: ResourceList = EMPTY
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_attributes_class_name: str | None = None
    volume_mode: str = "Filesystem"
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiDisk | None = None
    local: LocalVolume | None = None
    host_path: HostPathVolume | None = None
    gce_persistent_disk: GceDiskVolume | None = None
    aws_elastic_block_store: AwsDiskVolume | None = None
    azure_disk: AzureDiskVolume | None = None
    cinder: CinderVolume | None = None
    iscsi: IscsiVolume | None = None
    rbd: RbdVolume | None = None


class VolumeStatus(Struct):
    phase: str = ""


class PersistentVolume(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


class TopologyExpression(Struct):
    key: str
    values: tuple[str, ...] = ()


class TopologyTerm(Struct):
    match_label_expressions: tuple[TopologyExpression, ...] = ()


class StorageClass(Struct):
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologyTerm, ...] = ()


class VolumeAttributesClass(Struct):
    metadata: ObjectMeta = ObjectMeta()


class VolumeNodeResources(Struct):
    count: int | None = None


class CsiNodeDriver(Struct):
    name: str
    node_id: str = ""
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CsiNodeSpec(Struct):
    drivers: tuple[CsiNodeDriver, ...] = ()


class CSINode(Struct):
    """Which storage drivers a node has, and how many volumes each can attach there."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CsiNodeSpec = CsiNodeSpec()


class CsiDriverSpec(Struct):
    attach_required: bool = True
    storage_capacity: bool = False


class CSIDriver(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: CsiDriverSpec = CsiDriverSpec()


class CSIStorageCapacity(Struct):
    """How much a driver can still provision of a class in one part of the cluster."""

    metadata: ObjectMeta = ObjectMeta()
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None
