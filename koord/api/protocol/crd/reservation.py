"""Reservation: room on a node that is held for pods to come.

The scheduler places a reservation as if it were a pod of its template. Pods that match one of its owners then use
that room; until a pod does, or it expires, no other pod gets it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from koord.api.kubernetes.meta import ObjectMeta, ObjectReference, OwnerReference
from koord.api.kubernetes.node import Taint
from koord.api.kubernetes.pod import PodTemplateSpec
from koord.api.kubernetes.words import ConditionStatus, TaintEffect, TaintKey, Word
from koord.api.machinery.codec import convert
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol.crd.fields import FreeForm, served_default
from koord.api.text.duration import Duration
from koord.api.text.quantity import ResourceList
from koord.api.text.selector import LabelSelector
from koord.api.text.timestamp import Timestamp


class ReservationPhase(Word):
    PENDING = "Pending"
    WAITING = "Waiting"
    AVAILABLE = "Available"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class ReservationControllerReference(OwnerReference):
    namespace: str = ""
    "Namespace of the controller. Empty: any."


class ReservationOwner(Struct):
    object: ObjectReference | None = None
    "The pod that may use the room, by namespace and name, or by UID."
    controller: ReservationControllerReference | None = None
    "Pods of this controller may use the room."
    label_selector: LabelSelector | None = None
    "Pods with these labels may use the room."


class ReservationTaint(Taint):
    key: TaintKey
    "Key of the taint."
    effect: TaintEffect
    "What happens to pods that do not tolerate it. NoExecute does not evict; it acts as NoSchedule."
    value: str = ""
    "Value of the taint."
    time_added: Timestamp | None = None
    "When the taint was added."


class PreAllocationPolicy(Struct):
    mode: Annotated[Literal["Default", "Cluster"], served_default("Default")] = "Default"
    (
        "Which running pods the room may be taken from: those that match the owners (Default), or those marked "
        "pre-allocatable anywhere in the cluster (Cluster)."
    )
    enable_multiple: Annotated[bool, served_default(False)] = False
    "Whether the room of several pods may be added up. Otherwise one pod must do."


class ReservationSpec(Struct):
    template: FreeForm
    "The pod to place: resources, affinity, tolerations. spec.nodeName in it pins the reservation to a node."
    owners: Annotated[
        tuple[Annotated[ReservationOwner, Meta(extra_json_schema={"minProperties": 1})], ...], Meta(min_length=1)
    ]
    "Who may use the room. A pod must match one entry, and all that the entry gives."
    ttl: Annotated[Duration, served_default("24h")] = "24h"
    "How long the reservation lives. 0 is without end. Not looked at if expires is given."
    expires: Timestamp | None = None
    "When the reservation ends."
    pre_allocation: bool = False
    "Whether room may be reserved that pods still use. The reservation then waits until they are gone."
    pre_allocation_policy: PreAllocationPolicy | None = None
    "Which pods' room may be reserved before they are gone."
    allocate_once: Annotated[bool, served_default(True)] = True
    "Whether the reservation is over once one owner has used it. Otherwise owners share it until it expires."
    allocate_policy: Literal["Aligned", "Restricted"] | None = None
    (
        "Where owners take resources that the reservation is short of: from the node too (Aligned, the default), or, "
        "of what is reserved, from the reservation alone (Restricted)."
    )
    unschedulable: bool = False
    "Whether no further pods may use the room."
    taints: tuple[ReservationTaint, ...] = ()
    "Taints that pods must tolerate, in their reservation affinity, to use the room."

    @property
    def pod_template(self) -> PodTemplateSpec:
        """The template, as far as koord decides by it. Raises `DecodeError` where it is no pod template."""
        return convert(PodTemplateSpec, self.template)


class ReservationCondition(Struct):
    type: str = ""
    "Scheduled, Ready or ResizePending."
    status: ConditionStatus | None = None
    "True, False or Unknown."
    reason: str = ""
    "A word for programs: Scheduled, Unschedulable, Available, Succeeded, Expired or Deferred."
    message: str = ""
    "A sentence for people."
    last_probe_time: Timestamp | None = None
    "When this was last looked at."
    last_transition_time: Timestamp | None = None
    "When the status last changed."


class ReservationStatus(Struct):
    phase: Annotated[ReservationPhase, served_default("Pending")] = ReservationPhase.PENDING
    (
        "Pending: has no node yet. Waiting: has a node, but not yet the room. Available: can be used. "
        "Succeeded: was used. Failed: cannot be used, for example because it has expired."
    )
    conditions: tuple[ReservationCondition, ...] = ()
    "Why the reservation is in this phase."
    current_owners: tuple[ObjectReference, ...] = ()
    "The pods that use the room."
    node_name: str = ""
    "The node that the room is on."
    allocatable: ResourceList = EMPTY
    "What is reserved."
    allocated: ResourceList = EMPTY
    "What pods use of the room."


class Reservation(Struct, kw_only=True):
    """Room on a node that is held for pods to come."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReservationSpec
    "What to reserve, for which pods, and how long."
    status: ReservationStatus = ReservationStatus()
    "Where the room is and who uses it. Written by the scheduler."
