"""How much CPU best-effort pods may use right now.

    budget = capacity * threshold% - used(pods not best effort) - used(host applications not best effort) - system

where system is all other usage, at least what is reserved; and never less than a floor, if one is set.
Each line of it is kept, so that a person can follow it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from koord.agent.host_applications import host_applications, lies_in_best_effort
from koord.agent.series import names
from koord.agent.series.samples import Samples, Series
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
    "Used by pods that are not best effort, and by pods that are not known."
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
    state: NodeState,
    samples: Samples,
    threshold_percent: int,
    min_percent: int | None,
    now_s: float,
    over_s: float = 0.0,
) -> CpuBudget | None:
    """None where the node's or the pods' usage is not known, or no pod is: then best effort would count as system.

    `over_s`: seconds of the mean that counts; without it, the last second's.
    """
    of = partial(_used, samples, now_s, over_s)
    used = of(names.NODE_CPU)
    if used is None or not state.pods:
        return None
    pods = {uid: of(names.pod_cpu(uid)) for uid in samples.owners("pod_cpu")}
    measured = {uid: value for uid, value in pods.items() if value is not None}
    running = [uid for uid, pod in state.pods.items() if any(container.is_running for container in pod.containers)]
    if running and not any(uid in measured for uid in running):
        return None
    usages = ((app, of(names.host_application_cpu(app.name))) for app in host_applications(state.slo))
    applications = [(app, value) for app, value in usages if value is not None]
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


def _used(samples: Samples, now_s: float, over_s: float, series: Series) -> float | None:
    last = samples.last(series, now_s, FRESH_WITHIN_S)
    return last if last is None or not over_s else samples.mean(series, now_s, over_s)


def is_best_effort_application(app: HostApplicationSpec) -> bool:
    return app.qos == QoSClass.BE and lies_in_best_effort(app)


def reserved_milli(state: NodeState) -> int:
    """Kept from pods: by kubelet (capacity less allocatable), or by the node's annotation."""
    by_kubelet = state.capacity_cpu_milli - state.allocatable.get("cpu", state.capacity_cpu_milli)
    return max(by_kubelet, NODE_RESERVATION.read(state.node.metadata).cpu_milli, 0)
