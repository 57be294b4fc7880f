"""PodMigrationJob: move one pod to another node, in safe steps.

By default room for the new pod is reserved before the old one is evicted, so that the move cannot strand it.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from koord.api.kubernetes.meta import ObjectMeta, ObjectReference
from koord.api.kubernetes.words import ConditionStatus, Word
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol.crd.fields import KEEPS_NULL, FreeForm
from koord.api.protocol.crd.reservation import ReservationPhase
from koord.api.text.duration import Duration
from koord.api.text.timestamp import Timestamp


class PodMigrationJobPhase(Word):
    """`NEW` is the phase of a job that the descheduler has not seen yet."""

    NEW = ""
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    ABORTED = "Aborted"


TERMINAL: Final = frozenset((PodMigrationJobPhase.SUCCEEDED, PodMigrationJobPhase.FAILED, PodMigrationJobPhase.ABORTED))
"""Phases of jobs that have ended."""


class PodMigrationJobPreemptionOptions(Struct):
    """Reserved. There are no settings yet."""


class PodMigrateReservationOptions(Struct):
    reservation_ref: ObjectReference | None = None
    "The reservation that holds room for the new pod. Absent: one is made, and named here."
    template: FreeForm = EMPTY
    "The reservation to make, as metadata and spec. What is absent follows from the pod."
    preemption_options: PodMigrationJobPreemptionOptions | None = None
    "Reserved."


class Preconditions(Struct):
    uid: str | None = None
    "Delete only the object with this UID."
    resource_version: str | None = None
    "Delete the object only in this version."


class DeleteOptions(Struct):
    api_version: str = ""
    "API version of these options."
    kind: str = ""
    "Kind of these options."
    grace_period_seconds: int | None = None
    "Time that the pod has to stop, in seconds. Absent: the pod's own."
    preconditions: Preconditions | None = None
    "Conditions that the pod must meet to be deleted."
    orphan_dependents: bool | None = None
    "Older form of propagationPolicy: whether dependents stay."
    propagation_policy: str | None = None
    "What becomes of dependents: Orphan, Background or Foreground."
    dry_run: tuple[str, ...] = ()
    "All: go through the motions without deleting."
    ignore_store_read_error_with_cluster_breaking_potential: bool | None = None
    "Delete even an object that the API server cannot read. Dangerous."


class PodMigrationJobSpec(Struct):
    pod_ref: ObjectReference
    "The pod to move."
    paused: bool = False
    "Whether to stop where it is."
    ttl: Duration | None = None
    "How long the move may take before it counts as failed. Absent: the descheduler's default, 5m."
    mode: Literal["ReservationFirst", "EvictDirectly"] | None = None
    "Reserve room before the old pod is evicted (ReservationFirst), or evict at once. Absent: the descheduler decides."
    reservation_options: PodMigrateReservationOptions | None = None
    "Which reservation is used or made."
    delete_options: DeleteOptions | None = None
    "How the pod is deleted."


class PodMigrationJobCondition(Struct):
    type: str
    (
        "Step of the move: ReservationCreated, ReservationScheduled, Preemption, Eviction, PodScheduled, "
        "PodBoundReservation, BoundPodReady or ReservationBound; of koord's own, Notice and ScaledFirst."
    )
    status: ConditionStatus
    "True, False or Unknown."
    reason: str = ""
    "A word for programs."
    message: str = ""
    "A sentence for people."
    last_probe_time: Annotated[Timestamp | None, KEEPS_NULL] = None
    "When this was last looked at."
    last_transition_time: Annotated[Timestamp | None, KEEPS_NULL] = None
    "When the status last changed."


class PodMigrationJobPreemptedReservation(Struct):
    namespace: str = ""
    "Namespace of the reservation."
    name: str = ""
    "Name of the reservation."
    node_name: str = ""
    "Node that the reservation is on."
    phase: ReservationPhase | None = None
    "Phase of the reservation."
    preempted_pod_ref: ObjectReference | None = None
    "The pod that was evicted."
    pods_ref: tuple[ObjectReference, ...] = ()
    "The pods that came in place of the evicted one."


class PodMigrationJobStatus(Struct):
    phase: PodMigrationJobPhase = PodMigrationJobPhase.NEW
    "Pending, Running, Succeeded, Failed or Aborted."
    status: str = ""
    "The latest step, by the name of its condition."
    reason: str = ""
    "A word for programs: why the job is where it is, for example Timeout, Unschedulable or FailedEvict."
    message: str = ""
    "A sentence for people: why the job is where it is."
    conditions: tuple[PodMigrationJobCondition, ...] = ()
    "The steps that were taken, and how they went."
    node_name: str = ""
    "Node that the pod moves to."
    pod_ref: ObjectReference | None = None
    "The new pod."
    preempted_pods_ref: tuple[ObjectReference, ...] = ()
    "Pods that were evicted to make room."
    preempted_pods_reservation: tuple[PodMigrationJobPreemptedReservation, ...] = ()
    "Reservations that were made for the pods that were evicted to make room."


class PodMigrationJob(Struct, kw_only=True):
    """Moves one pod to another node, in safe steps."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodMigrationJobSpec
    "Which pod to move, and how."
    status: PodMigrationJobStatus = PodMigrationJobStatus()
    "How far the move has come. Written by the descheduler."

    @property
    def is_over(self) -> bool:
        return self.status.phase in TERMINAL
