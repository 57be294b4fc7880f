"""A pod's status as this node writes it: the whole of it, and the patch to it from what the API has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from koord.api.kubernetes.pod import PodStatus
from koord.api.kubernetes.runnable import RunnableContainer, RunnablePod
from koord.api.kubernetes.words import PodPhase
from koord.api.text.timestamp import from_seconds
from koord_minicluster.kubelet.pod_status import Json, conditions_told, container_told, ending_told
from koord_minicluster.kubelet.states import Ended, Running
from koord_minicluster.local.life import ContainerLife, Life, phase_of, shown


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
    if life.ending is not None:
        wanted |= ending_told(life.ending)
    conditions = list(_conditions(pod, life, phase, now_s))
    if conditions:
        wanted["conditions"] = conditions
    if not conditions and _says(old, wanted):
        return None
    return {"metadata": {"uid": pod.metadata.uid}, "status": wanted}


def _says(old: PodStatus, wanted: Json) -> bool:
    """Whether what is known of the old status is what is wanted; what koord does not read counts as the same."""
    read_back = msgspec.convert(wanted, type(old), strict=False)
    return (
        old.phase == read_back.phase
        and old.reason == read_back.reason
        and old.pod_ip == read_back.pod_ip
        and old.start_time == read_back.start_time
        and old.container_statuses == read_back.container_statuses
        and old.init_container_statuses == read_back.init_container_statuses
    )


def _statuses(pod: RunnablePod, containers: Sequence[RunnableContainer], life: Life, now_s: float) -> list[Json]:
    return [_container(container, shown(pod, container, life, now_s)) for container in containers]


def _container(container: RunnableContainer, own: ContainerLife) -> Json:
    ready = own.state.ready if isinstance(own.state, Running) else isinstance(own.state, Ended) and own.state.ok
    return container_told(container, own.state, own.last, ready=ready, restarts=own.restarts, id=own.id)


def _conditions(pod: RunnablePod, life: Life, phase: PodPhase, now_s: float) -> Iterator[Json]:
    unready = [container.name for container in pod.spec.containers if not _is_ready(life.containers[container.name])]
    unfinished = [
        container.name
        for container in pod.spec.init_containers
        if not _is_done(container, life.containers[container.name])
    ]
    return conditions_told(
        pod.status, phase, unready=unready, incomplete=unfinished, is_initialized=not unfinished, has_sandbox=True,
        now_s=now_s,
    )  # fmt: skip


def _is_ready(own: ContainerLife) -> bool:
    return isinstance(own.state, Running) and own.state.ready


def _is_done(container: RunnableContainer, own: ContainerLife) -> bool:
    if container.is_sidecar:
        return isinstance(own.state, Running) and own.state.started
    return isinstance(own.state, Ended) and own.state.ok
