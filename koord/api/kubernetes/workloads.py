"""Workloads: what makes pods, and how many there should be.

A controller makes pods from the *whole* template, so `template` is plain data with every field that a user
wrote; `template_of` reads the part that koord decides by.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from koord.api.kubernetes.meta import Condition, ObjectMeta, ObjectReference
from koord.api.kubernetes.pod import PodTemplateSpec
from koord.api.machinery.codec import convert
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.text.selector import LabelSelector

POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
"""On pods of a StatefulSet: their own names."""

PodTemplate = Mapping[str, Any]


def template_of(template: PodTemplate) -> PodTemplateSpec:
    """A workload's pod template, typed. Raises DecodeError where it is malformed."""
    return convert(PodTemplateSpec, template)


class RollingUpdate(Struct):
    """How far a rollout may go from the wanted number of pods: a number, or a percentage of it."""

    max_unavailable: int | str | None = None
    max_surge: int | str | None = None
    partition: int | None = None


class UpdateStrategy(Struct):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(Struct):
    selector: LabelSelector = LabelSelector()
    template: PodTemplate = EMPTY
    replicas: int = 1
    strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10
    progress_deadline_seconds: int = 600
    paused: bool = False


class DeploymentCondition(Struct):
    """A deployment's condition: `last_update_time` also moves when a rollout gets on without changing its status."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_update_time: str | None = None
    last_transition_time: str | None = None


class DeploymentStatus(Struct):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    collision_count: int | None = None
    conditions: tuple[DeploymentCondition, ...] = ()


class Deployment(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(Struct):
    selector: LabelSelector = LabelSelector()
    template: PodTemplate = EMPTY
    replicas: int = 1
    min_ready_seconds: int = 0


class ReplicaSetStatus(Struct):
    observed_generation: int = 0
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class ReplicationControllerSpec(Struct):
    selector: Mapping[str, str] = EMPTY
    template: PodTemplate = EMPTY
    replicas: int = 1


class ReplicationController(Struct):
    """The ancestor of ReplicaSets. Its selector and size count for spreading and eviction limits."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class ControllerRevision(Struct):
    """One state that a StatefulSet or DaemonSet was in: `data` is the patch that brings it back."""

    metadata: ObjectMeta = ObjectMeta()
    data: Mapping[str, Any] = EMPTY
    revision: int = 0


class StatefulSetOrdinals(Struct):
    start: int = 0


class ClaimRetentionPolicy(Struct):
    """What becomes of the claims of a StatefulSet's pods: Retain or Delete."""

    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class StatefulSetSpec(Struct):
    selector: LabelSelector = LabelSelector()
    template: PodTemplate = EMPTY
    service_name: str = ""
    replicas: int = 1
    pod_management_policy: str = "OrderedReady"
    update_strategy: UpdateStrategy = UpdateStrategy()
    volume_claim_templates: tuple[Mapping[str, Any], ...] = ()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10
    ordinals: StatefulSetOrdinals = StatefulSetOrdinals()
    persistent_volume_claim_retention_policy: ClaimRetentionPolicy | None = None


class StatefulSetStatus(Struct):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None
    conditions: tuple[Condition, ...] = ()


class StatefulSet(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class DaemonSetSpec(Struct):
    selector: LabelSelector = LabelSelector()
    template: PodTemplate = EMPTY
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10


class DaemonSetStatus(Struct):
    observed_generation: int = 0
    current_number_scheduled: int = 0
    desired_number_scheduled: int = 0
    number_misscheduled: int = 0
    number_ready: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    updated_number_scheduled: int = 0
    collision_count: int | None = None
    conditions: tuple[Condition, ...] = ()


class DaemonSet(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class ExitCodeRequirement(Struct):
    """Which exit codes are meant: In or NotIn `values`, of one container or of any."""

    operator: str = "In"
    values: tuple[int, ...] = ()
    container_name: str | None = None


class PodConditionPattern(Struct):
    type: str
    status: str = "True"


class PodFailureRule(Struct):
    """What to do about a failed pod that matches: FailJob, FailIndex, Ignore or Count."""

    action: str
    on_exit_codes: ExitCodeRequirement | None = None
    on_pod_conditions: tuple[PodConditionPattern, ...] = ()


class PodFailurePolicy(Struct):
    rules: tuple[PodFailureRule, ...] = ()


class SuccessRule(Struct):
    """When a job has succeeded though not all indexes have: these indexes, or a number of them."""

    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(Struct):
    rules: tuple[SuccessRule, ...] = ()


class JobSpec(Struct):
    template: PodTemplate = EMPTY
    selector: LabelSelector | None = None
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    manual_selector: bool = False
    managed_by: str | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    pod_replacement_policy: str = ""


class UncountedPods(Struct):
    """Uids of finished pods that the counters do not have yet."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(Struct):
    active: int = 0
    ready: int | None = None
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    completed_indexes: str = ""
    failed_indexes: str = ""
    uncounted_terminated_pods: UncountedPods | None = None
    start_time: str | None = None
    completion_time: str | None = None
    conditions: tuple[Condition, ...] = ()


class Job(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class CronJobSpec(Struct):
    """A schedule in cron's five fields or a macro, and the Job to make at each of its times."""

    schedule: str = ""
    job_template: Mapping[str, Any] = EMPTY
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool = False
    successful_jobs_history_limit: int | None = 3
    failed_jobs_history_limit: int | None = 1


class CronJobStatus(Struct):
    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()
