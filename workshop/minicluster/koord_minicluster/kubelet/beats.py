"""When a node shows again that it lives: its lease often, its whole status now and then, as kubelets do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

STATUS_S: Final = 300.0
LEASE_S: Final = 10.0
SLOWEST_LEASE_S: Final = 20.0
MOST_LEASES_PER_S: Final = 50


@dataclass(frozen=True, slots=True)
class Beats:
    """When a node's lease and its status are due."""

    lease_s: float = 0.0
    status_s: float = 0.0

    @staticmethod
    def after_registration(now_s: float, period_s: float, share: float) -> Beats:
        """`share`, from 0 to 1, spreads nodes over the period, so that no second has more than its share of writes."""
        return Beats(now_s + period_s * share, now_s + STATUS_S * share)

    def renewed(self, now_s: float, period_s: float) -> Beats:
        return replace(self, lease_s=now_s + period_s)

    def reported(self, now_s: float) -> Beats:
        return replace(self, status_s=now_s + STATUS_S)

    def failed(self, now_s: float, period_s: float) -> Beats:
        """A status that could not be written is tried again with the next lease."""
        return replace(self, status_s=now_s + period_s)


def renew_period_s(nodes: int) -> float:
    """Between two renewals of one lease: 10 s as kubelets do, up to 20 s where those would be over 50 a second."""
    return min(SLOWEST_LEASE_S, max(LEASE_S, nodes / MOST_LEASES_PER_S))
