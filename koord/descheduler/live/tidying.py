"""Removes what is over: jobs that ended long ago, and reservations whose job is gone.

A reservation has its job as its owner, so that a cluster's garbage collector would remove it, too; where there is none,
or where it is slow, room must not be held for nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.kinds import POD_MIGRATION_JOBS, RESERVATIONS
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.api.protocol.crd.reservation import Reservation
from koord.descheduler.live.picture import Picture
from koord.descheduler.migration import is_forgotten
from koord.descheduler.replacement import job_of
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.controller import Controller
from koord.kube.errors import ApiError, Conflict, NotFound
from koord.kube.store import Delta

log = logging.getLogger(__name__)

EVERY_S: Final = 60.0


class Tidying:
    def __init__(
        self, client: Client, picture: Picture, args: Callable[[], MigrationControllerArgs], clock: Clock
    ) -> None:
        self._client, self._picture, self._args, self._clock = client, picture, args, clock
        self.controller: Controller[str] = Controller(
            "reservation-leftovers",
            self._look_at,
            resync=(EVERY_S, lambda: [each.metadata.name for each in picture.reservations.list()]),
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
        if delta.new is None and delta.old is not None:
            self.controller.add(delta.old.metadata.uid)

    def _reservation(self, delta: Delta[Reservation]) -> None:
        if delta.old is None:
            self.controller.add(delta.key)

    async def _look_at(self, name: str) -> None:
        """A reservation that was made for a job goes when the job is gone: asked for, since it may only be late."""
        reservation = self._picture.reservations.get(name)
        owner = None if reservation is None else job_of(reservation)
        if reservation is None or owner is None:
            return
        known = self._picture.job(owner.name)
        if known is not None and known.metadata.uid == owner.uid:
            return
        try:
            found = await self._client.get(POD_MIGRATION_JOBS, owner.name)
            if found.metadata.uid == owner.uid:
                return
        except NotFound:
            pass
        try:
            await self._client.delete(RESERVATIONS, name, uid=reservation.metadata.uid)
        except (NotFound, Conflict):
            return
        log.info("removed a reservation whose job is gone", extra={"reservation": name, "job": owner.name})

    async def _forget(self) -> None:
        while True:
            now_s = self._clock.now()
            for job in self._picture.all_jobs():
                if is_forgotten(job, self._args(), now_s):
                    await self._remove(job)
            await self._clock.sleep(EVERY_S)

    async def _remove(self, job: PodMigrationJob) -> None:
        try:
            await self._client.delete(POD_MIGRATION_JOBS, job.metadata.name, uid=job.metadata.uid)
        except (NotFound, Conflict):
            pass
        except ApiError as error:
            log.warning("cannot remove an old job: %s", error, extra={"job": job.metadata.name})
