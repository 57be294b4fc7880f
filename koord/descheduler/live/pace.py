"""How fast pods may go: the object limiters of workloads and namespaces, and the rate of all evictions together."""

from __future__ import annotations

from koord.api.configuration.descheduler_args import MigrationControllerArgs, ObjectLimiter
from koord.api.kubernetes.pod import Pod
from koord.api.text.duration import parse_duration
from koord.descheduler.evictable import asks_for_it
from koord.descheduler.limiter import Buckets, Limit, taken, wait_s
from koord.descheduler.workloads import Workloads, at_most
from koord.kube.token_bucket import TokenBucket


class Pace:
    """What has gone lately. A new process knows nothing of that, and begins anew."""

    def __init__(self) -> None:
        self._buckets: dict[str, Buckets] = {}
        self._rate: TokenBucket | None = None

    def wait_s(self, pod: Pod, args: MigrationControllerArgs, workloads: Workloads, now_s: float) -> float:
        """How long until the limiters let a pod go."""
        found = 0.0
        for name, key, limit in _limits(pod, args, workloads):
            found = max(found, wait_s(self._buckets.get(name, {}), key, limit, now_s))
        return found

    def taken(self, pod: Pod, args: MigrationControllerArgs, workloads: Workloads, now_s: float) -> None:
        """A pod goes."""
        for name, key, limit in _limits(pod, args, workloads):
            self._buckets[name] = taken(self._buckets.get(name, {}), key, limit, now_s)

    def may_evict(self, args: MigrationControllerArgs, now_s: float) -> bool:
        """Whether the rate of evictions lets another go now; then it is taken."""
        rate = self._rate
        if rate is None or (rate.rate_per_s, rate.burst) != (args.evictions_per_s, args.evict_burst):
            rate = self._rate = TokenBucket(args.evictions_per_s, args.evict_burst)
        return rate.take(now_s)


def _limits(pod: Pod, args: MigrationControllerArgs, workloads: Workloads) -> list[tuple[str, str, Limit]]:
    if asks_for_it(pod):
        return []
    found, workload = [], workloads.of(pod)
    of_workloads = args.object_limiters.get("workload")
    if of_workloads is not None and workload is not None:
        configured = of_workloads.max_migrating
        most = at_most(args.max_migrating_per_workload if configured is None else configured, workload.replicas)
        found.append(("workload", workload.uid, _limit(of_workloads, most)))
    of_namespaces = args.object_limiters.get("namespace")
    if of_namespaces is not None and isinstance(of_namespaces.max_migrating, int):
        found.append(("namespace", pod.metadata.namespace, _limit(of_namespaces, of_namespaces.max_migrating)))
    return found


def _limit(limiter: ObjectLimiter, most: int) -> Limit:
    return Limit(most, parse_duration(limiter.duration), limiter.burst or 1)
