"""A pod's status as this node writes it: the whole of it, and the patch to it from what the API has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from koord.api.kubernetes.pod import PodStatus
from koord.api.kubernetes.runnable import RunnableContainer, RunnablePod
from koord.api.kubernetes.words import ConditionStatus, PodConditionType, PodPhase
from koord.api.text.timestamp import from_seconds
from koord.minicluster.local.life import ContainerLife, Ended, Life, Running, State, Waiting, phase_of, shown

Json: TypeAlias = dict[str, object]


def status_patch(pod: RunnablePod, life: Life, host_ip: str, now_s: float) -> Json | None:
    """None where the API already says it."""
    old, phase = pod.status, phase_of(pod, life)
    wanted: Json = {
        "phase": phase,
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": host_ip,
        "podIPs": [{"ip": host_ip}],
        "startTime": old.start_time or from_seconds(now_s),
        "containerStatuses": _statuses(pod, pod.spec.containers, life, now_s),
    }
    if pod.spec.init_containers:
        wanted["initContainerStatuses"] = _statuses(pod, pod.spec.init_containers, life, now_s)
    conditions = list(_conditions(pod, life, phase, now_s))
    if conditions:
        wanted["conditions"] = conditions
    if not conditions and _says(old, wanted):
        return None
    return {"metadata": {"uid": pod.metadata.uid}, "status": wanted}


def _says(old: PodStatus, wanted: Json) -> bool:
    """Whether what is known of the old status is what is wanted; what koord does not read counts as the same."""
    told = msgspec.convert(wanted, type(old), strict=False)
    return (
        old.phase == told.phase
        and old.pod_ip == told.pod_ip
        and old.start_time == told.start_time
        and old.container_statuses == told.container_statuses
        and old.init_container_statuses == told.init_container_statuses
    )


def _statuses(pod: RunnablePod, containers: Sequence[RunnableContainer], life: Life, now_s: float) -> list[Json]:
    return [_container(each, shown(pod, each, life.containers[each.name], now_s)) for each in containers]


def _container(container: RunnableContainer, own: ContainerLife) -> Json:
    running = own.state if isinstance(own.state, Running) else None
    status: Json = {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": running.ready if running else isinstance(own.state, Ended) and own.state.ok,
        "started": running.started if running else False,
        "restartCount": own.restarts,
        "state": _state(own.state),
        "lastState": _state(own.last) if own.last is not None else {},
    }
    if own.id:
        status["containerID"] = own.id
    if running:
        amounts = {"limits": dict(container.resources.limits), "requests": dict(container.resources.requests)}
        status["resources"] = {key: each for key, each in amounts.items() if each}
    return status


def _state(state: State) -> Json:
    match state:
        case Waiting(reason, message):
            return {"waiting": {"reason": reason, **({"message": message} if message else {})}}
        case Running(since_s):
            return {"running": {"startedAt": from_seconds(since_s)}}
        case Ended(code, started_s, ended_s, reason):
            times = {"startedAt": from_seconds(started_s), "finishedAt": from_seconds(ended_s)}
            return {"terminated": {"exitCode": code, "reason": reason, **times}}


def _conditions(pod: RunnablePod, life: Life, phase: PodPhase, now_s: float) -> Iterator[Json]:
    """The conditions that are not yet as they should be."""
    unready = [each.name for each in pod.spec.containers if not _is_ready(life.containers[each.name])]
    unfinished = [each.name for each in pod.spec.init_containers if not _is_done(each, life.containers[each.name])]
    why = {PodPhase.SUCCEEDED: "PodCompleted", PodPhase.FAILED: "PodFailed"}.get(phase, "ContainersNotReady")
    message = f"containers with unready status: [{' '.join(unready)}]" if why == "ContainersNotReady" else ""
    incomplete = f"containers with incomplete status: [{' '.join(unfinished)}]"
    wanted = (
        (PodConditionType.READY_TO_START_CONTAINERS, True, "", ""),
        (PodConditionType.INITIALIZED, not unfinished, "ContainersNotInitialized", incomplete),
        (PodConditionType.READY, not unready, why, message),
        (PodConditionType.CONTAINERS_READY, not unready, why, message),
        (PodConditionType.SCHEDULED, True, "", ""),
    )
    for type_, holds, reason, words in wanted:
        status = ConditionStatus.TRUE if holds else ConditionStatus.FALSE
        reason, words = ("", "") if holds else (reason, words)
        was = pod.status.condition(type_)
        if was is not None and (was.status, was.reason, was.message) == (status, reason, words):
            continue
        since = was.last_transition_time if was is not None and was.status == status else None
        yield {
            "type": type_,
            "status": status,
            "lastProbeTime": None,
            "lastTransitionTime": since or from_seconds(now_s),
            "reason": reason or None,
            "message": words or None,
        }


def _is_ready(own: ContainerLife) -> bool:
    return isinstance(own.state, Running) and own.state.ready


def _is_done(container: RunnableContainer, own: ContainerLife) -> bool:
    if container.is_sidecar:
        return isinstance(own.state, Running) and own.state.started
    return isinstance(own.state, Ended) and own.state.ok
