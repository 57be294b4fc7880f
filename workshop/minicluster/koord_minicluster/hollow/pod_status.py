"""A pod's status as its node writes it: the patch from what the API has to what the pod's life says.

`step` is the one decision for a pod at a time: what to patch, whether to take the pod away, and when to look again. A
status that already says what it should gives no patch; conditions keep their time of change while their status stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from koord.api.kubernetes.pod import ContainerStatus, Pod, ResourceRequirements
from koord.api.text.timestamp import from_seconds
from koord_minicluster.hollow.phases import ContainerLife, Life, Pace, killed, life_at, removal_s
from koord_minicluster.kubelet.pod_status import Json, conditions_told, container_id, container_told, ending_told
from koord_minicluster.kubelet.states import Ended, Running, State, Waiting
from koord_minicluster.kubelet.termination import DELETED, farewell, started_at

RUNTIME: Final = "hollow"


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
    last = farewell(pod)
    patch = None
    if last.tell:
        started_s = started_at(pod, now_s)
        life = killed(life_at(pod, started_s, gone_s, pace), gone_s, DELETED)
        patch = _patch(pod, life, started_s, now_s, addresses)
    return Step(patch, remove=last.remove)


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
    if life.ending is not None and old.reason != life.ending.reason:
        status |= ending_told(life.ending)
    for field, was, lives in (
        ("initContainerStatuses", old.init_container_statuses, life.init),
        ("containerStatuses", old.container_statuses, life.containers),
    ):
        if lives and not _says(was, lives):
            status[field] = [_container(pod, container) for container in lives]
    incomplete = [container_life.container.name for container_life in life.init if not container_life.ready]
    changes = conditions_told(
        old, life.phase, unready=life.unready, incomplete=incomplete, is_initialized=life.initialized,
        has_sandbox=life.has_sandbox, now_s=now_s,
    )  # fmt: skip
    if conditions := list(changes):
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


def _has(resources: ResourceRequirements | None, wanted: ResourceRequirements) -> bool:
    return resources is not None and resources.requests == wanted.requests and resources.limits == wanted.limits


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
    return container_told(
        life.container,
        life.state,
        life.last,
        ready=life.ready,
        restarts=life.restarts,
        image_id=f"{RUNTIME}://{image}" if began else "",
        id=container_id(RUNTIME, pod, name, life.restarts) if began else "",
    )
