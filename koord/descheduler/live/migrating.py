"""Moves pods: takes the next step of each PodMigrationJob that was let through, also of jobs that users created.

Before a pod is evicted, the job and its reservation are read again: informers may be late, and an eviction
cannot be undone. A pod starts to leave only if not too many others of its workload are away by then. Where no lease
says that this is the only descheduler, a job that was let through begins only after a look at all others, as the API
server has them: two that rule at once could let too many through.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.kinds import DEPLOYMENTS, POD_MIGRATION_JOBS, PODS, RESERVATIONS, Kind
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.workloads import Deployment
from koord.api.machinery.struct import Struct
from koord.api.protocol.annotations.load import EVICT_TRIGGER, PASSED_ARBITRATION
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.api.protocol.crd.reservation import Reservation
from koord.descheduler.evictable import may_not_leave
from koord.descheduler.held_room import Sibling, reservation_name
from koord.descheduler.job_events import ACTION, events_of
from koord.descheduler.job_request import begins, why_wait_again
from koord.descheduler.job_status import cause_of, gives_up_late, starts_to_leave, ttl_of
from koord.descheduler.live.carrying_out import CarryingOut
from koord.descheduler.live.metrics import DeschedulerMetrics
from koord.descheduler.live.pace import Pace
from koord.descheduler.live.picture import Picture
from koord.descheduler.migration import step
from koord.descheduler.migration_step import Action, EvictPod, MigrationState, Step, refused
from koord.descheduler.parting import Change, Scaling
from koord.descheduler.rules import Rules
from koord.descheduler.workloads import is_rolling_out
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.controller import Controller, Requeue
from koord.kube.errors import ApiError, Conflict, NotFound
from koord.kube.events import EventRecorder, reference
from koord.kube.store import Delta

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Struct)

SOON_S: Final = 0.05
"""After a write that met a newer version."""
AUTOSCALERS: Final = "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers"
LATER_S: Final = 1.0
"""After a refusal."""


class Migrating:
    def __init__(
        self,
        client: Client,
        picture: Picture,
        rules: Callable[[PodMigrationJob], Rules],
        pace: Pace,
        events: EventRecorder,
        metrics: DeschedulerMetrics,
        clock: Clock,
        *,
        claims: bool = True,
        workers: int = 1,
        elected: bool = False,
    ) -> None:
        """`rules`: of the profile that a job belongs to. `elected`: no other descheduler decides at the same time."""
        self._client, self._picture, self._rules, self._pace = client, picture, rules, pace
        self._elected = elected
        self._leaving = asyncio.Lock()
        "Held while a job begins to make its pod go: one after the other, since each counts against the next."
        self._events, self._metrics, self._clock = events, metrics, clock
        self._carrying_out = CarryingOut(client, clock, picture.nodes.list, claims=claims)
        self.controller: Controller[str] = Controller(
            "podmigrationjob",
            self.reconcile,
            workers=workers,
            queue_observer=metrics.metrics.queue("podmigrationjob"),
            observer=metrics.metrics.reconciler("podmigrationjob"),
            monotonic=clock.monotonic,
        )

    async def run(self) -> None:
        picture = self._picture
        ends = [
            picture.jobs.add_handler(lambda delta: self.controller.add(delta.key)),
            picture.jobs.add_handler(self._pace.hear),
            picture.pods.add_handler(self._pod),
            picture.reservations.add_handler(self._reservation),
        ]
        try:
            await self.controller.run()
        finally:
            for end in ends:
                end()

    def _pod(self, delta: Delta[Pod]) -> None:
        self._about(self._picture.jobs.by_index("pods", delta.key))

    def _reservation(self, delta: Delta[Reservation]) -> None:
        self._about(self._picture.jobs.by_index("reservation", delta.key))

    def _about(self, jobs: Iterable[PodMigrationJob]) -> None:
        for job in jobs:
            self.controller.add(job.metadata.name)

    async def reconcile(self, name: str) -> Requeue | None:
        job = self._picture.job(name)
        if job is None:
            return None
        args = self._rules(job).args
        seen = await self._seen(job, args)
        taken = step(job, seen, args, self._clock.now())
        if not self._elected and begins(job, taken.job) and await self._others_came_first(job, seen.pod):
            return None
        if starts_to_leave(job, taken.job):
            async with self._leaving:
                # Another pod of the workload may have started to leave in the meantime.
                seen = dataclasses.replace(seen, must_stay=self._must_stay(job, seen.pod))
                taken = step(job, seen, args, self._clock.now())
                return await self._take(job, taken, seen, args)
        evicts = any(isinstance(action, EvictPod) for action in taken.actions)
        if evicts and not self._pace.may_evict(job, args, self._clock.monotonic()):
            return Requeue(1.0 / args.evictions_per_s)
        if evicts or gives_up_late(job, taken.job):
            try:
                job = await self._client.get(POD_MIGRATION_JOBS, name)
            except NotFound:
                return None
            seen = await self._seen(job, args, anew=True)
            taken = step(job, seen, args, self._clock.now())
        return await self._take(job, taken, seen, args)

    def _must_stay(self, job: PodMigrationJob, pod: Pod | None) -> str:
        if pod is None:
            return ""
        picture = self._picture
        return may_not_leave(pod, self._rules(job), picture.workloads_of([pod]), picture.moves()) or ""

    async def _others_came_first(self, job: PodMigrationJob, pod: Pod | None) -> bool:
        """Whether the limits have no room for it beside those that were let through elsewhere. Then it waits again."""
        jobs = await self._client.list(POD_MIGRATION_JOBS)
        if pod is None:
            return False
        rules, workloads, pods = self._rules(job), self._picture.workloads_of([pod]), self._picture.pods.get
        if why_wait_again(job, pod, jobs, pods, rules, workloads, self._clock.now()) is None:
            return False
        version = job.metadata.resource_version
        back = {"metadata": {"resourceVersion": version, "annotations": {PASSED_ARBITRATION.key: None}}}
        with suppress(NotFound, Conflict):
            self._picture.written(await self._client.patch(POD_MIGRATION_JOBS, job.metadata.name, back))
        return True

    async def _take(
        self, job: PodMigrationJob, taken: Step, seen: MigrationState, args: MigrationControllerArgs
    ) -> Requeue | None:
        ttl = (job.spec.ttl or args.default_job_ttl) if ttl_of(job, args) else "0s"
        for action in taken.actions:
            if _lets_go(action, taken) and seen.pod is not None:
                await self._carrying_out.note(seen.pod, EVICT_TRIGGER.read(job.metadata))
            try:
                await self._carrying_out.act(job, action, ttl)
            except ApiError as error:
                log.warning("a move must wait: %s", error, extra={"job": job.metadata.name})
                if isinstance(action, EvictPod):
                    self._metrics.evicted(action, seen.pod, ok=False)
                told_it = await self._write(job, refused(job, action, str(error), self._clock.now()))
                return Requeue(max(LATER_S, error.retry_after_s or 0.0) if told_it else SOON_S)
            if isinstance(action, EvictPod):
                self._evicted(job, action, seen)
            if isinstance(action, Change) and action.event_text and seen.pod is not None:
                note = f"{action.event_text}. {taken.job.status.message}"
                self._events.record(reference(PODS, seen.pod), "EvictionNotice", note, action=ACTION, type="Warning")
        if not await self._write(job, taken.job):
            return Requeue(SOON_S)
        return None if taken.again_s is None else Requeue(taken.again_s)

    def _evicted(self, job: PodMigrationJob, action: EvictPod, seen: MigrationState) -> None:
        pod = seen.pod
        self._metrics.evicted(action, pod, ok=True)
        if pod is not None:
            note = f'Pod evicted from node "{pod.spec.node_name}" {cause_of(job)}'
            self._events.record(reference(PODS, pod), "Descheduled", note, action=ACTION)

    async def _seen(self, job: PodMigrationJob, args: MigrationControllerArgs, *, anew: bool = False) -> MigrationState:
        """What a job is about. What is not there as far as we have heard may only be late: it is asked for."""
        picture, ref = self._picture, job.spec.pod_ref
        pod = picture.pods.get(f"{ref.namespace}/{ref.name}")
        reservation = picture.reservations.get(reservation_name(job))
        if job.is_over:
            return MigrationState(pod, reservation)
        if (pod is None or anew) and ref.namespace and ref.name:
            pod = await self._ask(PODS, ref.name, ref.namespace)
        if reservation is None or anew:
            reservation = await self._ask(RESERVATIONS, reservation_name(job))
        bound, owner = None, job.status.pod_ref
        if reservation is not None and reservation.status.current_owners:
            owner = reservation.status.current_owners[0]
        if owner is not None:
            bound = picture.pods.get(f"{owner.namespace}/{owner.name}")
            if bound is None or (owner.uid and bound.metadata.uid != owner.uid):
                bound = await self._ask(PODS, owner.name, owner.namespace)
                if bound is not None and owner.uid and bound.metadata.uid != owner.uid:
                    bound = None
        wait_s, workload = 0.0, None
        if pod is not None:
            workload = picture.workload_of(pod)
            wait_s = self._pace.wait_s(pod, args, workload, self._clock.now())
        siblings, whole, scaling = tuple[Sibling, ...](), None, await self._scaling(job, pod)
        if reservation is not None:
            siblings = picture.siblings(job, reservation)
            is_due = pod is None or pod.metadata.uid != ref.uid or scaling is not None
            if is_due and not reservation.status.current_owners:
                whole = picture.whole(reservation)
        uid = "" if workload is None else workload.uid
        return MigrationState(pod, reservation, bound, wait_s, scaling, siblings, uid, whole)

    async def _scaling(self, job: PodMigrationJob, pod: Pod | None) -> Scaling | None:
        """The Deployment of the pod, where that asks for its replacement first, or is scaled for this job already."""
        deployment = self._picture.deployment_of(job, pod)
        if deployment is None:
            return None
        meta = deployment.metadata
        try:
            deployment = await self._client.get(DEPLOYMENTS, meta.name, namespace=meta.namespace)
        except NotFound:
            return None
        if deployment.metadata.uid != meta.uid:
            return None
        return Scaling(deployment, is_rolling_out(deployment), await self._is_autoscaled(deployment))

    async def _is_autoscaled(self, deployment: Deployment) -> bool:
        """Whether an autoscaler sets the replicas; True if that is unknown."""
        namespace, name = deployment.metadata.namespace, deployment.metadata.name
        try:
            _, _, body = await self._client.raw("GET", AUTOSCALERS.format(namespace))
        except NotFound:
            return False
        except ApiError as error:
            log.warning("cannot tell whether %s is scaled by load: %s", deployment.metadata.key, error)
            return True
        autoscalers = json.loads(body).get("items") or ()
        targets = [autoscaler.get("spec", {}).get("scaleTargetRef", {}) for autoscaler in autoscalers]
        return any((target.get("kind"), target.get("name")) == ("Deployment", name) for target in targets)

    async def _ask(self, kind: Kind[T], name: str, namespace: str = "") -> T | None:
        try:
            return await self._client.get(kind, name, namespace=namespace)
        except NotFound:
            return None

    async def _write(self, before: PodMigrationJob, after: PodMigrationJob) -> bool:
        """Write what has changed; False if the job was changed concurrently."""
        if after == before:
            return True
        written, meta = before, after.metadata
        try:
            if after.spec != before.spec or meta.annotations != before.metadata.annotations:
                spec = msgspec.to_builtins(after.spec, str_keys=True)
                head = {"resourceVersion": meta.resource_version, "annotations": dict(meta.annotations)}
                patch: dict[str, Any] = {"metadata": head, "spec": spec}
                written = await self._client.patch(POD_MIGRATION_JOBS, meta.name, patch)
            if after.status != before.status:
                wanted = replace(written, status=after.status)
                written = await self._client.update(POD_MIGRATION_JOBS, wanted, subresource="status")
        except NotFound:
            return True
        except Conflict:
            return False
        self._picture.written(written)
        self._pace.written(written)
        for event in events_of(before, after):
            self._events.record(
                reference(POD_MIGRATION_JOBS, after), event.reason, event.note, action=ACTION, type=event.type
            )
        if after.status.phase != before.status.phase and after.is_over:
            self._metrics.ended(after)
            log.info(
                "a move has ended",
                extra={"job": meta.name, "phase": str(after.status.phase), "reason": after.status.reason},
            )
        return True


def _lets_go(action: Action, taken: Step) -> bool:
    """Whether the pod leaves its node by this: evicted, or marked as the one that its workload gives up."""
    return isinstance(action, EvictPod) or (isinstance(action, Change) and action.of == "Pod" and not taken.job.is_over)
