"""`koord explain deployment/NAME`: why a workload is not complete.

What its controller says (conditions, warnings), what its pods wait for, and the last of its pods without a node, as the
scheduler would meet it: if that one fits, those that look the same fit before it. A workload without a uid is in no
cluster yet; its pods are those that its controller would make.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from koord.api import kinds
from koord.api.kinds import Kind
from koord.api.kubernetes.core import Event
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.words import PodConditionType, PodPhase
from koord.api.kubernetes.workloads import CronJob, DaemonSet, Deployment, Job, StatefulSet
from koord.api.machinery.faults import BadInput
from koord.api.text.manifest import Manifests
from koord.api.text.timestamp import from_seconds
from koord.api.workloads.cron_jobs import schedule_of
from koord.offline.explain import Explained, explain_in
from koord.offline.world import World, world_of
from koord.scheduler import explain as scheduler
from koord.scheduler.profiles import Profiles

WORKLOADS: Final[tuple[Kind[Any], ...]] = (
    kinds.DEPLOYMENTS,
    kinds.REPLICA_SETS,
    kinds.STATEFUL_SETS,
    kinds.DAEMON_SETS,
    kinds.JOBS,
    kinds.CRON_JOBS,
    kinds.REPLICATION_CONTROLLERS,
)
_WRONG_IF: Final = {"ReplicaFailure": "True", "Progressing": "False", "Failed": "True"}
"""Conditions that report a problem, and the status that they have then."""

Outcome: TypeAlias = Literal["complete", "incomplete", "failed", "suspended", "waiting"]
"""Waiting: the time of a CronJob's first Job has not come."""
Family: TypeAlias = frozenset[tuple[str, str]]
"""Kind and key of a workload and of what it made that makes pods."""


class NoSuchWorkload(BadInput):
    """The workload does not exist. The message names workloads with similar names."""


class WorkloadExplained(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The explanation of a workload. All keys are always printed."""

    workload: str
    outcome: Outcome
    wanted: int
    "Pods that it should have; of a Job, pods that should succeed."
    pods: int
    "Pods that exist or, in files, would be made."
    ready: int
    succeeded: int
    reasons: tuple[str, ...]
    "What its controller says, or what keeps the controller from its work."
    unready: Mapping[str, str]
    "Its pods that are neither ready nor done, each with the reason."
    pod: Explained | None
    "The last of its pods without a node."

    @property
    def ends(self) -> bool:
        """Whether its pods are to succeed, and not to stay."""
        return self.workload.startswith(("Job ", "CronJob "))


class WorkloadAnswer(msgspec.Struct, frozen=True):
    explained: WorkloadExplained
    ignored: Mapping[str, int]
    warnings: tuple[str, ...]


def explain_workload(
    written: Manifests,
    expanded: Manifests,
    profiles: Profiles,
    kind: Kind[Any],
    key: str,
    *,
    now_s: float,
    seed: int = 0,
    top: int = scheduler.TOP,
    examples: int = scheduler.EXAMPLES,
    unanswered: Callable[[str], str] = lambda scheduler_name: "",
) -> WorkloadAnswer:
    """`expanded`: `written` with the pods that workloads would make. Raises `Invalid`, `NoSuchWorkload`."""
    workload = _find(written, kind, key)
    family = _family(written, expanded, kind, workload)
    world = world_of(expanded, profiles, now_s=now_s, seed=seed, rounds=1, unanswered=unanswered)
    pods = [pod for pod in world.pods.values() if _owner(pod.metadata) in family]
    pods += [pod for pod in expanded.of(kinds.PODS) if pod.is_finished and _owner(pod.metadata) in family]
    denied = _denied(world, expanded, family)
    without_node = [pod.metadata.key for pod in pods if not (pod.spec.node_name or pod.is_finished)] or list(denied)
    example = None
    if without_node:
        example = explain_in(
            world, expanded, without_node[-1], alone=False, top=top, examples=examples, unanswered=unanswered
        )
    explained = msgspec.structs.replace(_judged(workload, kind, pods, denied), pod=example)
    reasons = dict.fromkeys(_reasons(workload, explained, family, written.of(kinds.EVENTS), now_s))
    explained = msgspec.structs.replace(explained, reasons=tuple(reasons))
    return WorkloadAnswer(explained, world.ignored, (*profiles.warnings, *world.warnings))


def _find(manifests: Manifests, kind: Kind[Any], key: str) -> Any:
    by_key = {workload.metadata.key: workload for workload in manifests.of(kind)}
    if key not in by_key:
        near = difflib.get_close_matches(key, by_key, n=3)
        hint = f"; there is {', '.join(near)}" if near else ""
        raise NoSuchWorkload(f"there is no {kind.kind} {key}{hint}")
    return by_key[key]


def _family(written: Manifests, expanded: Manifests, kind: Kind[Any], workload: Any) -> Family:
    own = (kind.kind, workload.metadata.key)
    if isinstance(workload, CronJob):
        # Its last Job counts. In files that is the one of its next time, which only its pods name.
        jobs = [job for job in written.of(kinds.JOBS) if _owner(job.metadata) == own]
        made = {_owner(pod.metadata) for pod in expanded.of(kinds.PODS)} if not workload.metadata.uid else set()
        between = {(name, owner) for name, owner in made if name == "Job" and owner.startswith(f"{own[1]}-")}
        if jobs:
            between = {("Job", max(jobs, key=lambda job: job.metadata.creation_timestamp or "").metadata.key)}
    else:
        sets = (*written.of(kinds.REPLICA_SETS), *expanded.of(kinds.REPLICA_SETS))
        between = {
            ("ReplicaSet", replica_set.metadata.key) for replica_set in sets if _owner(replica_set.metadata) == own
        }
    return frozenset({own, *between})


def _owner(meta: ObjectMeta) -> tuple[str, str]:
    owner = meta.controller
    return ("", "") if owner is None else (owner.kind, f"{meta.namespace}/{owner.name}")


def _denied(world: World, expanded: Manifests, family: Family) -> dict[str, str]:
    """Pods of a workload that would not be let in, under the names that they have in the world."""
    own = [pod.metadata for pod in expanded.of(kinds.PODS) if _owner(pod.metadata) in family]
    names = {meta.key for meta in own if meta.name}
    prefixes = tuple({f"{meta.namespace}/{meta.generate_name}" for meta in own if not meta.name})
    return {key: why for key, why in world.denied.items() if key in names or key.startswith(prefixes)}


def _judged(workload: Any, kind: Kind[Any], pods: Sequence[Pod], denied: Mapping[str, str]) -> WorkloadExplained:
    """The figures; without reasons yet."""
    succeeded = sum(pod.status.phase == PodPhase.SUCCEEDED for pod in pods)
    if isinstance(workload, Job):
        # Finished pods may be gone.
        succeeded = max(succeeded, workload.status.succeeded)
    ready = sum(_is_ready(pod) for pod in pods)
    wanted = _wanted(workload, len(pods) + len(denied))
    done = succeeded if isinstance(workload, Job | CronJob) else ready
    outcome: Outcome = "complete" if done >= wanted and not _left_to_roll_out(workload) else "incomplete"
    if isinstance(workload, Job) and any(
        condition.type == "Failed" and condition.status == "True" for condition in _conditions(workload)
    ):
        outcome = "failed"
    elif isinstance(workload, Job | CronJob) and workload.spec.suspend and (outcome == "incomplete" or not pods):
        outcome = "suspended"
    elif isinstance(workload, CronJob) and not pods:
        outcome = "waiting"
    waiting = (pod for pod in pods if not _is_ready(pod) and pod.status.phase != PodPhase.SUCCEEDED)
    return WorkloadExplained(
        workload=f"{kind.kind} {workload.metadata.key}",
        outcome=outcome,
        wanted=wanted,
        pods=len(pods) + len(denied),
        ready=ready,
        succeeded=succeeded,
        reasons=(),
        unready={**{pod.metadata.key: _why(pod) for pod in waiting}, **denied},
        pod=None,
    )


def _wanted(workload: Any, pods: int) -> int:
    match workload:
        case DaemonSet():
            return workload.status.desired_number_scheduled if workload.metadata.uid else pods
        case Job():
            return workload.spec.parallelism if workload.spec.completions is None else workload.spec.completions
        case CronJob():
            return pods
    wanted: int = workload.spec.replicas
    return wanted


def _left_to_roll_out(workload: Any) -> int:
    """Pods that are missing of the last revision, or left of earlier ones."""
    match workload:
        case DaemonSet(status=status) if workload.metadata.uid:
            return max(0, status.desired_number_scheduled - status.updated_number_scheduled)
        case StatefulSet(status=status) if status.current_revision == status.update_revision:
            return 0
        case Deployment(status=status, spec=spec) | StatefulSet(status=status, spec=spec) if workload.metadata.uid:
            # Pods of earlier revisions go when enough of the last one are ready.
            return max(0, max(spec.replicas, status.replicas) - status.updated_replicas)
    return 0


def _reasons(
    workload: Any, explained: WorkloadExplained, family: Family, events: Iterable[Event], now_s: float
) -> Iterator[str]:
    meta: ObjectMeta = workload.metadata
    if meta.deletion_timestamp is not None:
        yield "it is being deleted"
    if isinstance(workload, Deployment) and workload.spec.paused:
        yield f"it is paused: kubectl -n {meta.namespace} rollout resume deployment/{meta.name} continues it"
    if isinstance(workload, CronJob) and len(family) == 1 and not workload.spec.suspend:
        next_s = schedule_of(workload).next_after(now_s)
        yield "its schedule names no time" if next_s is None else f"its next Job is due at {from_seconds(next_s)}"
    if isinstance(workload, Job | CronJob) and workload.spec.suspend:
        yield "it is suspended: spec.suspend must be false for it to make pods"
    reasons_said = set()
    for condition in _conditions(workload):
        if _WRONG_IF.get(condition.type) == condition.status:
            reasons_said.add(condition.reason)
            yield f"{condition.reason}: {condition.message}" if condition.message else condition.reason
    if explained.outcome != "incomplete":
        return
    if left := _left_to_roll_out(workload):
        yield f"it is rolling out: {left} of the last revision missing, or of earlier ones left"
    yield from (said for reason, said in _warnings(events, family).items() if reason not in reasons_said)
    observed = getattr(getattr(workload, "status", None), "observed_generation", None)
    if meta.uid and observed is not None and observed < meta.generation:
        yield "its controller has not seen its last change: koord status says what runs"
    elif meta.uid and explained.pods < explained.wanted and not explained.ends:
        yield f"its controller has made {explained.pods} of {explained.wanted} pods"


def _conditions(workload: Any) -> Sequence[Any]:
    return getattr(getattr(workload, "status", None), "conditions", ())


def _warnings(events: Iterable[Event], family: Family) -> dict[str, str]:
    """The last warning about a workload for each reason."""
    last: dict[str, str] = {}
    for event in sorted(events, key=lambda event: event.event_time or event.deprecated_last_timestamp or ""):
        regarding = event.regarding.kind, f"{event.regarding.namespace}/{event.regarding.name}"
        if event.type == "Warning" and regarding in family:
            last[event.reason] = f"{event.reason}: {event.note}"
    return last


def _is_ready(pod: Pod) -> bool:
    """A dump may leave conditions out: then a pod that runs is taken as ready."""
    if pod.is_finished or pod.metadata.deletion_timestamp is not None:
        return False
    ready = pod.status.condition(PodConditionType.READY)
    return ready.status == "True" if ready is not None else pod.status.phase == PodPhase.RUNNING


def _why(pod: Pod) -> str:
    """Why a pod is not ready, as far as it says so."""
    status = pod.status
    if pod.metadata.deletion_timestamp is not None:
        return "is being deleted"
    if pod.is_finished:
        return "has failed" + "".join(f": {part}" for part in (status.reason, status.message) if part)
    if not pod.spec.node_name:
        scheduled = status.condition(PodConditionType.SCHEDULED)
        return scheduled.message or scheduled.reason if scheduled is not None else "has no node yet"
    for container in (*status.init_container_statuses, *status.container_statuses):
        waiting = container.state.waiting
        if waiting is not None and waiting.reason:
            return f"container {container.name}: {waiting.reason}" + (f": {waiting.message}" if waiting.message else "")
    return f"is on {pod.spec.node_name}, and is not ready"
