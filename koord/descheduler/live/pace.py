"""How fast pods may go: the object limiters of workloads and namespaces, and the rate of all evictions of a profile."""

from __future__ import annotations

from typing import Final

from koord.api.configuration.descheduler_args import MigrationControllerArgs, ObjectLimiter
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.annotations.load import JOB_PROFILE
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.api.text.duration import parse_duration
from koord.descheduler.evictable import asks_for_it
from koord.descheduler.limiter import Limit, departure_of, wait_s
from koord.descheduler.workloads import Workload, at_most
from koord.kube.store import Delta
from koord.kube.token_bucket import TokenBucket

MANY: Final = 10_000
KEPT_S: Final = 86_400.0
"""Above this number of workloads, those without a recent move are forgotten."""


class Pace:
    """Recent evictions, also those of earlier processes. A deleted job counts while this process runs."""

    def __init__(self) -> None:
        self._went: dict[tuple[str, str], dict[str, float]] = {}
        "By limiter and object, when pods went, by the uid of the job."
        self._rates: dict[str, TokenBucket] = {}

    def hear(self, delta: Delta[PodMigrationJob]) -> None:
        if delta.new is not None:
            self.written(delta.new)

    def written(self, job: PodMigrationJob) -> None:
        went = departure_of(job)
        if went is None:
            return
        for name, key in (("workload", went.workload), ("namespace", went.namespace)):
            if key:
                # Its first time is when it began to go.
                self._went.setdefault((name, key), {}).setdefault(job.metadata.uid, went.at_s)
        if len(self._went) > MANY:
            since_s = went.at_s - KEPT_S
            self._went = {key: times for key, times in self._went.items() if max(times.values()) > since_s}

    def wait_s(self, pod: Pod, args: MigrationControllerArgs, workload: Workload | None, now_s: float) -> float:
        """How long until the limiters let a pod go."""
        longest_s = 0.0
        for name, key, limit in _limits(pod, args, workload):
            times = self._went.get((name, key))
            if times:
                longest_s = max(longest_s, wait_s(times.values(), limit, now_s))
        return longest_s

    def may_evict(self, job: PodMigrationJob, args: MigrationControllerArgs, now_s: float) -> bool:
        """Whether the rate of evictions lets another go now; then it is taken."""
        profile = JOB_PROFILE.read(job.metadata, "PodMigrationJob")
        rate = self._rates.get(profile)
        if rate is None or (rate.rate_per_s, rate.burst) != (args.evictions_per_s, args.evict_burst):
            rate = self._rates[profile] = TokenBucket(args.evictions_per_s, args.evict_burst)
        return rate.take(now_s)


def _limits(pod: Pod, args: MigrationControllerArgs, workload: Workload | None) -> list[tuple[str, str, Limit]]:
    if asks_for_it(pod):
        return []
    limits = []
    of_workloads = args.object_limiters.get("workload")
    if of_workloads is not None and workload is not None:
        configured = of_workloads.max_migrating
        most = at_most(args.max_migrating_per_workload if configured is None else configured, workload.replicas)
        limits.append(("workload", workload.uid, _limit(of_workloads, most)))
    of_namespaces = args.object_limiters.get("namespace")
    if of_namespaces is not None and isinstance(of_namespaces.max_migrating, int):
        limits.append(("namespace", pod.metadata.namespace, _limit(of_namespaces, of_namespaces.max_migrating)))
    return limits


def _limit(limiter: ObjectLimiter, most: int) -> Limit:
    return Limit(most, parse_duration(limiter.duration), limiter.burst or 1)
