"""The Job loop, and a second loop that removes the finalizer of pods whose Job is gone, since no Job counts them."""

from __future__ import annotations

from collections.abc import Iterable

from koord.api.kinds import JOBS, PODS
from koord.api.kubernetes.core import Pod
from koord.api.kubernetes.workloads import Job
from koord.api.text.selector import NOTHING, LabelMatcher, compile_labels
from koord.api.workloads.job_pods import TRACKING
from koord.kube.controller import Controller, Requeue
from koord.kube.errors import NotFound
from koord.kube.store import Delta
from koord_minicluster.controllers import job as decisions
from koord_minicluster.controllers.actions import sooner
from koord_minicluster.controllers.job_pods import is_tracked
from koord_minicluster.controllers.live.carried_out import carried_out
from koord_minicluster.controllers.live.cluster import MANAGER, Cluster, about, soon


def selector_of(job: Job) -> LabelMatcher:
    return compile_labels(job.spec.selector, absent=NOTHING)


class JobLoop:
    def __init__(self, cluster: Cluster, *, workers: int = 4) -> None:
        self._cluster = cluster
        self._jobs = cluster.view(JOBS)
        self.controller: Controller[str] = Controller("job", self._reconcile, workers=workers)
        self.controller.watch(self._jobs, lambda delta: (delta.key,))
        self.controller.watch(
            cluster.view(PODS), lambda delta: soon(self.controller, cluster.managers(JOBS, delta, selector_of))
        )

    async def _reconcile(self, key: str) -> Requeue | None:
        job = self._jobs.get(key)
        if job is None:
            return None
        now_s = self._cluster.clock.now()
        if decisions.is_finished(job):
            pods = self._cluster.view(PODS).by_index(MANAGER, job.metadata.uid)
        else:
            pods = await self._cluster.claim(JOBS, job, selector_of(job), PODS, (TRACKING,))
        plan = decisions.decide(job, pods, now_s)
        expiry = decisions.expiry(job, now_s)
        return await carried_out(
            self._cluster,
            (*plan.actions, *expiry.actions),
            about(JOBS, job),
            again_in_s=sooner(plan.again_in_s, expiry.again_in_s),
        )


class JobOrphanLoop:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._jobs = cluster.view(JOBS)
        self._pods = cluster.view(PODS)
        self.controller: Controller[str] = Controller("job-orphans", self._reconcile, workers=4)
        self.controller.watch(self._pods, lambda delta: (delta.key,) if self._is_orphan(delta.new) else ())
        self.controller.watch(self._jobs, self._of_deleted)

    def _of_deleted(self, delta: Delta[Job]) -> Iterable[str]:
        if delta.new is None and delta.old is not None:
            for pod in self._pods.by_index(MANAGER, delta.old.metadata.uid):
                yield pod.metadata.key

    def _is_orphan(self, pod: Pod | None) -> bool:
        if pod is None or not is_tracked(pod):
            return False
        manager = pod.metadata.controller
        if manager is None or manager.kind != "Job":
            return True
        job = self._jobs.get(f"{pod.metadata.namespace}/{manager.name}")
        return job is None or job.metadata.uid != manager.uid

    async def _reconcile(self, key: str) -> Requeue | None:
        pod = self._pods.get(key)
        if pod is None or not self._is_orphan(pod):
            return None
        manager = pod.metadata.controller
        if manager is not None and manager.kind == "Job":
            # The picture of Jobs may be behind that of pods: ask before a pod goes uncounted.
            try:
                job = await self._cluster.client.get(JOBS, manager.name, namespace=pod.metadata.namespace)
            except NotFound:
                pass
            else:
                if job.metadata.uid == manager.uid:
                    return Requeue()
        await self._cluster.writer.patch(decisions.untrack(pod))
        return None
