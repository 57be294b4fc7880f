"""Pods as their controllers see them: does this one count, is it of use yet, and which is missed least?

"Active" is neither finished nor on its way out. "Available" is ready for at least a workload's minReadySeconds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from koord.api.kubernetes.core import Pod
from koord.api.kubernetes.pod_costs import deletion_cost
from koord.api.kubernetes.words import PodPhase, RestartPolicy
from koord.api.text.timestamp import TimestampError, parse_timestamp

_PHASES: Final[Mapping[str, int]] = {PodPhase.PENDING: 0, PodPhase.UNKNOWN: 1, PodPhase.RUNNING: 2}


def is_active(pod: Pod) -> bool:
    return not pod.is_finished and pod.metadata.deletion_timestamp is None


def is_terminating(pod: Pod) -> bool:
    return not pod.is_finished and pod.metadata.deletion_timestamp is not None


def is_ready(pod: Pod) -> bool:
    ready = pod.status.condition("Ready")
    return ready is not None and ready.status == "True"


def ready_since_s(pod: Pod) -> float | None:
    """When it became ready; None where it is not, or where that is not told."""
    ready = pod.status.condition("Ready")
    return _time(ready.last_transition_time) if ready is not None and ready.status == "True" else None


def available_in_s(pod: Pod, min_ready_s: int, now_s: float) -> float | None:
    """How long until a ready pod is available: 0 where it is, None where it is not even ready."""
    if not is_ready(pod):
        return None
    since_s = ready_since_s(pod)
    if min_ready_s == 0:
        return 0.0
    return None if since_s is None else max(0.0, since_s + min_ready_s - now_s)


def is_available(pod: Pod, min_ready_s: int, now_s: float) -> bool:
    return available_in_s(pod, min_ready_s, now_s) == 0.0


def next_available_in_s(pods: Iterable[Pod], min_ready_s: int, now_s: float) -> float | None:
    """When the next of the ready pods becomes available, if one is still waiting for that."""
    waits_s = (available_in_s(pod, min_ready_s, now_s) for pod in pods)
    return min((wait_s for wait_s in waits_s if wait_s), default=None)


def deleted_first(pods: Sequence[Pod], related: Iterable[Pod], now_s: float) -> list[Pod]:
    """`pods` in the order in which a workload gives them up.

    Unassigned before assigned, pending before running, not ready before ready, cheap before dear, crowded nodes (by
    active `related` pods) first, then the younger and the more often restarted. Ages count by their order of
    magnitude, and within one the uid decides: thus not all pods of one age, say those of one zone, go together.
    """
    crowd = Counter(pod.spec.node_name for pod in related if is_active(pod))

    def order(pod: Pod) -> tuple[object, ...]:
        ready = is_ready(pod)
        return (
            bool(pod.spec.node_name),
            _PHASES.get(pod.status.phase, 0),
            ready,
            deletion_cost(pod),
            -crowd[pod.spec.node_name],
            *(_age_order(ready_since_s(pod), now_s) if ready else ()),
        )

    # Two pods that became ready at the same instant are told apart by what follows; others by their uid at the latest.
    def tie(pod: Pod) -> tuple[object, ...]:
        regular, sidecar = _restarts(pod)
        return (-regular, -sidecar, *_age_order(_time(pod.metadata.creation_timestamp), now_s), pod.metadata.uid)

    groups: dict[tuple[object, ...], list[Pod]] = {}
    for pod in pods:
        groups.setdefault(order(pod), []).append(pod)
    ranked: list[Pod] = []
    for key in sorted(groups, key=_comparable):
        group = groups[key]
        same_instant = len({ready_since_s(pod) for pod in group}) == 1
        ranked += sorted(group, key=tie if same_instant else lambda pod: (pod.metadata.uid,))
    return ranked


def _comparable(key: tuple[object, ...]) -> tuple[Any, ...]:
    return key


def _age_order(since_s: float | None, now_s: float) -> tuple[int, int]:
    """Unknown times come first, then the younger order of magnitude (in nanoseconds, of powers of two)."""
    if since_s is None:
        return (0, 0)
    age_ns = round((now_s - since_s) * 1e9)
    return (1, int(math.log2(age_ns)) if age_ns > 0 else -1)


def _restarts(pod: Pod) -> tuple[int, int]:
    """The most restarts of any main container, and of any sidecar."""
    sidecars = {c.name for c in pod.spec.init_containers if c.restart_policy is RestartPolicy.ALWAYS}
    return (
        max((c.restart_count for c in pod.status.container_statuses), default=0),
        max((c.restart_count for c in pod.status.init_container_statuses if c.name in sidecars), default=0),
    )


def _time(text: str | None) -> float | None:
    try:
        return parse_timestamp(text) if text else None
    except TimestampError:
        return None
