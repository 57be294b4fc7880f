"""A pod's status as its node writes it: the patch from what the API has to what the pod's life says.

`step` is the one decision for a pod at a time: what to patch, whether to take the pod away, and when to look again. A
status that already says what it should gives no patch; conditions keep their time of change while their status stays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from koord.api.kubernetes.pod import ContainerStatus, Pod, PodStatus, ResourceRequirements
from koord.api.kubernetes.words import ConditionStatus, PodConditionType, PodPhase, RestartPolicy
from koord.api.text.timestamp import from_seconds, parse_timestamp
from koord.minicluster.hollow.phases import (
    ContainerLife,
    Ended,
    Life,
    Pace,
    Running,
    State,
    Waiting,
    killed,
    life_at,
    removal_s,
)

Json: TypeAlias = dict[str, object]


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a pod is reached, and its node."""

    host_ip: str
    pod_ip: str


@dataclass(frozen=True, slots=True)
class Step:
    """What to do with a pod: first `patch` its status, then remove it, then look again at `next_s`."""

    patch: Json | None = None
    remove: bool = False
    next_s: float | None = None


NOTHING = Step()


def started_at(pod: Pod, now_s: float) -> float:
    """When the node took the pod on: at this moment, if it has not said so yet."""
    return float(now_s // 1) if pod.status.start_time is None else parse_timestamp(pod.status.start_time)


def step(pod: Pod, now_s: float, pace: Pace, addresses: Addresses) -> Step:
    """What the pod's node does at `now_s`."""
    gone_s = removal_s(pod, pace)
    if gone_s is not None:
        return _leave(pod, now_s, gone_s, pace, addresses)
    if pod.is_finished:
        return NOTHING
    started_s = started_at(pod, now_s)
    life = life_at(pod, started_s, now_s, pace)
    return Step(_patch(pod, life, started_s, now_s, addresses), next_s=life.next_s)


def _leave(pod: Pod, now_s: float, gone_s: float, pace: Pace, addresses: Addresses) -> Step:
    if now_s < gone_s:
        return Step(next_s=gone_s)
    removed = pod.metadata.deletion_grace_period_seconds == 0
    if pod.is_finished:
        return NOTHING if removed else Step(remove=True)
    patch = None
    if pod.metadata.finalizers or pod.spec.restart_policy != RestartPolicy.ALWAYS:
        # Somebody counts how this pod ended (a Job, mostly), and may see it only now.
        started_s = started_at(pod, now_s)
        life = killed(life_at(pod, started_s, gone_s, pace), gone_s)
        patch = _patch(pod, life, started_s, now_s, addresses)
    return Step(patch, remove=not removed)


def _patch(pod: Pod, life: Life, started_s: float, now_s: float, addresses: Addresses) -> Json | None:
    status: Json = {}
    old = pod.status
    if old.start_time is None:
        status |= {
            "startTime": from_seconds(started_s),
            "hostIP": addresses.host_ip,
            "hostIPs": [{"ip": addresses.host_ip}],
        }
    if not old.pod_ip and life.has_sandbox:
        status |= {"podIP": addresses.pod_ip, "podIPs": [{"ip": addresses.pod_ip}]}
    if old.phase != life.phase:
        status["phase"] = life.phase
    if life.reason and old.reason != life.reason:
        status |= {"reason": life.reason, "message": life.message}
    for field, was, lives in (
        ("initContainerStatuses", old.init_container_statuses, life.init),
        ("containerStatuses", old.container_statuses, life.containers),
    ):
        if lives and not _says(was, lives):
            status[field] = [_container(pod, container) for container in lives]
    if conditions := list(_conditions(old, life, now_s)):
        status["conditions"] = conditions
    return {"metadata": {"uid": pod.metadata.uid}, "status": status} if status else None


def _says(statuses: tuple[ContainerStatus, ...], lives: tuple[ContainerLife, ...]) -> bool:
    """Whether the statuses tell this already. Times are left out: they follow from the rest."""
    if len(statuses) != len(lives):
        return False
    return all(
        was.name == life.container.name
        and was.restart_count == life.restarts
        and was.ready == life.ready
        and _kind_of_status(was) == _kind_of_state(life.state)
        and (not isinstance(life.state, Running) or _has(was.resources, life.container.resources))
        for was, life in zip(statuses, lives, strict=True)
    )


def _has(told: ResourceRequirements | None, wanted: ResourceRequirements) -> bool:
    return told is not None and told.requests == wanted.requests and told.limits == wanted.limits


def _kind_of_status(status: ContainerStatus) -> tuple[str, str]:
    state = status.state
    if state.running is not None:
        return "running", ""
    if state.terminated is not None:
        return "terminated", str(state.terminated.exit_code)
    return "waiting", state.waiting.reason if state.waiting else ""


def _kind_of_state(state: State) -> tuple[str, str]:
    match state:
        case Waiting(reason):
            return "waiting", reason
        case Running():
            return "running", ""
        case Ended(code):
            return "terminated", str(code)


def _container(pod: Pod, life: ContainerLife) -> Json:
    name, image = life.container.name, life.container.image
    began = not isinstance(life.state, Waiting) or life.last is not None
    status: Json = {
        "name": name,
        "image": image,
        "imageID": f"hollow://{image}" if began else "",
        "ready": life.ready,
        "started": isinstance(life.state, Running),
        "restartCount": life.restarts,
        "state": _state(life.state),
        "lastState": _state(life.last) if life.last is not None else {},
    }
    if isinstance(life.state, Running):
        # What a container has is what it asks for: a resize takes effect at once.
        status["resources"] = _amounts(life.container.resources)
    if began:
        status["containerID"] = container_id(pod, name, life.restarts)
    return status


def _amounts(resources: ResourceRequirements) -> Json:
    both = {"limits": dict(resources.limits), "requests": dict(resources.requests)}
    return {key: amounts for key, amounts in both.items() if amounts}


def container_id(pod: Pod, container: str, restarts: int) -> str:
    digest = hashlib.blake2b(f"{pod.metadata.uid}/{container}/{restarts}".encode(), digest_size=32).hexdigest()
    return f"hollow://{digest}"


def _state(state: State) -> Json:
    match state:
        case Waiting(reason, message):
            return {"waiting": {"reason": reason, "message": message} if message else {"reason": reason}}
        case Running(since_s):
            return {"running": {"startedAt": from_seconds(since_s)}}
        case Ended(code, started_s, ended_s):
            times = {"startedAt": from_seconds(started_s), "finishedAt": from_seconds(ended_s)}
            return {"terminated": {"exitCode": code, "reason": state.reason, **times}}


def _conditions(old: PodStatus, life: Life, now_s: float) -> Iterator[Json]:
    """The conditions that are not yet as they should be."""
    unready = life.unready
    if life.phase is PodPhase.SUCCEEDED:
        why, message = "PodCompleted", ""
    elif life.phase is PodPhase.FAILED:
        why, message = "PodFailed", ""
    else:
        why, message = "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    incomplete = [c.container.name for c in life.init if not c.ready]
    wanted = (
        (PodConditionType.READY_TO_START_CONTAINERS, life.has_sandbox, "", ""),
        (
            PodConditionType.INITIALIZED,
            life.initialized,
            "ContainersNotInitialized",
            f"containers with incomplete status: [{' '.join(incomplete)}]",
        ),
        (PodConditionType.READY, not unready, why, message),
        (PodConditionType.CONTAINERS_READY, not unready, why, message),
        (PodConditionType.SCHEDULED, True, "", ""),
    )
    for type_, holds, reason, words in wanted:
        status = ConditionStatus.TRUE if holds else ConditionStatus.FALSE
        reason, words = ("", "") if holds else (reason, words)
        was = old.condition(type_)
        if was is not None and was.status == status and was.reason == reason and was.message == words:
            continue
        since = was.last_transition_time if was is not None and was.status == status else None
        condition: Json = {
            "type": type_,
            "status": status,
            "lastProbeTime": None,
            "lastTransitionTime": since or from_seconds(now_s),
        }
        # An empty text takes away what a condition said before.
        if reason or (was is not None and was.reason):
            condition["reason"] = reason or None
        if words or (was is not None and was.message):
            condition["message"] = words or None
        yield condition
