"""PrioritySort: the pod with the higher priority is tried first, and of equals the one that has waited longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.framework.queueing import Queueing

if TYPE_CHECKING:
    from koord.scheduler.core.entity import Attempt


def order(attempt: Attempt) -> tuple[int, float]:
    """The higher priority first, and of equals the longer wait."""
    return -attempt.entity.priority, attempt.queued_at_s


class PrioritySort(Plugin):
    name = "PrioritySort"
    queueing = Queueing(order=order)
