"""Periodic arbitration: of the waiting jobs, some are admitted, some refused, and the others get the reason why they
wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from koord.api.kinds import POD_MIGRATION_JOBS
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.annotations.load import PASSED_ARBITRATION
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.descheduler.arbitration import Ruling, arbitrate
from koord.descheduler.job_events import ACTION
from koord.descheduler.job_request import forbidden, held_back, sorted_out
from koord.descheduler.live.metrics import DeschedulerMetrics
from koord.descheduler.live.picture import Picture
from koord.descheduler.live.scales import Scales
from koord.descheduler.rules import Rules
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.errors import ApiError, NotFound, Unavailable
from koord.kube.events import EventRecorder, reference

log = logging.getLogger(__name__)

TELL_AGAIN_S: Final = 10.0
"""Why a job waits may change all the time: it is written this often at most."""
SHORTEST_S: Final = 0.05


class Arbitrating:
    def __init__(
        self,
        client: Client,
        picture: Picture,
        rules: Callable[[PodMigrationJob], Rules],
        interval_s: Callable[[], float],
        scales: Scales,
        events: EventRecorder,
        metrics: DeschedulerMetrics,
        clock: Clock,
    ) -> None:
        """`rules`: of the profile that a job belongs to."""
        self._client, self._picture, self._rules = client.limited(attempts=1), picture, rules
        self._interval_s = interval_s
        self._scales, self._events, self._metrics, self._clock = scales, events, metrics, clock
        self._unsure: set[str] = set()
        "Jobs that may have been let through: the answer was lost."
        self._told_s: dict[str, float] = {}
        "When the reason to wait was last written on a job, by its uid."

    async def run(self) -> None:
        while True:
            with self._picture.shield.about("rule on moves"):
                await self.rule()
            await self._clock.sleep(max(SHORTEST_S, self._interval_s()))

    async def rule(self) -> None:
        try:
            await self._make_sure()
        except ApiError as error:
            log.warning("cannot rule on moves yet: %s", error)
            return
        picture, now_s = self._picture, self._clock.now()
        jobs = {job.metadata.name: job for job in picture.all_jobs()}
        priorities = picture.priorities()
        asked, moves = sorted_out(
            jobs.values(),
            picture.pods.get,
            now_s,
            lambda job: self._rules(job).with_priorities(priorities),
            picture.shield,
        )
        if not asked:
            self._told_s.clear()
            return
        pods = [request.pod for request in asked if request.pod is not None]
        picture.scales |= await self._scales.of(pods)
        workloads = picture.workloads_of(pods)
        rulings = arbitrate(asked, workloads, moves, picture.shield)
        async with asyncio.TaskGroup() as tasks:
            for ruling in rulings:
                tasks.create_task(self._carry_out(jobs[ruling.request.name], ruling))

    async def _carry_out(self, job: PodMigrationJob, ruling: Ruling) -> None:
        with self._picture.shield.about("carry out the ruling on it", POD_MIGRATION_JOBS, job.metadata):
            try:
                match ruling.outcome:
                    case "passes":
                        await self._let_through(job, ruling.request.pod)
                    case "forbidden":
                        await self._refuse(job, ruling.why)
                    case "waits":
                        await self._tell(job, ruling.why)
            except ApiError as error:
                log.warning("cannot rule on a move yet: %s", error, extra={"job": job.metadata.name})
                if isinstance(error, Unavailable) and error.maybe_done and ruling.outcome == "passes":
                    self._unsure.add(job.metadata.name)

    async def _make_sure(self) -> None:
        """Jobs that may have been let through count: they are read again before others are let through."""
        for name in tuple(self._unsure):
            with suppress(NotFound):
                self._picture.written(await self._client.get(POD_MIGRATION_JOBS, name))
            self._unsure.discard(name)

    async def _let_through(self, job: PodMigrationJob, pod: Pod | None) -> None:
        """It was ruled on for this pod, and not for another that gets the same name."""
        passed: dict[str, Any] = {
            "metadata": {"uid": job.metadata.uid, "annotations": {PASSED_ARBITRATION.key: "true"}}
        }
        if pod is not None:
            passed["spec"] = {"podRef": {"uid": pod.metadata.uid}}
        self._picture.written(await self._client.patch(POD_MIGRATION_JOBS, job.metadata.name, passed))

    async def _refuse(self, job: PodMigrationJob, why: str) -> None:
        ended = await self._client.update(POD_MIGRATION_JOBS, forbidden(job, why), subresource="status")
        self._picture.written(ended)
        self._metrics.ended(ended)
        self._events.record(reference(POD_MIGRATION_JOBS, job), ended.status.reason, why, action=ACTION, type="Warning")

    async def _tell(self, job: PodMigrationJob, why: str) -> None:
        now_s, uid = self._clock.monotonic(), job.metadata.uid
        if job.status.message == why or now_s - self._told_s.get(uid, -TELL_AGAIN_S) < TELL_AGAIN_S:
            return
        self._told_s[uid] = now_s
        written = await self._client.update(POD_MIGRATION_JOBS, held_back(job, why), subresource="status")
        self._picture.written(written)
