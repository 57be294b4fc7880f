"""Conditions of workloads: a status with a reason, and the time since which it holds.

A condition whose status and reason are unchanged is left alone, so that writing a status again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from koord.api.kubernetes.meta import Condition
from koord.api.kubernetes.workloads import DeploymentCondition
from koord.api.text.timestamp import from_seconds

C = TypeVar("C", Condition, DeploymentCondition)


def find(conditions: Iterable[C], type_: str) -> C | None:
    return next((condition for condition in conditions if condition.type == type_), None)


def without(conditions: Iterable[C], type_: str) -> tuple[C, ...]:
    return tuple(condition for condition in conditions if condition.type != type_)


def with_condition(
    conditions: tuple[Condition, ...], type_: str, status: str, reason: str, message: str, now_s: float
) -> tuple[Condition, ...]:
    """`conditions` with this one set; its transition time moves only if its status does."""
    old = find(conditions, type_)
    if old is not None and old.status == status and old.reason == reason:
        return conditions
    since = old.last_transition_time if old is not None and old.status == status else from_seconds(now_s)
    new = Condition(type_, status, last_transition_time=since, reason=reason, message=message)
    return (*without(conditions, type_), new)


def is_true(conditions: Iterable[Condition], type_: str) -> bool:
    condition = find(conditions, type_)
    return condition is not None and condition.status == "True"
