"""Pods that a quota refuses: what their quota uses, with the pod, is beyond its share (`check`).

A refused pod waits until its quota has more room (`refused_pods`), or holds room for it by a reservation.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from koord.api.kubernetes.words import NotScheduled
from koord.api.protocol import names
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.placement import Placement
from koord.scheduler.framework.refusals import Refusals
from koord.scheduler.plugins.quota.check import is_beyond_nodes, is_unbounded, shortage, words
from koord.scheduler.plugins.quota.latency import Latencies
from koord.scheduler.plugins.quota.promised_amounts import held_for
from koord.scheduler.plugins.quota.quotas import Quotas, is_fixed
from koord.scheduler.plugins.quota.refused_pods import RefusedPods
from koord.scheduler.plugins.quota.revoke import pods_of
from koord.scheduler.plugins.quota.rooms_of_quota import newly_open, rooms_for
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import PodRecord


class QuotaRefusals(Refusals):
    """`says_exceeded`: pods that more nodes cannot help get a condition reason of their own. `protects_default`: pods
    of the default quota are never preempted. `is_first`: of several profiles, this one names pods that may go."""

    def __init__(
        self, cluster: Cluster, latencies: Latencies, *, says_exceeded: bool, protects_default: bool, is_first: bool
    ) -> None:
        self._cluster, self._quotas = cluster, cluster.notes(Quotas)
        self._refused, self._latencies = cluster.index(RefusedPods), latencies
        self._says_exceeded, self._protects_default, self._is_first = says_exceeded, protects_default, is_first

    def refuses(self, ask: Ask) -> str | None:
        quotas = self._quotas
        quota = quotas.quota_of(ask)
        if quota is None or is_unbounded(quota):
            return None
        with self._latencies.timed("RefreshRuntime"):
            quotas.runtime(quota)
        asked = quotas.asked(ask)
        short = shortage(quotas, quota, asked, fixed=is_fixed(ask.pod), held=held_for(quotas, ask))
        if short is None or rooms_for(quotas, ask, self._cluster):
            return None
        return words(quotas, quota, asked, short)

    def condition(self, ask: Ask) -> str:
        quotas = self._quotas
        quota = quotas.quota_of(ask)
        if quota is None or not self._says_exceeded:
            return ""
        asked, held = quotas.asked(ask), held_for(quotas, ask)
        short = shortage(quotas, quota, asked, fixed=is_fixed(ask.pod), held=held)
        return NotScheduled.QUOTA_EXCEEDED if short is not None and is_beyond_nodes(quotas, asked, short, held) else ""

    def lets_through(self, asks: Sequence[Ask]) -> int:
        quotas, first = self._quotas, asks[0]
        quota, fixed, shape = quotas.quota_of(first), is_fixed(first.pod), first.shape
        for ask in asks:
            if ask.shape is not shape or quotas.quota_of(ask) is not quota or is_fixed(ask.pod) != fixed:
                return 0
        if quota is None or is_unbounded(quota):
            return len(asks)
        asked = quotas.asked(first)
        if self._cluster.nominations.any:
            return 0

        def is_room_for(number: int) -> bool:
            together = {key: number * amount for key, amount in asked.items()}
            return shortage(quotas, quota, together, fixed=fixed) is None

        if is_room_for(len(asks)):
            return len(asks)
        return bisect_left(range(1, len(asks) + 1), True, key=lambda number: not is_room_for(number))

    def victims(self, ask: Ask) -> Iterable[PodRecord]:
        """Pods of its own quota. Non-preemptible pods never go: so no pod could make room for more of those."""
        quotas, quota = self._quotas, self._quotas.quota_of(ask)
        if quota is None or not quotas.forest.is_usable(quota.name):
            return []
        if quota.name == names.QUOTA_DEFAULT and self._protects_default:
            return []
        return [record for record in pods_of(quotas, quota, self._cluster) if not record.terminating]

    def tried(self, asks: Sequence[Ask], placements: Sequence[Placement]) -> None:
        quotas, refused_pods = self._quotas, self._refused
        refused = [ask for ask, placement in zip(asks, placements, strict=True) if quotas.name in placement.why_not]
        if refused_pods:
            refused_pods.were_tried(ask.key for ask in asks)
        for ask in refused:
            quota = quotas.quota_of(ask)
            if quota is None:
                continue
            asked, fixed = quotas.asked(ask), is_fixed(ask.pod)
            short = shortage(quotas, quota, asked, fixed=fixed, held=held_for(quotas, ask))
            refused_pods.note(ask, quota, asked, quota if short is None else short.quota, fixed=fixed)

    def eased(self, *, idle: bool) -> Sequence[str]:
        if not self._is_first or not self._refused:
            return ()
        self._refused.look_at_promises()
        opened = newly_open(self._quotas, self._cluster)
        return self._refused.eased(
            opened, idle=idle, has_room=lambda ask: bool(rooms_for(self._quotas, ask, self._cluster))
        )
