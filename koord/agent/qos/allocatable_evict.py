"""Eviction by allocatable: more was requested of a band than the node now has for it.

Reclaimed resources shrink while pods already hold them. What has to go is the part above the lower bound; where the
node has nothing of the resource any more, all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from koord.agent.pods import AgentPod
from koord.agent.qos.evicting import Account, Candidate, Task, by_importance, is_offered
from koord.agent.state import NodeState

HIGHEST_PRIORITY: Final = 7999
"""Pods of services are never evicted for what was reclaimed."""


def allocatable_tasks(
    state: NodeState,
    feature: str,
    resources: Iterable[str],
    threshold_percent: int | None,
    lower_percent: int | None,
    highest_priority: int | None,
) -> Iterator[Task]:
    if threshold_percent is None or lower_percent is None or highest_priority is None:
        return
    if not (0 <= lower_percent < threshold_percent) or highest_priority > HIGHEST_PRIORITY:
        return
    counted = [pod for pod in state.pods.values() if pod.is_active and (pod.priority or 0) <= highest_priority]
    for resource in resources:
        requested = sum(pod.requests.get(resource, 0) for pod in counted)
        has = state.allocatable.get(resource, 0)
        need = to_release(requested, has, threshold_percent, lower_percent)
        if need <= 0:
            continue

        def frees(pod: AgentPod, resource: str = resource) -> int:
            return pod.requests.get(resource, 0)

        pods = [pod for pod in counted if frees(pod) > 0 and is_offered(pod, feature, highest_priority)]
        pods.sort(key=by_importance(frees))
        why = f"{requested} of {resource} are requested, and the node has {has}"
        yield Task(feature, Account("request", resource), need, [Candidate(pod, frees(pod)) for pod in pods], why)


def to_release(requested: int, has: int, threshold_percent: int, lower_percent: int) -> int:
    if has <= 0:
        return requested
    if requested * 100 <= has * threshold_percent:
        return 0
    return requested - has * lower_percent // 100
