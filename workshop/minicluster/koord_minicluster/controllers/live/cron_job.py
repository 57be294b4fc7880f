"""The CronJob loop."""

from __future__ import annotations

from collections.abc import Iterable

from koord.api.kinds import CRON_JOBS, JOBS
from koord.api.kubernetes.workloads import Job
from koord.kube.controller import Controller, Requeue
from koord.kube.store import Delta
from koord_minicluster.controllers import cron_job as decisions
from koord_minicluster.controllers.live.carried_out import carried_out
from koord_minicluster.controllers.live.cluster import MANAGER, Cluster, about


class CronJobLoop:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._cron_jobs = cluster.view(CRON_JOBS)
        self._jobs = cluster.view(JOBS)
        self.controller: Controller[str] = Controller("cron-job", self._reconcile, workers=2)
        self.controller.watch(self._cron_jobs, lambda delta: (delta.key,))
        self.controller.watch(self._jobs, _of_job)

    async def _reconcile(self, key: str) -> Requeue | None:
        cron_job = self._cron_jobs.get(key)
        if cron_job is None:
            return None
        jobs = self._jobs.by_index(MANAGER, cron_job.metadata.uid)
        plan = decisions.decide(cron_job, jobs, self._cluster.clock.now())
        # If a Job of that name is there and is ours, the next look counts it; if it is not ours, its name stays taken.
        who = about(CRON_JOBS, cron_job)
        return await carried_out(self._cluster, plan.actions, who, again_in_s=plan.again_in_s)


def _of_job(delta: Delta[Job]) -> Iterable[str]:
    for state in (delta.old, delta.new):
        manager = state.metadata.controller if state is not None else None
        if state is not None and manager is not None and manager.kind == CRON_JOBS.kind:
            yield f"{state.metadata.namespace}/{manager.name}"
