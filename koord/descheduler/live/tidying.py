"""Removes what is over: jobs that ended long ago, and reservations, notices and replicas whose job is gone.

A reservation has its job as its owner, so that a cluster's garbage collector would remove it, too; where there is none,
or where it is slow, unused reservations must not stay.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.kinds import DEPLOYMENTS, POD_MIGRATION_JOBS, PODS, RESERVATIONS
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.workloads import Deployment
from koord.api.protocol.annotations.notice import EVICTION_ASKED_BY, ScaledFirst
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.api.protocol.crd.reservation import Reservation
from koord.api.protocol.eviction_notice import Asker, is_told
from koord.api.protocol.names import CREATED_BY_DESCHEDULER
from koord.descheduler.held_room import is_held_for_nobody, job_of, reservation_name
from koord.descheduler.job_status import is_forgotten
from koord.descheduler.live.picture import Picture
from koord.descheduler.scale_first import record_of, undo, unmark
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.controller import Controller
from koord.kube.errors import ApiError, Conflict, NotFound
from koord.kube.eviction_notice import withdraw
from koord.kube.store import Delta

log = logging.getLogger(__name__)

EVERY_S: Final = 60.0


class Tidying:
    def __init__(
        self, client: Client, picture: Picture, args: Callable[[PodMigrationJob], MigrationControllerArgs], clock: Clock
    ) -> None:
        self._client, self._picture, self._args, self._clock = client, picture, args, clock
        self.controller: Controller[str] = Controller(
            "reservation-leftovers",
            self._look_at,
            resync=(EVERY_S, lambda: [reservation.metadata.name for reservation in picture.reservations.list()]),
            monotonic=clock.monotonic,
        )

    async def run(self) -> None:
        ends = [self._picture.jobs.add_handler(self._job), self._picture.reservations.add_handler(self._reservation)]
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.controller.run(), name="reservation-leftovers")
                tasks.create_task(self._forget(), name="old-jobs")
        finally:
            for end in ends:
                end()

    def _job(self, delta: Delta[PodMigrationJob]) -> None:
        job = delta.old if delta.new is None else delta.new
        if job is not None and (delta.new is None or job.is_over):
            self.controller.add(job.metadata.uid)

    def _reservation(self, delta: Delta[Reservation]) -> None:
        if delta.old is None:
            self.controller.add(delta.key)

    async def _look_at(self, name: str) -> None:
        """A reservation that was made for a job goes when the job is gone: asked for, since it may only be late. It
        also goes when the job is over and no pod uses it."""
        reservation = self._picture.reservations.get(name)
        owner = None if reservation is None else job_of(reservation)
        if reservation is None or owner is None:
            return
        job = self._picture.job(owner.name)
        if job is not None and job.metadata.uid == owner.uid:
            referring = [*self._picture.jobs_with(name), *self._picture.jobs_with(reservation_name(job))]
            if not is_held_for_nobody(reservation, job, referring):
                return
            await self._drop(reservation, "removed a reservation that no pod will use")
            return
        try:
            job = await self._client.get(POD_MIGRATION_JOBS, owner.name)
            if job.metadata.uid == owner.uid:
                return
        except NotFound:
            pass
        await self._drop(reservation, "removed a reservation whose job is gone")

    async def _drop(self, reservation: Reservation, why: str) -> None:
        name = reservation.metadata.name
        try:
            await self._client.delete(RESERVATIONS, name, uid=reservation.metadata.uid)
        except (NotFound, Conflict):
            return
        log.info(why, extra={"reservation": name})

    async def _forget(self) -> None:
        while True:
            now_s = self._clock.now()
            for job in self._picture.all_jobs():
                with self._picture.shield.about("say whether it is old", POD_MIGRATION_JOBS, job.metadata):
                    if is_forgotten(job, self._args(job), now_s):
                        await self._remove(job)
            await self._put_back(now_s)
            await self._clock.sleep(EVERY_S)

    async def _put_back(self, now_s: float) -> None:
        """Notices and replicas of jobs that are gone, or over."""
        jobs, shield = [job for job in self._picture.all_jobs() if not job.is_over], self._picture.shield
        uids, names = {job.metadata.uid for job in jobs}, {job.metadata.name for job in jobs}
        for deployment in self._picture.scaled():
            with shield.about("take back the replica of a job that is gone", DEPLOYMENTS, deployment.metadata):
                await self._scale_back(deployment, uids)
        for pod in self._picture.pods.list():
            if is_told(pod.metadata):
                with shield.about("withdraw the notice of a job that is gone", PODS, pod.metadata):
                    await self._withdraw(pod, names, now_s)

    async def _scale_back(self, deployment: Deployment, jobs: Collection[str]) -> None:
        record, meta = record_of(deployment), deployment.metadata
        patch = None if record is None or record.job in jobs else undo(deployment, record.job)
        if record is None or patch is None:
            return
        try:
            await self._unmark(meta.namespace, record)
            await self._client.patch(DEPLOYMENTS, meta.name, patch, namespace=meta.namespace)
        except (NotFound, Conflict):
            return
        except ApiError as error:
            log.warning("cannot take back a replica yet: %s", error, extra={"deployment": meta.key})
            return
        log.info("took back a replica of a job that is gone", extra={"deployment": meta.key})

    async def _withdraw(self, pod: Pod, jobs: Collection[str], now_s: float) -> None:
        for entry in EVICTION_ASKED_BY.read(pod.metadata):
            if entry.by == CREATED_BY_DESCHEDULER and entry.about not in jobs:
                asker = Asker(entry.by, entry.reason, entry.message, entry.about)
                try:
                    await withdraw(self._client, pod, asker, now_s)
                except NotFound:
                    return
                except ApiError as error:
                    log.warning("cannot withdraw a notice yet: %s", error, extra={"pod": pod.metadata.key})

    async def _unmark(self, namespace: str, record: ScaledFirst) -> None:
        """The pod stays, with the deletion cost that it had before."""
        pod = next((pod for pod in self._picture.pods.list() if pod.metadata.uid == record.pod), None)
        patch = None if pod is None else unmark(pod, record)
        if pod is not None and patch is not None:
            with suppress(NotFound, Conflict):
                await self._client.patch(PODS, pod.metadata.name, patch, namespace=namespace)

    async def _remove(self, job: PodMigrationJob) -> None:
        try:
            await self._client.delete(POD_MIGRATION_JOBS, job.metadata.name, uid=job.metadata.uid)
        except (NotFound, Conflict):
            pass
        except ApiError as error:
            log.warning("cannot remove an old job: %s", error, extra={"job": job.metadata.name})
