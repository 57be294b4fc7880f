"""The colocationprofile loop: looks every half minute at pods that wait for a node, and gives them what profiles say.

A pod is not written more than once in five minutes for the same profiles, come what may: another who undoes it wins.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import msgspec

from koord.admission.request import Refused
from koord.api.kinds import CLUSTER_COLOCATION_PROFILES, NAMESPACES, PODS
from koord.api.kubernetes.core import Namespace
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import decode
from koord.api.protocol.crd.colocation_profile import ClusterColocationProfile
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.controller import Controller, Requeue
from koord.kube.errors import ApiError, Conflict, NotFound
from koord.kube.informer import Informer
from koord.kube.informers import Informers
from koord.kube.store import Identity
from koord.kube.token_bucket import TokenBucket
from koord.manager.live.metrics import ManagerMetrics
from koord.manager.waiting_pods import WaitingPod, change, managed, waiting_pod
from koord.manager.writes import FIELD_MANAGER

log = logging.getLogger(__name__)

PERIOD_S: Final = 30.0
ONCE_IN_S: Final = 300.0
WRITES_PER_S: Final = 10.0
BURST: Final = 100
WAITING: Final = "spec.nodeName=,status.phase=Pending"
_ALL: Final = "profiles"


def _record(raw: msgspec.Raw) -> WaitingPod:
    return waiting_pod(decode(Pod, memoryview(raw)))


def _identity(pod: WaitingPod) -> Identity:
    return pod.key, pod.uid, pod.version


class WaitingPodsLoop:
    def __init__(
        self, client: Client, informers: Informers, clock: Clock, metrics: ManagerMetrics, *, period_s: float = PERIOD_S
    ) -> None:
        self._client, self._clock, self._period_s = client, clock, period_s
        self._pods: Informer[WaitingPod] = informers.get(PODS, transform=_record, identity=_identity, fields=WAITING)
        self._profiles: Informer[ClusterColocationProfile] = informers.get(CLUSTER_COLOCATION_PROFILES)
        self._namespaces: Informer[Namespace] = informers.get(NAMESPACES)
        self._bucket = TokenBucket(WRITES_PER_S, BURST)
        self._done: dict[tuple[str, str], float] = {}
        self.controller: Controller[str] = Controller(
            "colocationprofile",
            self._reconcile,
            timeout_s=600.0,
            queue_observer=metrics.metrics.queue("colocationprofile"),
            observer=metrics.metrics.reconciler("colocationprofile"),
        )
        self.controller.watch(self._pods, lambda delta: ())
        self.controller.watch(self._namespaces, lambda delta: ())
        self.controller.watch(self._profiles, lambda delta: (_ALL,))

    def stop_listening(self) -> None:
        """Nothing outside of the controller is listened to."""

    async def _reconcile(self, _key: str) -> Requeue | None:
        now = self._clock.monotonic()
        self._done = {key: at for key, at in self._done.items() if now - at < ONCE_IN_S}
        kept = self._profiles.list()
        profiles = managed(kept)
        version = ",".join(sorted(f"{profile.metadata.name}/{profile.metadata.generation}" for profile in kept))
        for pod in self._pods.list() if profiles else ():
            if (pod.uid, version) in self._done:
                continue
            namespace = self._namespaces.get(pod.namespace)
            try:
                patch = change(pod, None if namespace is None else namespace.metadata.labels, profiles)
            except Refused as error:
                log.warning("a pod does not get its profiles: %s", error, extra={"pod": pod.key})
                continue
            if patch is not None:
                self._done[pod.uid, version] = now
                await self._write(pod, patch)
        return Requeue(self._period_s)

    async def _write(self, pod: WaitingPod, patch: object) -> None:
        wait_s = self._bucket.reserve(self._clock.monotonic())
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        try:
            await self._client.patch(PODS, pod.name, patch, namespace=pod.namespace, field_manager=FIELD_MANAGER)
        except (NotFound, Conflict):
            return
        except ApiError as error:
            log.warning("a pod does not get its profiles: %s", error, extra={"pod": pod.key})
