"""How many replicas workloads of other kinds have: the API's scale subresource is asked, for a while at a time.

Kruise's CloneSet is one of those. A kind without that subresource has no number, and its pods stay where they are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from koord.api.kubernetes.meta import OwnerReference
from koord.api.kubernetes.pod import Pod
from koord.descheduler.workloads import KINDS
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.discovery import Resources
from koord.kube.errors import ApiError

log = logging.getLogger(__name__)

KNOWN_FOR_S: Final = 30.0
DISCOVERED_FOR_S: Final = 300.0
AT_ONCE: Final = 8
_OWN: Final = frozenset((kind.group, kind.kind) for kind in KINDS)


@dataclass(frozen=True, slots=True)
class _Answer:
    replicas: int | None
    until_s: float


class Scales:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._answers: dict[str, _Answer] = {}
        self._served: Resources | None = None
        self._served_until_s = 0.0

    async def of(self, pods: Iterable[Pod]) -> dict[str, int]:
        """By uid of the owner, for owners of kinds that koord does not know."""
        wanted: dict[str, tuple[OwnerReference, str]] = {}
        for pod in pods:
            owner = pod.metadata.controller
            if owner is not None and (owner.api_version.rpartition("/")[0], owner.kind) not in _OWN:
                wanted.setdefault(owner.uid, (owner, pod.metadata.namespace))
        now_s = self._clock.monotonic()
        self._answers = {uid: answer for uid, answer in self._answers.items() if answer.until_s > now_s}
        unknown = [asked_owner for uid, asked_owner in wanted.items() if uid not in self._answers]
        for first in range(0, len(unknown), AT_ONCE):
            await asyncio.gather(*(self._ask(*workload) for workload in unknown[first : first + AT_ONCE]))
        replicas_of_uid = {uid: self._answers[uid].replicas for uid in wanted if uid in self._answers}
        return {uid: replicas for uid, replicas in replicas_of_uid.items() if replicas is not None}

    async def _ask(self, owner: OwnerReference, namespace: str) -> None:
        replicas = None
        try:
            group, _, version = owner.api_version.rpartition("/")
            resource = (await self._resources()).find(group, owner.kind, version)
            if resource is not None and "scale" in resource.subresources:
                scale = await self._client.get_scale(resource.as_kind(), owner.name, namespace=namespace)
                replicas = scale.spec.replicas
        except ApiError as error:
            log.warning("cannot tell how many replicas %s %s/%s has: %s", owner.kind, namespace, owner.name, error)
        self._answers[owner.uid] = _Answer(replicas, self._clock.monotonic() + KNOWN_FOR_S)

    async def _resources(self) -> Resources:
        now_s = self._clock.monotonic()
        if self._served is None or now_s >= self._served_until_s:
            self._served = await self._client.resources()
            self._served_until_s = now_s + DISCOVERED_FOR_S
        return self._served
