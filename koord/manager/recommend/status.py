"""What a Recommendation shall say, and whether that is worth a write.

The history is part of the status, so one write keeps both, and a manager that restarts continues from there. With
50,000 pods in 5,000 workloads an hourly write for each is 1.4 a second: what changes little waits for that hour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from koord.api.kubernetes.meta import Condition
from koord.api.kubernetes.owners import Workload
from koord.api.kubernetes.resources import amounts
from koord.api.protocol.crd.recommendation import (
    RecommendationStatus,
    RecommendedContainerStatus,
    RecommendedPodStatus,
)
from koord.api.protocol.recommendation_target import Target
from koord.api.stats.histogram import HistogramError
from koord.api.text.quantity import ResourceList, render
from koord.api.text.timestamp import TimestampError, from_seconds, parse_timestamp
from koord.manager.recommend.history import (
    LEAST_HOURS,
    Amounts,
    ContainerHistory,
    ContainerTarget,
    KeptContainer,
)
from koord.manager.recommend.pods import PodFacts

VERSION: Final = 1
WRITE_EVERY_S: Final = 3600.0
CHANGED_AFTER_S: Final = 600.0
"""A target that moved is written no more often than this."""
CHANGED_PERCENT: Final = 10
TRUSTED_HOURS: Final = 72
"""With less history confidence is low."""

Histories = dict[str, ContainerHistory]
"""Of the containers of one workload, by name."""


class HistoryError(ValueError):
    """A status with an unreadable history."""


class _Kept(msgspec.Struct, frozen=True):
    version: int
    containers: dict[str, KeptContainer]
    target: str = ""
    "The identity of the target that named the pods."


def remembered(status: RecommendationStatus, target: Target) -> Histories:
    """What is known of the pods that this target names. Raises HistoryError."""
    if not status.history:
        return {}
    try:
        kept = msgspec.json.decode(status.history, type=_Kept)
        if kept.version != VERSION:
            raise HistoryError(f"status.history: must be version {VERSION}, not {kept.version}")
        if kept.target not in ("", target.identity):
            return {}
        return {name: ContainerHistory.restored(container) for name, container in kept.containers.items()}
    except (msgspec.DecodeError, HistogramError) as error:
        raise HistoryError(f"status.history: {error}") from error


def is_settled(pods: Sequence[PodFacts]) -> bool:
    """Whether no roll-out is under way: pods of two templates, side by side, are measured while they start and end.

    A selector may name pods of several workloads, each with its own template.
    """
    revisions: dict[Workload | None, str] = {}
    return all(
        revisions.setdefault(pod.workloads[-1] if pod.workloads else None, pod.revision) == pod.revision for pod in pods
    )


def forget_gone(histories: Histories, pods: Sequence[PodFacts]) -> None:
    """Containers that the template has no more. A workload without pods keeps all: it may be scaled up again."""
    living = {container.name for pod in pods for container in pod.containers}
    if living and is_settled(pods):
        for name in histories.keys() - living:
            del histories[name]


def count_kills(
    histories: Histories, pods: Iterable[PodFacts], node_bytes: Callable[[str], int | None], now_s: float
) -> None:
    """`node_bytes`: the memory of a node. A limit above it says nothing of what a container used."""
    kills_of: dict[str, dict[float, int]] = {}
    for pod in pods:
        limits = {container.name: container.limit_bytes or container.memory_bytes for container in pod.containers}
        there = node_bytes(pod.node) if pod.kills else None
        for kill in pod.kills:
            if kill.container in limits:
                limit = limits[kill.container] if there is None else min(limits[kill.container], there)
                # By a node's clock that is ahead: it must not outdo kills that are still to come.
                at_s = min(kill.at_s, now_s)
                by_time = kills_of.setdefault(kill.container, {})
                by_time[at_s] = max(by_time.get(at_s, 0), limit)
    for container, by_time in kills_of.items():
        history = histories.setdefault(container, ContainerHistory.new())
        history.oom_s = min(history.oom_s, now_s)
        for at_s, limit in sorted(by_time.items()):
            history.was_killed(limit, at_s)


def wanted_status(
    target: Target,
    pods: Sequence[PodFacts],
    histories: Histories,
    before: RecommendationStatus,
    now_s: float,
    largest: Amounts | None = None,
) -> RecommendationStatus:
    """`largest`: what the largest node can give to pods."""
    targets = {
        name: recommended for name, history in sorted(histories.items()) if (recommended := history.recommended())
    }
    if largest is not None:
        targets = {name: container_target.at_most(largest) for name, container_target in targets.items()}
    at = from_seconds(now_s)
    by_type = {condition.type: condition for condition in before.conditions}
    conditions = []
    for type_, reason, message in _problems(target, pods, histories, targets):
        old = by_type.get(type_)
        since = old.last_transition_time if old is not None and old.status == "True" else at
        conditions.append(
            Condition(type=type_, status="True", last_transition_time=since, reason=reason, message=message)
        )
    kept = _Kept(VERSION, {name: history.kept() for name, history in sorted(histories.items())}, target.identity)
    return RecommendationStatus(
        pod_status=RecommendedPodStatus(
            tuple(_told(name, container_target) for name, container_target in targets.items())
        )
        if targets
        else None,
        update_time=at,
        conditions=tuple(conditions),
        history=msgspec.json.encode(kept).decode() if histories else "",
    )


def _problems(
    target: Target, pods: Sequence[PodFacts], histories: Histories, targets: Mapping[str, ContainerTarget]
) -> Iterable[tuple[str, str, str]]:
    if target.fault:
        yield "ConfigUnsupported", "InvalidTarget", target.fault
        return
    if not pods:
        yield "NoObjectsMatched", "NoPods", "no running pod belongs to the target; the history is kept"
    short = [history.hours for name, history in histories.items() if name not in targets]
    if pods and (short or not histories):
        hours = min(short, default=0)
        message = f"{hours} of the {LEAST_HOURS} hours with measured usage that a recommendation needs"
        yield "FetchingHistory", "ShortHistory", message
    unsure = min((history.hours for history in targets.values()), default=TRUSTED_HOURS)
    if unsure < TRUSTED_HOURS:
        yield "LowConfidence", "ShortHistory", f"made of {unsure} hours of history; {TRUSTED_HOURS} are enough"


def _told(name: str, container_target: ContainerTarget) -> RecommendedContainerStatus:
    return RecommendedContainerStatus(
        container_name=name,
        resources=_list(container_target.target),
        lower_bound=_list(container_target.lower),
        upper_bound=_list(container_target.upper),
        confidence=container_target.confidence,
        history_hours=container_target.hours,
        judged_hours=container_target.judged_hours,
        under_provisioned_hours=container_target.under_hours,
    )


def _list(amounts_: Amounts) -> ResourceList:
    return {"cpu": render("cpu", amounts_.cpu_milli), "memory": render("memory", amounts_.memory_bytes)}


def is_due(before: RecommendationStatus, wanted: RecommendationStatus, now_s: float, spread: float) -> bool:
    """Whether to write. `spread` from 0 to 1 is the object's own, lest all be written in one minute of an hour."""
    if _problem_types(before) != _problem_types(wanted) or _names(before) != _names(wanted):
        return True
    age_s = now_s - _updated_s(before)
    if age_s < 0:
        # Written by a clock that was ahead.
        return True
    if age_s >= CHANGED_AFTER_S and _has_moved(before, wanted):
        return True
    return before.history != wanted.history and age_s >= WRITE_EVERY_S * (1 + spread / 6)


def _problem_types(status: RecommendationStatus) -> set[str]:
    return {condition.type for condition in status.conditions if condition.status == "True"}


def _containers(status: RecommendationStatus) -> tuple[RecommendedContainerStatus, ...]:
    return status.pod_status.container_statuses if status.pod_status is not None else ()


def _names(status: RecommendationStatus) -> set[str]:
    return {container.container_name for container in _containers(status)}


def _updated_s(status: RecommendationStatus) -> float:
    try:
        return parse_timestamp(status.update_time or "")
    except TimestampError:
        return float("-inf")


def _has_moved(before: RecommendationStatus, wanted: RecommendationStatus) -> bool:
    old = {container.container_name: amounts(container.resources, capped=True) for container in _containers(before)}
    for container in _containers(wanted):
        for resource, amount in amounts(container.resources).items():
            previous = old.get(container.container_name, {}).get(resource, 0)
            if abs(amount - previous) * 100 > max(previous, 1) * CHANGED_PERCENT:
                return True
    return False
