"""Runs the pods of all modelled nodes: each change or due time of a pod is one `step`, carried out.

One controller for all nodes; its queue is the one timer that pods have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from koord.api.kubernetes.pod import Pod
from koord.kube.clock import Clock
from koord.kube.controller import Controller, Requeue
from koord.kube.informer import Informer
from koord.kube.store import Delta
from koord.minicluster.hollow.machine import Machine
from koord.minicluster.hollow.phases import Pace
from koord.minicluster.hollow.pod_status import Addresses, step
from koord.minicluster.kubelet.live.pod_writes import PodWrites
from koord.minicluster.kubelet.node_status import HOST_IP

WORKERS: Final = 16
NODE_INDEX: Final = "node"
SOONEST_S: Final = 0.05


def by_node(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


class PodRunner:
    """Carries out what becomes of pods on nodes that are alive: those that `runs` has a machine for."""

    def __init__(
        self,
        writes: PodWrites,
        pods: Informer[Pod],
        runs: Callable[[str], Machine | None],
        *,
        pace: Pace,
        clock: Clock,
    ) -> None:
        self._writes, self._pods, self._runs = writes, pods, runs
        self._pace, self._clock = pace, clock
        self._leases = _AddressBook()
        self.controller: Controller[str] = Controller("hollow-pods", self._reconcile, workers=WORKERS)
        pods.add_handler(self._hear)
        self.controller.watch(pods, lambda delta: (delta.key,) if delta.new and delta.new.spec.node_name else ())

    def node_changed(self, node: str) -> None:
        """A node came back: its pods are looked at again."""
        for pod in self._pods.by_index(NODE_INDEX, node):
            self.controller.add(pod.metadata.key)

    def _hear(self, delta: Delta[Pod]) -> None:
        if delta.new is None or delta.new.is_finished:
            gone = delta.new or delta.old
            assert gone is not None
            self._leases.release(gone)

    async def _reconcile(self, key: str) -> Requeue | None:
        pod = self._pods.get(key)
        machine = self._runs(pod.spec.node_name) if pod is not None else None
        if pod is None or machine is None:
            return None
        now_s = self._clock.now()
        decided = step(pod, now_s, self._pace, Addresses(HOST_IP, self._leases.of(pod, machine)))
        if decided.patch is not None:
            await self._writes.status(pod, decided.patch)
        if decided.remove:
            await self._writes.remove(pod)
        if decided.next_s is None:
            return None
        return Requeue(max(SOONEST_S, decided.next_s - now_s))


class _AddressBook:
    """Which pod has which address, node by node."""

    def __init__(self) -> None:
        self._of_pod: dict[str, str] = {}
        self._used: dict[str, set[str]] = {}
        self._last: dict[str, int] = {}

    def of(self, pod: Pod, machine: Machine) -> str:
        """The pod's address: the one that it has, or a new one."""
        if pod.spec.host_network:
            return HOST_IP
        uid = pod.metadata.uid
        known = self._of_pod.get(uid)
        if known is None:
            used = self._used.setdefault(machine.name, set())
            known = pod.status.pod_ip
            if not known:
                known, self._last[machine.name] = machine.free_ip(used, self._last.get(machine.name, 0))
            used.add(known)
            self._of_pod[uid] = known
        return known

    def release(self, pod: Pod) -> None:
        ip = self._of_pod.pop(pod.metadata.uid, None)
        if ip is not None:
            self._used[pod.spec.node_name].discard(ip)
