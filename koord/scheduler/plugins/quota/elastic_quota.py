"""ElasticQuota: teams share a cluster by guarantees, limits and weights.

A pod is placed only where what its quota uses, with the pod, is within the quota's share (`check`). That says nothing
of nodes, so it is asked before any node is looked at. A pod that is refused waits until its quota has more room.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from typing import Final

from koord.api.configuration.features import SchedulerGate
from koord.api.configuration.scheduler_args import ElasticQuotaArgs
from koord.api.kinds import ELASTIC_QUOTAS, PODS
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import amounts
from koord.api.protocol import names
from koord.api.protocol.crd.elastic_quota import ElasticQuota as ElasticQuotaObject
from koord.api.text.duration import parse_duration
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.controller import Controller, Measure
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.plugin import KeyedBy, Plugin, Taking
from koord.scheduler.framework.remedy import Remedy
from koord.scheduler.framework.writes import Evict, Write
from koord.scheduler.plugins.quota.latency import Latencies
from koord.scheduler.plugins.quota.measured import Measured
from koord.scheduler.plugins.quota.preemption import remedy
from koord.scheduler.plugins.quota.quotas import Quotas, Rules
from koord.scheduler.plugins.quota.refusals import QuotaRefusals
from koord.scheduler.plugins.quota.refused_pods import RefusedPods
from koord.scheduler.plugins.quota.revoke import Overuse, is_over
from koord.scheduler.plugins.quota.rooms_of_quota import OnlyReserved, has_rooms, rooms_for
from koord.scheduler.plugins.quota.summary import services_of
from koord.scheduler.plugins.quota.telling import QuotaTelling
from koord.scheduler.plugins.quota.tree import Bounds
from koord.scheduler.state.cluster import Cluster

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
        self._refused = cluster.index(RefusedPods)
        args = self._args
        most = {names.QUOTA_DEFAULT: args.default_quota_group_max, names.QUOTA_SYSTEM: args.system_quota_group_max}
        self._telling = QuotaTelling(self.quotas, args.quota_group_namespace, most, self._measured.changed)
        self.refusals = QuotaRefusals(
            cluster,
            self._latencies,
            says_exceeded=self._says_exceeded,
            protects_default=self._rules.protects_default,
            is_first=self._is_first,
        )
        self.controller = Controller(partial(self._writes, cluster), self._measures, services_of(self.quotas))

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
            if self._refused and (pod.spec.node_name or pod.is_finished):
                self._refused.forget(key)
            self.quotas.put_pod(pod)

    def _remove_pod(self, pod: Pod) -> None:
        with self._latencies.timed("OnPodDelete"):
            if self._refused:
                self._refused.forget(pod.metadata.key)
            self.quotas.remove_pod(pod)

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        """Owners of reserved room may be named."""
        return KeyedBy.POD if has_rooms(cluster) else KeyedBy.LABELS

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        return rooms_for(self.quotas, ask, cluster)

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        reserved = rooms_for(self.quotas, ask, cluster)
        return OnlyReserved(reserved) if reserved else None

    def post_filter(self, ask: Ask, engine: Engine) -> Remedy | None:
        return remedy(self.quotas, ask, engine)

    def _writes(self, cluster: Cluster) -> Iterable[Write]:
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
        for revocation in self._overuse.look(self.quotas, cluster):
            if args.only_report_overuse:
                pods = ", ".join(record.key for record in revocation.pods)
                self.quotas.overuse[revocation.quota] = (
                    f"it uses more than its share; these pods would be evicted: {pods}"
                )
                continue
            for record in revocation.pods:
                namespace, _, name = record.key.partition("/")
                why = f"quota {revocation.quota} has used more than its share for longer than {args.delay_evict_time}"
                yield Evict(
                    namespace,
                    name,
                    record.uid,
                    REVOKED,
                    why,
                    revocation.quota,
                    partial(self._is_over, revocation.quota),
                )
        for name in [name for name in self.quotas.overuse if not self._is_over(name)]:
            del self.quotas.overuse[name]

    def _is_over(self, name: str) -> bool:
        quota = self.quotas.forest.quotas.get(name)
        return quota is not None and is_over(self.quotas, quota)

    def _measures(self) -> Iterable[Measure]:
        yield from self._latencies.measures()
        if self._is_first:
            yield from self._measured.measures(self.quotas)


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
