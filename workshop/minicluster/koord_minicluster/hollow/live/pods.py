"""Runs the pods of all modelled nodes: each change or due time of a pod is one `step`, carried out.

One controller for all nodes; its queue is the one timer that pods have.
"""

from __future__ import annotations

from typing import Final

from koord.api.kinds import PODS
from koord.api.kubernetes.pod import Pod
from koord.kube.clock import Clock
from koord.kube.controller import Controller, Requeue
from koord.kube.events import EventRecorder, reference
from koord.kube.informer import Informer
from koord.kube.store import Delta
from koord_minicluster.hollow.live.machines import Machines
from koord_minicluster.hollow.machine import Machine
from koord_minicluster.hollow.phases import Pace
from koord_minicluster.hollow.pod_status import Addresses, step
from koord_minicluster.kubelet.admission import Admission, rejected
from koord_minicluster.kubelet.live.pod_writes import PodWrites
from koord_minicluster.kubelet.node_status import HOST_IP

WORKERS: Final = 16
NODE_INDEX: Final = "node"
SOONEST_S: Final = 0.05


def by_node(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


class PodRunner:
    """Carries out what becomes of pods on nodes that are alive. A pod that does not fit on its node is rejected."""

    def __init__(
        self,
        writes: PodWrites,
        pods: Informer[Pod],
        machines: Machines,
        events: EventRecorder,
        *,
        pace: Pace,
        clock: Clock,
    ) -> None:
        self._writes, self._pods, self._machines = writes, pods, machines
        self._events, self._pace, self._clock = events, pace, clock
        self._admission = Admission()
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
            self._admission.forget(gone)

    async def _reconcile(self, key: str) -> Requeue | None:
        await self._machines.registry.leases_in_time()
        pod = self._pods.get(key)
        machine = self._machines.runs(pod.spec.node_name) if pod is not None else None
        if pod is None or machine is None:
            return None
        if await self._reject(pod):
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

    async def _reject(self, pod: Pod) -> bool:
        """Whether the node does not take the pod: then it fails."""
        if pod.is_finished or pod.metadata.deletion_timestamp is not None:
            return False
        node = pod.spec.node_name
        allocatable = self._machines.registry.allocatable(node)
        why = self._admission.rejection(pod, self._pods.by_index(NODE_INDEX, node), allocatable)
        if why is None:
            return False
        self._events.record(reference(PODS, pod), why.reason, why.message, type="Warning")
        await self._writes.status(pod, rejected(pod, why))
        return True


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
        address = self._of_pod.get(uid)
        if address is None:
            used = self._used.setdefault(machine.name, set())
            address = pod.status.pod_ip
            if not address:
                address, self._last[machine.name] = machine.free_ip(used, self._last.get(machine.name, 0))
            used.add(address)
            self._of_pod[uid] = address
        return address

    def release(self, pod: Pod) -> None:
        ip = self._of_pod.pop(pod.metadata.uid, None)
        if ip is not None:
            self._used[pod.spec.node_name].discard(ip)
