"""Reservations in quotas: what one holds counts in the quota of its template, but for what its owners use of it.

given = min(reserved, what its owners ask for)      counted with the owners already, so not twice
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koord.scheduler.plugins.quota.quotas import Bucket


@dataclass(slots=True)
class Reserved:
    """One reservation, and what its owners ask for."""

    bucket: Bucket | None = None
    "None while it is on no node."
    fixed: bool = False
    full: Mapping[str, int] = field(default_factory=dict)
    users: dict[str, int] = field(default_factory=dict)
    given: Mapping[str, int] = field(default_factory=dict)
    "What is taken off its own count."

    def should_give(self) -> dict[str, int]:
        """What should be taken off."""
        users = self.users
        return {key: least for key, amount in self.full.items() if (least := min(amount, users.get(key, 0)))}
