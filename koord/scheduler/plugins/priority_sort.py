"""PrioritySort: who is tried first: the higher priority, and of equals who has waited longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.scheduler.framework.plugin import Plugin

if TYPE_CHECKING:
    from koord.scheduler.core.entity import Attempt


class PrioritySort(Plugin):
    name = "PrioritySort"

    def order(self, attempt: Attempt) -> tuple[int, float]:
        return -attempt.entity.priority, attempt.queued_at_s
