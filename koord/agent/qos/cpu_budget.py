"""How much CPU best-effort pods may use right now.

    budget = capacity * threshold% - used(pods not best effort) - used(host applications not best effort) - system

where system is what nobody else accounts for, at least what is reserved; and never less than a floor, if one is set.
Each line of it is kept, so that a person can follow it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from koord.agent.series import names
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState
from koord.api.protocol.annotations.cpu import NODE_RESERVATION
from koord.api.protocol.crd.node_slo import HostApplicationSpec
from koord.api.protocol.priority import QoSClass

FRESH_WITHIN_S: Final = 2.0
"""A sample counts as the present for two rounds."""


@dataclass(frozen=True, slots=True)
class CpuBudget:
    """In milli-cores."""

    capacity: int
    threshold_percent: int
    pods: int
    "Used by pods that are not best effort, and by those that nobody knows."
    host_applications: int
    system: int
    floor: int = 0

    @property
    def allowed(self) -> int:
        rest = self.capacity * self.threshold_percent // 100 - self.pods - self.host_applications - self.system
        return max(rest, self.floor)

    def __str__(self) -> str:
        parts = f"{self.threshold_percent}% of {self.capacity}m - pods {self.pods}m"
        if self.host_applications:
            parts += f" - host applications {self.host_applications}m"
        floor = f", at least {self.floor}m" if self.floor else ""
        return f"{parts} - system {self.system}m{floor} = {self.allowed}m"


def cpu_budget(
    state: NodeState, samples: Samples, threshold_percent: int, min_percent: int | None, now_s: float
) -> CpuBudget | None:
    """None where the node's or the pods' usage is not known, or no pod is: then best effort would count as system."""
    used = samples.last(names.NODE_CPU, now_s, FRESH_WITHIN_S)
    if used is None or not state.pods:
        return None
    pods = {uid: samples.last(names.pod_cpu(uid), now_s, FRESH_WITHIN_S) for uid in samples.owners("pod_cpu")}
    measured = {uid: value for uid, value in pods.items() if value is not None}
    running = [uid for uid, pod in state.pods.items() if any(each.is_running for each in pod.containers)]
    if running and not any(uid in measured for uid in running):
        return None
    applications = _host_applications(state, samples, now_s)
    protected = sum(value for uid, value in measured.items() if not _is_best_effort(state, uid))
    protected_applications = sum(value for app, value in applications if not is_best_effort_application(app))
    unaccounted = used - sum(measured.values()) - sum(value for _, value in applications)
    return CpuBudget(
        capacity=state.capacity_cpu_milli,
        threshold_percent=threshold_percent,
        pods=int(protected),
        host_applications=int(protected_applications),
        system=max(int(unaccounted), reserved_milli(state), 0),
        floor=state.capacity_cpu_milli * min_percent // 100 if min_percent else 0,
    )


def _is_best_effort(state: NodeState, uid: str) -> bool:
    pod = state.pods.get(uid)
    return pod is not None and pod.is_best_effort


def _host_applications(state: NodeState, samples: Samples, now_s: float) -> list[tuple[HostApplicationSpec, float]]:
    applications = state.slo.host_applications if state.slo else ()
    values = [(app, samples.last(names.host_application_cpu(app.name), now_s, FRESH_WITHIN_S)) for app in applications]
    return [(app, value) for app, value in values if value is not None]


def is_best_effort_application(app: HostApplicationSpec) -> bool:
    """Only one that lies below best-effort pods is held back with them."""
    path = app.cgroup_path
    return app.qos == QoSClass.BE and path is not None and path.base == "KubepodsBesteffort"


def reserved_milli(state: NodeState) -> int:
    """Kept from pods: by kubelet (capacity less allocatable), or by the node's annotation."""
    by_kubelet = state.capacity_cpu_milli - state.allocatable.get("cpu", state.capacity_cpu_milli)
    return max(by_kubelet, NODE_RESERVATION.read(state.node.metadata).cpu_milli, 0)
