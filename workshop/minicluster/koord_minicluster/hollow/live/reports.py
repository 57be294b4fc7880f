"""Reports usage: the NodeMetric of every live modelled node, spread over the reporting interval. Also protects the
node's services as its NodeSLO configures it, since the measurement shows whether that is needed.

The manager creates the objects, whose spec says how to measure. If it does not within a few seconds, no manager is
running, and the reporter creates them. If the cluster does not have the kind, nothing is reported, and the reporter
checks for the kind again now and then.
"""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from koord.agent.report.node_metric import best_effort_metric
from koord.api.kinds import NODE_METRICS, NODES, PODS
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.words import PodPhase
from koord.api.machinery.shield import Shield
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.report_policy import ReportPolicy, policy_of
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.errors import AlreadyExists, ApiError, NotFound
from koord.kube.informer import Informer
from koord.kube.malformed import FailureTeller
from koord.kube.served import is_served
from koord.kube.store import Delta
from koord_minicluster.hollow.chance import chance
from koord_minicluster.hollow.live.figures import Figures
from koord_minicluster.hollow.live.guard import Guard
from koord_minicluster.hollow.live.machines import FIELD_MANAGER, Machines
from koord_minicluster.hollow.live.pods import NODE_INDEX
from koord_minicluster.hollow.load_model import Asked, Band, Load, NodeShape, PodShape, Usage, shape_of, usage_at
from koord_minicluster.hollow.machine import Machine
from koord_minicluster.hollow.report import History, node_metric_status, sample_of, sample_times
from koord_minicluster.kubelet.live.parallel import for_each
from koord_minicluster.kubelet.termination import started_at

log = logging.getLogger(__name__)

TICK_S: Final = 1.0
AT_ONCE: Final = 4
FIRST_WITHIN_S: Final = 10.0
ABSENT_S: Final = 30.0
RETRY_S: Final = 10.0
MANAGER_WITHIN_S: Final = 3.0


class _NotMade(Exception):
    """The node has no NodeMetric yet; the manager may be about to create it."""


class _Absent(Exception):
    """The cluster does not know NodeMetrics."""


class Reporter:
    def __init__(
        self,
        client: Client,
        pods: Informer[Pod],
        machines: Machines,
        *,
        load: Load,
        policy: ReportPolicy,
        seed: int,
        clock: Clock,
        guard: Guard,
        figures: Figures | None = None,
    ) -> None:
        # A report that fails is soon followed by a fresher one.
        self._client = client.limited(timeout_s=10.0, attempts=1)
        self._pods, self._machines, self._clock = pods, machines, clock
        self._load, self._policy, self._seed, self._guard = load, policy, seed, guard
        self._figures = figures
        self._histories: dict[str, History] = {}
        self._policies: dict[str, ReportPolicy] = {}
        self._due: dict[str, float] = {}
        self._missed: dict[str, float] = {}
        self._shapes: dict[str, tuple[str, PodShape]] = {}
        self._shield = Shield(FailureTeller())
        pods.add_handler(self._hear)

    def _hear(self, delta: Delta[Pod]) -> None:
        if delta.new is None:
            self._shapes.pop(delta.key, None)

    async def run(self) -> None:
        """Reports until cancelled."""
        again_s = TICK_S
        while True:
            now_s = self._clock.now()
            due = self._due_at(now_s)
            try:
                await for_each(due, self._report, at_once=AT_ONCE)
            except* _Absent:
                # Whatever became of each of them: they are due as soon as the kind is there, not an interval later.
                self._due.update((machine.name, now_s) for machine in due)
                # A cluster that is just being made will soon have them.
                log.info("the cluster has no NodeMetrics: usage is not reported", extra={"again_s": again_s})
                await self._clock.sleep(again_s)
                again_s = min(2 * again_s, ABSENT_S)
            await self._clock.sleep(TICK_S)

    def _due_at(self, now_s: float) -> list[Machine]:
        due = []
        for machine in self._machines.alive:
            at_s = self._due.get(machine.name)
            if at_s is None:
                at_s = now_s + FIRST_WITHIN_S * chance(self._seed, "report", machine.name)
                self._due[machine.name] = at_s
            if at_s <= now_s:
                due.append(machine)
        return due

    async def _report(self, machine: Machine) -> None:
        await self._machines.registry.leases_in_time()
        try:
            await self._report_now(machine)
        except _Absent:
            raise
        except Exception as error:  # noqa: BLE001 - the shield tells, and other machines report
            self._shield.failed("report its usage", error, NODES, ObjectMeta(name=machine.name))

    async def _report_now(self, machine: Machine) -> None:
        now_s = self._clock.now()
        policy = self._policies.get(machine.name, self._policy)
        self._due[machine.name] = now_s + policy.report_s
        body = {"status": msgspec.to_builtins(self._status(machine, policy, now_s))}
        await self._guard.evict()
        try:
            written = await self._write(machine, body)
        except _NotMade:
            self._due[machine.name] = now_s + TICK_S
            return
        except ApiError as error:
            log.warning("usage not reported: %s", error, extra={"node": machine.name})
            self._due[machine.name] = now_s + min(policy.report_s, RETRY_S)
            return
        self._guard.follow()
        asked = self._policies[machine.name] = policy_of(written.spec.metric_collect_policy, self._policy)
        self._due[machine.name] = now_s + asked.report_s

    def _status(self, machine: Machine, policy: ReportPolicy, now_s: float) -> object:
        node = NodeShape(machine.name, Usage(machine.cpu_milli, machine.memory_bytes))
        running = [pod for pod in self._pods.by_index(NODE_INDEX, machine.name) if pod.status.phase == PodPhase.RUNNING]
        pods = []
        for pod in running:
            with self._shield.about("report its usage", PODS, pod.metadata):
                pods.append((pod, self._shape(pod, now_s)))
        history = self._histories.setdefault(machine.name, History())
        last_s = history.samples[-1].time_s if history.samples else None
        limit = self._guard.limit(machine)
        asked, usage = Asked(), None
        for time_s in sample_times(last_s, now_s, policy.report_s):
            usage = usage_at(self._load, node, [shape for _, shape in pods], time_s, limit)
            history.add(sample_of(pods, usage, time_s))
            self._guard.look(machine, pods, usage, time_s)
            asked = usage.asked
        best_effort_milli = {
            "used": asked.best_effort_got_milli,
            "request": sum(shape.request.cpu_milli for _, shape in pods if shape.band is Band.BEST_EFFORT),
            "limit": machine.cpu_milli if asked.limit_milli is None else asked.limit_milli,
        }
        if self._figures is not None and usage is not None:
            self._figures.put(machine, [pod for pod, _ in pods], usage, best_effort_milli)
        best_effort = best_effort_metric(*best_effort_milli.values())
        outlook = self._guard.outlook(machine)
        return node_metric_status([pod for pod, _ in pods], history, policy, now_s, outlook, best_effort)

    def _shape(self, pod: Pod, now_s: float) -> PodShape:
        key, version = pod.metadata.key, pod.metadata.resource_version
        shape = self._shapes.get(key)
        if shape is None or shape[0] != version:
            shape = self._shapes[key] = version, shape_of(pod, started_at(pod, now_s))
        return shape[1]

    async def _write(self, machine: Machine, body: object) -> NodeMetric:
        try:
            written = await self._patch(machine, body)
        except NotFound:
            pass
        else:
            self._missed.pop(machine.name, None)
            return written
        now_s = self._clock.now()
        if now_s - self._missed.setdefault(machine.name, now_s) < MANAGER_WITHIN_S:
            if not await is_served(self._client, NODE_METRICS):
                raise _Absent
            raise _NotMade
        try:
            await self._client.create(NODE_METRICS, {"metadata": {"name": machine.name}}, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            pass
        except NotFound as error:
            raise _Absent from error
        return await self._patch(machine, body)

    async def _patch(self, machine: Machine, body: object) -> NodeMetric:
        return await self._client.patch(
            NODE_METRICS, machine.name, body, subresource="status", field_manager=FIELD_MANAGER
        )
