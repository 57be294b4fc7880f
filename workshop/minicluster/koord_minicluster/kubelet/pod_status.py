"""The parts of a pod's status that every kubelet writes alike: states of containers, and conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TypeAlias

from koord.api.kubernetes.pod import Container, Pod, PodStatus, ResourceRequirements
from koord.api.kubernetes.words import ConditionStatus, PodConditionType, PodPhase
from koord.api.text.timestamp import from_seconds
from koord_minicluster.kubelet.states import Ended, Running, State, Waiting
from koord_minicluster.kubelet.termination import Ending

Json: TypeAlias = dict[str, object]


def state_told(state: State) -> Json:
    match state:
        case Waiting(reason, message):
            return {"waiting": {"reason": reason, "message": message} if message else {"reason": reason}}
        case Running(since_s):
            return {"running": {"startedAt": from_seconds(since_s)}}
        case Ended(code, started_s, ended_s):
            times = {"startedAt": from_seconds(started_s), "finishedAt": from_seconds(ended_s)}
            return {"terminated": {"exitCode": code, "reason": state.reason, **times}}


def container_told(
    container: Container,
    state: State,
    last: Ended | None,
    *,
    ready: bool,
    restarts: int,
    id: str,
    image_id: str = "",
) -> Json:
    """The whole status of a container; `last` is how it ended before, `id` is empty until it has run."""
    status: Json = {
        "name": container.name,
        "image": container.image,
        "imageID": image_id,
        "ready": ready,
        "started": isinstance(state, Running) and state.started,
        "restartCount": restarts,
        "state": state_told(state),
        "lastState": state_told(last) if last is not None else {},
    }
    if id:
        status["containerID"] = id
    if isinstance(state, Running):
        status["resources"] = _amounts_told(container.resources)
    return status


def container_id(runtime: str, pod: Pod, container: str, restarts: int) -> str:
    """The same ID for the same run, so that a restarted kubelet recognises the container."""
    digest = blake2b(f"{pod.metadata.uid}/{container}/{restarts}".encode(), digest_size=32).hexdigest()
    return f"{runtime}://{digest}"


def ending_told(ending: Ending) -> Json:
    return {"reason": ending.reason, "message": ending.message} if ending.reason else {}


def _amounts_told(resources: ResourceRequirements) -> Json:
    """What a running container has is what it asks for: a resize takes effect at once."""
    both = {"limits": dict(resources.limits), "requests": dict(resources.requests)}
    return {key: amounts for key, amounts in both.items() if amounts}


def conditions_told(
    old: PodStatus,
    phase: PodPhase,
    *,
    unready: Sequence[str],
    incomplete: Sequence[str],
    is_initialized: bool,
    has_sandbox: bool,
    now_s: float,
) -> Iterator[Json]:
    """The conditions that are not yet as they should be. `unready` and `incomplete` name (init) containers."""
    why = {PodPhase.SUCCEEDED: "PodCompleted", PodPhase.FAILED: "PodFailed"}.get(phase, "ContainersNotReady")
    message = f"containers with unready status: [{' '.join(unready)}]" if why == "ContainersNotReady" else ""
    not_done = f"containers with incomplete status: [{' '.join(incomplete)}]"
    wanted = (
        (PodConditionType.READY_TO_START_CONTAINERS, has_sandbox, "", ""),
        (PodConditionType.INITIALIZED, is_initialized, "ContainersNotInitialized", not_done),
        (PodConditionType.READY, not unready, why, message),
        (PodConditionType.CONTAINERS_READY, not unready, why, message),
        (PodConditionType.SCHEDULED, True, "", ""),
    )
    for type_, holds, reason, words in wanted:
        status = ConditionStatus.TRUE if holds else ConditionStatus.FALSE
        reason, words = ("", "") if holds else (reason, words)
        was = old.condition(type_)
        if was is not None and (was.status, was.reason, was.message) == (status, reason, words):
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
