"""ElasticQuota: teams share a cluster by guarantees, limits and weights.

A pod is placed only where what its quota uses, with the pod, is within the quota's share (`check`). That says nothing
of nodes, so it is asked before any node is looked at. A pod that is refused waits until its quota has more room.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from koord.api.configuration.features import SchedulerGate
from koord.api.configuration.scheduler_args import ElasticQuotaArgs
from koord.api.kinds import ELASTIC_QUOTAS, PODS
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import amounts
from koord.api.kubernetes.words import NotScheduled
from koord.api.protocol import names
from koord.api.protocol.crd.elastic_quota import ElasticQuota as ElasticQuotaObject
from koord.api.text.duration import parse_duration
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Placement
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.plugin import Measure, Plugin, Remedy, Taking
from koord.scheduler.framework.writes import Evict, Write
from koord.scheduler.plugins.quota.check import is_beyond_nodes, is_unbounded, shortage, words
from koord.scheduler.plugins.quota.held import held_for
from koord.scheduler.plugins.quota.latency import Latencies
from koord.scheduler.plugins.quota.measured import Measured
from koord.scheduler.plugins.quota.preemption import remedy
from koord.scheduler.plugins.quota.quotas import Quotas, Rules, is_fixed
from koord.scheduler.plugins.quota.refusals import Refusals
from koord.scheduler.plugins.quota.revoke import Overuse, is_over, pods_of
from koord.scheduler.plugins.quota.rooms_of_quota import OnlyReserved, RoomOnRow, rooms_reserved
from koord.scheduler.plugins.quota.summary import quota_summaries, quota_summary
from koord.scheduler.plugins.quota.telling import QuotaTelling
from koord.scheduler.plugins.quota.tree import Bounds
from koord.scheduler.plugins.reservation.rooms import Rooms
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import PodRecord

_SAYS_EXCEEDED: Final = SchedulerGate.QUOTA_EXCEEDED_REASON
REVOKED: Final = "QuotaOverused"
"""Why a pod is evicted, for programs."""


class ElasticQuota(Plugin):
    name = "ElasticQuota"
    notes = Quotas

    def __init__(self, args: ElasticQuotaArgs | None = None, gates: Mapping[SchedulerGate, bool] | None = None) -> None:
        self._args = (args or ElasticQuotaArgs()).completed()
        self._rules = rules_of(self._args, gates or {})
        self._says_exceeded = (gates or {}).get(_SAYS_EXCEEDED, _SAYS_EXCEEDED.default)
        self._is_first = False
        self._overuse = Overuse(parse_duration(self._args.delay_evict_time))
        self._revoke_again_s = 0.0
        self._measured = Measured()

    def attach(self, cluster: Cluster) -> None:
        self.quotas, self._latencies = cluster.notes(Quotas), Latencies(cluster)
        if self.quotas.rules is None:
            # Quotas are the cluster's: of several profiles, the first one's arguments count.
            self.quotas.follow(self._rules)
            self._is_first = True
        self._refusals = cluster.index(Refusals)
        args = self._args
        most = {names.QUOTA_DEFAULT: args.default_quota_group_max, names.QUOTA_SYSTEM: args.system_quota_group_max}
        self._telling = QuotaTelling(self.quotas, args.quota_group_namespace, most, self._measured.changed)

    def takes(self) -> Iterable[Taking]:
        if not self._is_first:
            return ()
        return (
            Taking(ELASTIC_QUOTAS, self._put_quota, self._remove_quota),
            Taking(PODS, self._put_pod, self._remove_pod),
        )

    def _put_quota(self, quota: ElasticQuotaObject) -> None:
        with self._latencies.timed("UpdateQuota"):
            self.quotas.put_quota(quota)

    def _remove_quota(self, quota: ElasticQuotaObject) -> None:
        with self._latencies.timed("DeleteQuota"):
            self.quotas.remove_quota(quota)

    def _put_pod(self, pod: Pod) -> None:
        key = pod.metadata.key
        with self._latencies.timed("OnPodUpdate" if self.quotas.counts(key) else "OnPodAdd"):
            if self._refusals and (pod.spec.node_name or pod.is_finished):
                self._refusals.forget(key)
            self.quotas.put_pod(pod)

    def _remove_pod(self, pod: Pod) -> None:
        with self._latencies.timed("OnPodDelete"):
            if self._refusals:
                self._refusals.forget(pod.metadata.key)
            self.quotas.remove_pod(pod)

    def refuses(self, ask: Ask, cluster: Cluster) -> str | None:
        quotas = self.quotas
        quota = quotas.quota_of(ask)
        if quota is None or is_unbounded(quota):
            return None
        with self._latencies.timed("RefreshRuntime"):
            quotas.runtime(quota)
        asked = quotas.asked(ask)
        short = shortage(quotas, quota, asked, fixed=is_fixed(ask.pod), held=held_for(quotas, ask))
        if short is None or self._rooms(ask, cluster):
            return None
        return words(quotas, quota, asked, short)

    def held_as(self, ask: Ask, cluster: Cluster) -> str:
        quotas = self.quotas
        quota = quotas.quota_of(ask)
        if quota is None or not self._says_exceeded:
            return ""
        asked, held = quotas.asked(ask), held_for(quotas, ask)
        short = shortage(quotas, quota, asked, fixed=is_fixed(ask.pod), held=held)
        return NotScheduled.QUOTA_EXCEEDED if short is not None and is_beyond_nodes(quotas, asked, short, held) else ""

    def keyed_by_name(self, cluster: Cluster) -> bool:
        """Owners of reserved room may be named."""
        rooms = cluster.noting.get(Rooms.name)
        return isinstance(rooms, Rooms) and bool(rooms.all)

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        return self._rooms(ask, cluster)

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        reserved = self._rooms(ask, cluster)
        return OnlyReserved(reserved) if reserved else None

    def _rooms(self, ask: Ask, cluster: Cluster) -> tuple[RoomOnRow, ...]:
        """Where a pod may go though its quota has no room: its quota holds room for it there."""
        rooms = cluster.noting.get(Rooms.name)
        if not isinstance(rooms, Rooms) or not rooms.all or (quota := self.quotas.quota_of(ask)) is None:
            return ()
        return rooms_reserved(self.quotas, rooms, ask, quota)

    def lets_through(self, asks: Sequence[Ask], cluster: Cluster) -> int:
        quotas, first = self.quotas, asks[0]
        quota, fixed, shape = quotas.quota_of(first), is_fixed(first.pod), first.shape
        for ask in asks:
            if ask.shape is not shape or quotas.quota_of(ask) is not quota or is_fixed(ask.pod) != fixed:
                return 0
        if quota is None or is_unbounded(quota):
            return len(asks)
        asked = quotas.asked(first)
        if cluster.nominations.any:
            return 0

        def is_room_for(number: int) -> bool:
            together = {key: number * amount for key, amount in asked.items()}
            return shortage(quotas, quota, together, fixed=fixed) is None

        if is_room_for(len(asks)):
            return len(asks)
        return bisect_left(range(1, len(asks) + 1), True, key=lambda number: not is_room_for(number))

    def tried(self, asks: Sequence[Ask], placements: Sequence[Placement], cluster: Cluster) -> None:
        refusals = self._refusals
        refused = [ask for ask, each in zip(asks, placements, strict=True) if self.name in each.why_not]
        if refusals:
            refusals.were_tried(ask.key for ask in asks)
        for ask in refused:
            quota = self.quotas.quota_of(ask)
            if quota is None:
                continue
            asked, fixed = self.quotas.asked(ask), is_fixed(ask.pod)
            short = shortage(self.quotas, quota, asked, fixed=fixed, held=held_for(self.quotas, ask))
            refusals.note(ask, quota, asked, quota if short is None else short.quota, fixed=fixed)

    def frees(self, ask: Ask, cluster: Cluster) -> Iterable[PodRecord]:
        """Pods of its own quota. Who must not be preempted never goes: so there is nobody who could make room for more
        of those."""
        quotas, quota = self.quotas, self.quotas.quota_of(ask)
        if quota is None or not quotas.forest.is_usable(quota.name):
            return []
        if quota.name == names.QUOTA_DEFAULT and self._rules.protects_default:
            return []
        return [record for record in pods_of(quotas, quota, cluster) if not record.terminating]

    def eases(self, cluster: Cluster, idle: bool) -> Sequence[str]:
        if not self._is_first or not self._refusals:
            return ()
        self._refusals.look_at_promises()
        return self._refusals.eased(idle=idle, has_room=lambda ask: bool(self._rooms(ask, cluster)))

    def post_filter(self, ask: Ask, engine: Engine) -> Remedy | None:
        return remedy(self.quotas, ask, engine)

    def writes(self, cluster: Cluster) -> Iterable[Write]:
        if self._is_first:
            self.quotas.look_at_leaving()
            yield from self._revocations(cluster)
            yield from self._telling.writes(cluster.now_s)

    def _revocations(self, cluster: Cluster) -> Iterable[Write]:
        """Pods that have to go because their quotas use more than their shares."""
        args = self._args
        if not (args.monitor_all_quotas and args.enable_runtime_quota) or cluster.now_s < self._revoke_again_s:
            return
        self._revoke_again_s = cluster.now_s + parse_duration(args.revoke_pod_interval)
        for found in self._overuse.look(self.quotas, cluster):
            if args.only_report_overuse:
                pods = ", ".join(record.key for record in found.pods)
                self.quotas.overuse[found.quota] = f"it uses more than its share; these pods would be evicted: {pods}"
                continue
            for record in found.pods:
                namespace, _, name = record.key.partition("/")
                why = f"quota {found.quota} has used more than its share for longer than {args.delay_evict_time}"
                yield Evict(namespace, name, record.uid, REVOKED, why, found.quota, partial(self._is_over, found.quota))
        for name in [each for each in self.quotas.overuse if not self._is_over(each)]:
            del self.quotas.overuse[name]

    def _is_over(self, name: str) -> bool:
        quota = self.quotas.forest.quotas.get(name)
        return quota is not None and is_over(self.quotas, quota)

    def measures(self) -> Iterable[Measure]:
        yield from self._latencies.measures()
        if self._is_first:
            yield from self._measured.measures(self.quotas)

    def services(self) -> Mapping[str, Callable[[str], object]]:
        quotas = self.quotas
        return {
            "quota/:name?includePods=true": lambda name: quota_summary(quotas, name, pods=True),
            "quotas/:name?includePods=true": lambda name: quota_summary(quotas, name, pods=True),
            "quotas?includePods=true": lambda _: quota_summaries(quotas, pods=True),
            "quota/:name": lambda name: quota_summary(quotas, name),
            "quotas/:name": lambda name: quota_summary(quotas, name),
            "quotas": lambda _: quota_summaries(quotas),
        }


def rules_of(args: ElasticQuotaArgs, gates: Mapping[SchedulerGate, bool]) -> Rules:
    """How quotas are counted, by a configuration."""

    def is_on(gate: SchedulerGate) -> bool:
        return gates.get(gate, gate.default)

    return Rules(
        by_runtime=args.enable_runtime_quota,
        scales=args.enable_min_quota_scale,
        checks_parents=args.enable_check_parent_quota,
        protects_default=args.disable_default_quota_preemption,
        outside={
            names.QUOTA_DEFAULT: Bounds(max=amounts(args.default_quota_group_max, capped=True)),
            names.QUOTA_SYSTEM: Bounds(max=amounts(args.system_quota_group_max, capped=True)),
        },
        several_trees=is_on(SchedulerGate.MULTI_QUOTA_TREE),
        keeps=is_on(SchedulerGate.ELASTIC_QUOTA_GUARANTEE_USAGE),
        has_default=not is_on(SchedulerGate.DISABLE_DEFAULT_QUOTA),
        ignores_overhead=is_on(SchedulerGate.ELASTIC_QUOTA_IGNORE_POD_OVERHEAD),
        ignores_terminating=is_on(SchedulerGate.ELASTIC_QUOTA_IMMEDIATE_IGNORE_TERMINATING_POD),
        ignores_overdue=is_on(SchedulerGate.ELASTIC_QUOTA_IGNORE_TERMINATING_POD),
    )
