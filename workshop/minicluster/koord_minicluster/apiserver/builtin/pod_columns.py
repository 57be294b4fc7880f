"""The columns that `kubectl get pods` shows: ready containers, status with its reason, restarts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from koord.api.text.timestamp import parse_timestamp
from koord_minicluster.apiserver.builtin.checks import Part
from koord_minicluster.apiserver.printing import AGE, NAME, NONE, at, human_duration, of, text
from koord_minicluster.apiserver.resource import Column, Obj

_UNREACHABLE: Final = "NodeLost"
_FINAL: Final = ("Succeeded", "Failed")


@dataclass(slots=True)
class Summary:
    """A pod in a line."""

    reason: str
    ready: int
    total: int
    restarts: int = 0
    last_restart_s: float = 0.0

    def restarted(self, status: Part) -> None:
        self.restarts += status.get("restartCount", 0)
        ended = (status.get("lastState") or {}).get("terminated") or {}
        if at_time := ended.get("finishedAt"):
            self.last_restart_s = max(self.last_restart_s, parse_timestamp(at_time))


def summarize(pod: Obj) -> Summary:
    spec, status = pod["spec"], pod.get("status") or {}
    conditions = status.get("conditions") or ()
    summary = Summary(status.get("reason") or status.get("phase", ""), 0, len(spec.get("containers") or ()))
    if any(
        condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated"
        for condition in conditions
    ):
        summary.reason = "SchedulingGated"
    sidecars = {
        container.get("name")
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    summary.total += len(sidecars)
    kept = Summary("", 0, 0)
    initializing = bool(status.get("initContainerStatuses")) and _initializing(pod, summary, kept, sidecars)
    if not initializing or _is_true(conditions, "Initialized"):
        summary.restarts, summary.last_restart_s = kept.restarts, kept.last_restart_s
        _main_containers(status, summary, ready=_is_true(conditions, "Ready"))
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == _UNREACHABLE:
            summary.reason = "Unknown"
        elif status.get("phase") not in _FINAL:
            summary.reason = "Terminating"
    return summary


def _initializing(pod: Obj, summary: Summary, kept: Summary, sidecars: set[str | None]) -> bool:
    """Whether an init container holds the pod up. `kept` counts the restarts of those that stay."""
    for i, status in enumerate(pod["status"]["initContainerStatuses"]):
        summary.restarted(status)
        stays = status.get("name") in sidecars
        if stays:
            kept.restarted(status)
        state = status.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if stays and status.get("started"):
            summary.ready += bool(status.get("ready"))
            continue
        if ended is not None:
            summary.reason = "Init:" + _end_reason(ended)
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            summary.reason = "Init:" + waiting["reason"]
        else:
            summary.reason = f"Init:{i}/{len(pod['spec'].get('initContainers') or ())}"
        return True
    return False


def _main_containers(status: Part, summary: Summary, *, ready: bool) -> None:
    running, failed = False, ""
    for container in reversed(status.get("containerStatuses") or ()):
        summary.restarted(container)
        state = container.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if waiting.get("reason"):
            summary.reason = waiting["reason"]
        elif ended is not None:
            summary.reason = _end_reason(ended)
            if ended.get("exitCode", 0) != 0:
                failed = summary.reason
        elif container.get("ready") and state.get("running") is not None:
            running = True
            summary.ready += 1
    if summary.reason == "Completed":
        if running and ready:
            summary.reason = "Running"
        elif failed:
            summary.reason = failed
        elif running:
            summary.reason = "NotReady"


def _end_reason(ended: Part) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _is_true(conditions: tuple[Part, ...] | list[Part], kind: str) -> bool:
    return any(condition.get("type") == kind and condition.get("status") == "True" for condition in conditions)


def _ready(pod: Obj) -> str:
    summary = summarize(pod)
    return f"{summary.ready}/{summary.total}"


def _restarts(pod: Obj, now_s: float) -> str:
    summary = summarize(pod)
    if summary.restarts and summary.last_restart_s:
        return f"{summary.restarts} ({human_duration(now_s - summary.last_restart_s)} ago)"
    return str(summary.restarts)


def _ip(pod: Obj) -> str:
    addresses = (pod.get("status") or {}).get("podIPs") or ()
    return (addresses[0].get("ip") if addresses else "") or NONE


def _gates(pod: Obj) -> str:
    gates = pod["spec"].get("readinessGates") or ()
    if not gates:
        return NONE
    conditions = (pod.get("status") or {}).get("conditions") or ()
    passed = sum(_is_true(conditions, gate.get("conditionType", "")) for gate in gates)
    return f"{passed}/{len(gates)}"


COLUMNS: Final[tuple[Column, ...]] = (
    NAME,
    text("Ready", of(_ready)),
    text("Status", of(lambda pod: summarize(pod).reason)),
    text("Restarts", _restarts),
    AGE,
    text("IP", of(_ip), 1),
    text("Node", at("spec", "nodeName", default=NONE), 1),
    text("Nominated Node", at("status", "nominatedNodeName", default=NONE), 1),
    text("Readiness Gates", of(_gates), 1),
)
