"""Pods that kubelet leaves out of its list although something of theirs runs.

A kubelet that has just started lists nothing, or static pods alone, until it has heard from the API server. Taken for
the truth, that would undo everything that running services depend on. So a pod that was known before stays as long as
something runs in its cgroup and the API server has the pod, or does not answer. An agent that has just started knows no
pods by name: it takes a list that leaves out running pods only after kubelet has had time to learn of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from koord.agent.host.cgroups import Cgroups
from koord.agent.host.layout import pods_in
from koord.agent.pods import AgentPod
from koord.api.kinds import PODS
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.errors import ApiError, NotFound

log = logging.getLogger(__name__)

WAITS_S: Final = 30.0
"""By then a kubelet that reaches the API server lists its pods, and has ended orphaned ones."""
ANSWER_S: Final = 3.0
_MIRROR: Final = "kubernetes.io/config.mirror"
"""On a mirror pod, the uid of the static pod."""


class LeftOutPods:
    def __init__(self, client: Client, cgroups: Cgroups, clock: Clock) -> None:
        self._client = client.limited(timeout_s=ANSWER_S, attempts=1)
        self._cgroups, self._clock = cgroups, clock
        self._since_s: float | None = None
        "Since when an agent that knows no pods has received a list with fewer pods than run."

    async def completed(
        self, listed: Mapping[str, AgentPod], before: Mapping[str, AgentPod] | None, driver: CgroupDriver
    ) -> dict[str, AgentPod] | None:
        """The pods of the node: those that kubelet lists, and those that it will list again. None: not known yet."""
        if before is None:
            return dict(listed) if self._is_settled(listed, driver) else None
        left_out = [pod for uid, pod in before.items() if uid not in listed and _runs(self._cgroups, pod.directory)]
        return {**listed, **{pod.uid: pod for pod in await self._in_api(left_out)}}

    def _is_settled(self, listed: Mapping[str, AgentPod], driver: CgroupDriver) -> bool:
        directories_known = {pod.directory for pod in listed.values()}
        others = [directory for directory, _ in pods_in(self._cgroups, driver) if directory not in directories_known]
        left_out = [directory for directory in others if _runs(self._cgroups, directory)]
        if not left_out:
            return True
        now_s = self._clock.monotonic()
        if self._since_s is None:
            self._since_s = now_s
            log.warning(
                "kubelet does not list all pods that run here; if it still does not in %g s, its list counts: %s",
                WAITS_S,
                ", ".join(sorted(left_out)),
            )
        return now_s - self._since_s >= WAITS_S

    async def _in_api(self, pods: Iterable[AgentPod]) -> list[AgentPod]:
        """Those that the API server has, or may have."""
        alive: list[AgentPod] = []
        is_answering = True
        for pod in pods:
            try:
                if not is_answering or await self._has(pod):
                    alive.append(pod)
            except ApiError as error:
                log.warning("running pods that kubelet left out stay known, the API server does not answer: %s", error)
                is_answering = False
                alive.append(pod)
        return alive

    async def _has(self, pod: AgentPod) -> bool:
        try:
            current = await self._client.get(PODS, pod.meta.name, namespace=pod.meta.namespace)
        except NotFound:
            return False
        return pod.uid in (current.metadata.uid, current.metadata.annotations.get(_MIRROR))


def _runs(cgroups: Cgroups, directory: str) -> bool:
    for group in (directory, *cgroups.below(directory)):
        try:
            if cgroups.processes(group):
                return True
        except FileNotFoundError:
            continue
    return False
