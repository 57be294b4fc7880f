"""Carries out what a step of a move asks for. Each may be done twice, and by another process the second time."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import msgspec

from koord.api.kinds import DEPLOYMENTS, NODES, PODS, RESERVATIONS, Kind
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.annotations.load import SOFT_EVICTION, SoftEviction
from koord.api.protocol.crd.pod_migration_job import DeleteOptions, PodMigrationJob
from koord.api.text.timestamp import from_seconds
from koord.descheduler.cooling import closed_to, note_of_move
from koord.descheduler.migration_step import (
    Action,
    DropReservation,
    EvictPod,
    MakeReservation,
    OrderReservation,
    TakeOverReservation,
)
from koord.descheduler.parting import Change
from koord.descheduler.replacement import ORDER, job_as_owner, reservation_for
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.errors import AlreadyExists, ApiError, Conflict, NotFound

log = logging.getLogger(__name__)

INITIATOR = "koord-descheduler"
NOTE_TRIES = 3


class CarryingOut:
    """`claims`: whether a reservation asks for the pod's volumes, too."""

    def __init__(
        self, client: Client, clock: Clock, nodes: Callable[[], Iterable[Node]], *, claims: bool = True
    ) -> None:
        # A refusal is reported on the job, and retried from there.
        self._client, self._clock, self._claims = client.limited(attempts=1), clock, claims
        self._nodes = nodes

    async def act(self, job: PodMigrationJob, action: Action, ttl: str) -> None:
        """Raises `ApiError` where the API server refuses."""
        match action:
            case MakeReservation():
                await self._make(job, ttl)
            case DropReservation(name):
                with suppress(NotFound):
                    await self._client.delete(RESERVATIONS, name)
            case OrderReservation(name):
                order = {ORDER: str(int(self._clock.now() * 1000))}
                await self._client.patch(RESERVATIONS, name, {"metadata": {"labels": order}})
            case TakeOverReservation(name):
                owner = {"metadata": {"ownerReferences": [job_as_owner(job)]}}
                await self._client.patch(RESERVATIONS, name, owner)
            case EvictPod():
                await self._evict(action)
            case Change():
                await self._change(action)

    async def note(self, pod: Pod, by: str) -> None:
        """Before a pod goes, its node says so: the scheduler sends no replica back for a while. Where that cannot be
        written the pod goes nevertheless."""
        name = pod.spec.node_name
        for _ in range(NOTE_TRIES):
            try:
                node = await self._client.get(NODES, name)
                said = note_of_move(node, pod, by, self._clock.now())
                if said is not None:
                    version = node.metadata.resource_version
                    patch = {"metadata": {"resourceVersion": version, "annotations": said}}
                    await self._client.patch(NODES, name, patch, field_manager=INITIATOR)
            except Conflict:
                continue
            except ApiError as error:
                log.warning("cannot note on a node that a pod leaves it: %s", error, extra={"node": name})
            return

    async def _change(self, action: Change) -> None:
        """A version that is not the newest is a conflict: the job is looked at again."""
        kind: Kind[Any] = DEPLOYMENTS if action.of == "Deployment" else PODS
        with suppress(NotFound):
            await self._client.patch(
                kind,
                action.name,
                action.patch,
                namespace=action.namespace,
                type="strategic" if action.of == "PodStatus" else "merge",
                subresource="status" if action.of == "PodStatus" else "",
                field_manager=INITIATOR,
            )

    async def _make(self, job: PodMigrationJob, ttl: str) -> None:
        ref = job.spec.pod_ref
        try:
            pod = json.loads(await self._client.get_bytes(PODS, ref.name, namespace=ref.namespace))
        except NotFound:
            return
        if pod["metadata"].get("uid") != ref.uid:
            return
        now_s, owners = self._clock.now(), pod["metadata"].get("ownerReferences") or ()
        owner = next((owner["uid"] for owner in owners if owner.get("controller")), "")
        closed = closed_to(self._nodes(), owner, now_s) if owner else ()
        wanted = reservation_for(job, pod, ttl, now_s, claims=self._claims, closed=closed)
        # The name is the job's uid: an existing one was made for this job, by an earlier process.
        with suppress(AlreadyExists):
            await self._client.create(RESERVATIONS, wanted)

    async def _evict(self, action: EvictPod) -> None:
        options = action.delete_options
        try:
            match action.policy:
                case "Delete":
                    await self._client.delete(
                        PODS, action.name, namespace=action.namespace, uid=action.uid, options=options
                    )
                case "SoftEviction":
                    await self._ask_to_go(action)
                case "Eviction":
                    await self._client.evict(action.namespace, action.name, uid=action.uid, options=options)
        except (NotFound, Conflict) as error:
            if isinstance(error, Conflict) and options.get("preconditions"):
                raise
            # It is gone, and there may be another one of its name: that one stays.
            log.info("the pod to evict is gone: %s", error, extra={"pod": f"{action.namespace}/{action.name}"})

    async def _ask_to_go(self, action: EvictPod) -> None:
        wish = SoftEviction(
            from_seconds(self._clock.now()),
            msgspec.convert(dict(action.delete_options), DeleteOptions) if action.delete_options else None,
            INITIATOR,
            action.reason,
        )
        patch: dict[str, Any] = {
            "metadata": {"uid": action.uid, "annotations": {SOFT_EVICTION.key: SOFT_EVICTION.render(wish)}}
        }
        await self._client.patch(PODS, action.name, patch, namespace=action.namespace)
