"""Eviction by allocatable: more was requested of a band than the node now has for it.

Reclaimed resources shrink while pods already hold them. What has to go is the part above the lower bound; where the
node has nothing of the resource any more, all of it. A pod counts where its band buys: mid pods with mid resources,
batch pods with batch resources, whatever else they name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from koord.agent.pods import AgentPod
from koord.agent.qos.evicting import Account, Task, by_importance, is_offered, priority_of
from koord.agent.state import NodeState
from koord.api.protocol.priority import PriorityClass

HIGHEST_PRIORITY: Final = 7999
"""Pods of services are never evicted for what was reclaimed."""


class Resources(NamedTuple):
    """The names under which the bands ask for the same thing."""

    native: str
    mid: str
    batch: str

    def of(self, band: PriorityClass) -> str:
        if band is PriorityClass.MID:
            return self.mid
        return self.batch if band is PriorityClass.BATCH else self.native


def allocatable_tasks(
    state: NodeState,
    feature: str,
    resources: Resources,
    threshold_percent: int | None,
    lower_percent: int | None,
    highest_priority: int | None,
) -> Iterator[Task]:
    if threshold_percent is None or lower_percent is None or highest_priority is None:
        return
    if not (0 <= lower_percent < threshold_percent) or highest_priority > HIGHEST_PRIORITY:
        return
    for resource in resources:

        def frees(pod: AgentPod, resource: str = resource) -> int:
            is_counted = pod.is_active and priority_of(pod) <= highest_priority and resources.of(pod.band) == resource
            return pod.requests.get(resource, 0) if is_counted else 0

        requested = sum(map(frees, state.pods.values()))
        has = state.allocatable.get(resource, 0)
        need = to_release(requested, has, threshold_percent, lower_percent)
        if need <= 0:
            continue
        pods = [pod for pod in state.pods.values() if frees(pod) > 0 and is_offered(pod, feature, highest_priority)]
        pods.sort(key=by_importance(frees))
        why = f"{requested} of {resource} are requested, and the node has {has}"
        yield Task(feature, Account("request", resource), need, pods, frees, why)


def to_release(requested: int, has: int, threshold_percent: int, lower_percent: int) -> int:
    if has <= 0:
        return requested
    if requested * 100 <= has * threshold_percent:
        return 0
    return (requested * 100 - has * lower_percent) // 100
