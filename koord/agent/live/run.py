"""The agent as a daemon on one node, until it is cancelled.

Each second a round; beside it kubelet is asked for its pods, and usage is reported. A round that fails is told and the
next one comes: a kernel file that cannot be read now may be there in a second. Neither does any other failure end it: a
node without an agent keeps the limits of its last second.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from koord.agent.core import Agent, Done
from koord.agent.executor.audit import Audit
from koord.agent.executor.executor import Executor
from koord.agent.executor.write import Write
from koord.agent.host.cgroups import Cgroups
from koord.agent.host.files import Files
from koord.agent.host.layout import driver_of
from koord.agent.host.topology import Topology, topology
from koord.agent.live import kubelet
from koord.agent.live.evicting import Evictor
from koord.agent.live.keeping import AUDIT, read_ledger, write_ledger
from koord.agent.live.pod_watch import PodWatch
from koord.agent.pods import AgentPod, pods_of
from koord.agent.qos.decision import Eviction
from koord.agent.report import node_resource_topology
from koord.agent.report.node_metric import LEAST_REPORT_S, node_metric_status
from koord.agent.state import DEFAULT_GATES, Kubelet, NodeState
from koord.agent.view import driver_in, state_of
from koord.api.configuration.features import AgentGate
from koord.api.kinds import NODE_METRICS, NODE_RESOURCE_TOPOLOGIES, NODE_SLOS, NODES
from koord.api.kubernetes.cgroup import CgroupDriver, qos_dir
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.words import KubeQoS
from koord.api.machinery.faults import BadInput
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.crd.node_resource_topology import NodeResourceTopology
from koord.api.protocol.crd.node_slo import NodeSLO
from koord.api.protocol.report_policy import ReportPolicy, policy_of
from koord.api.text.timestamp import from_seconds as timestamp
from koord.kube.client import Client
from koord.kube.clock import Clock, SystemClock
from koord.kube.errors import ApiError, NotFound
from koord.kube.events import EventRecorder
from koord.kube.informer import Informer
from koord.kube.informers import Informers
from koord.kube.served import until_served

log = logging.getLogger(__name__)

ROUND_S: Final = 1.0
KUBELET_S: Final = 10.0
TOPOLOGY_S: Final = 10.0
DRIVER_WITHIN_S: Final = 60.0
AGAIN_S: Final = 5.0
KINDS: Final = (NODE_SLOS, NODE_METRICS, NODE_RESOURCE_TOPOLOGIES)
MOST_FILES: Final = 65536
FIELD_MANAGER: Final = "koord-agent"


@dataclass(frozen=True, slots=True)
class Options:
    node: str
    host_root: str = "/"
    cgroup_root: str = ""
    state_dir: Path = Path("/var/lib/koord/agent")
    kubelet_address: str = ""
    "Empty: by the node's own word."
    cgroup_driver: str = ""
    gates: Mapping[AgentGate, bool] = field(default_factory=lambda: DEFAULT_GATES)
    round_s: float = ROUND_S
    kubelet_s: float = KUBELET_S


@dataclass(slots=True)
class Sources:
    """What is known of the node right now; a new state is made when one of these changes."""

    node: Informer[Node]
    slo: Informer[NodeSLO]
    metric: Informer[NodeMetric]
    topology: Informer[NodeResourceTopology]
    pods: dict[str, AgentPod] = field(default_factory=dict)
    kubelet: Kubelet = field(default_factory=Kubelet)


class Daemon:
    def __init__(self, client: Client, options: Options, clock: Clock) -> None:
        self._client, self._options, self._clock = client, options, clock
        _allow_many_files()
        self.files = Files(options.host_root)
        self.cgroups = Cgroups.of(self.files, options.cgroup_root)
        self.topology: Topology = topology(self.files)
        self.driver = CgroupDriver.SYSTEMD
        self.audit = Audit(options.state_dir / AUDIT)
        executor = Executor(
            self.cgroups, read_ledger(options.state_dir), lambda text: write_ledger(options.state_dir, text)
        )
        self.agent = Agent(self.cgroups, executor, started_s=clock.monotonic())
        self.counts: dict[str, int] = {}
        "By strategy and what it did."
        self._kubelet_pods = kubelet.Pods()
        self._state: NodeState | None = None
        self._made_of: tuple[object, ...] = ()

    async def run(self, on_ready: Callable[[], None]) -> None:
        own = f"metadata.name={self._options.node}"
        async with AsyncExitStack() as stack:
            events = await stack.enter_async_context(
                EventRecorder(self._client, controller="koord-agent", clock=self._clock)
            )
            await until_served(self._client, KINDS, self._clock)
            informers = await stack.enter_async_context(Informers(self._client, clock=self._clock))
            sources = Sources(
                informers.get(NODES, fields=own),
                informers.get(NODE_SLOS, fields=own),
                informers.get(NODE_METRICS, fields=own),
                informers.get(NODE_RESOURCE_TOPOLOGIES, fields=own),
            )
            await informers.synced(freeze=True)
            evictor = Evictor(
                self._client,
                events,
                self.audit,
                self._clock,
                self.cgroups,
                self._evicted,
                lambda: sources.node.get(self._options.node),
                lambda eviction: self.agent.was_refused(eviction, self._clock.monotonic()),
            )
            on_ready()
            await self._find_driver()
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            tasks.create_task(self._again("kubelet", lambda: self._ask_kubelet(sources)), name="kubelet")
            tasks.create_task(self._again("report", lambda: self._report(sources)), name="report")
            if self._options.gates[AgentGate.NODE_TOPOLOGY_REPORT]:
                tasks.create_task(self._again("topology", lambda: self._report_topology(sources)), name="topology")
            await self._again("rounds", lambda: self._rounds(sources, evictor))

    async def _again(self, part: str, work: Callable[[], Awaitable[None]]) -> None:
        """The supervisor of what the agent does side by side."""
        while True:
            try:
                await work()
            except Exception:
                log.exception("%s of node %s failed, and begin again in %g s", part, self._options.node, AGAIN_S)
            await self._clock.sleep(AGAIN_S)

    async def _find_driver(self) -> None:
        """By kubelet's directories, which may come after the agent; without any for a minute, as most nodes have it."""
        until_s = self._clock.monotonic() + DRIVER_WITHIN_S
        told = self._options.cgroup_driver
        while not told and driver_of(self.cgroups) is None and self._clock.monotonic() < until_s:
            await self._clock.sleep(0.5)
        self.driver = driver_in(self.cgroups, told)
        self.cgroups.look_for_pods_in(qos_dir(KubeQoS.GUARANTEED, self.driver))

    async def _rounds(self, sources: Sources, evictor: Evictor) -> None:
        while True:
            began_s = self._clock.monotonic()
            try:
                state = self._now(sources)
                if state is not None:
                    done = self.agent.round(state, began_s)
                    self._tell(done)
                    for eviction in done.evictions:
                        await evictor.evict(eviction)
            except (OSError, ValueError) as error:
                log.warning("this round is left out: %s", error)
            await self._clock.sleep(max(self._options.round_s - (self._clock.monotonic() - began_s), 0.05))

    def _evicted(self, eviction: Eviction) -> None:
        self._count(eviction.by, "evict")
        self.agent.was_evicted(eviction, self._clock.monotonic())

    def _now(self, sources: Sources) -> NodeState | None:
        node, slo = sources.node.get(self._options.node), sources.slo.get(self._options.node)
        if node is None:
            return None
        made_of = (node, slo, sources.pods, sources.kubelet)
        if self._state is None or any(a is not b for a, b in zip(made_of, self._made_of, strict=True)):
            spec = slo.spec if slo is not None else None
            self._state = state_of(
                self.cgroups,
                self.topology,
                self.driver,
                node,
                spec,
                sources.pods,
                sources.kubelet,
                self._options.gates,
            )
            self._made_of = made_of
        return self._state

    @property
    def state(self) -> NodeState | None:
        return self._state

    def _count(self, by: str, what: str) -> None:
        key = f"{by}/{what}"
        self.counts[key] = self.counts.get(key, 0) + 1

    def _tell(self, done: Done) -> None:
        at = timestamp(self._clock.now())
        for each in done.outcome.done:
            write = each.write
            self._count(write.by, "write")
            self.audit.add(
                at, "write" if write.text is None else "restore", write.by, write.why,
                directory=write.directory, file=self._file(write), old=each.old, value=each.text,
            )  # fmt: skip
        for refusal in done.outcome.refused:
            write = refusal.write
            self.audit.add(
                at,
                "refused",
                write.by,
                f"{write.why}; {refusal.error}",
                directory=write.directory,
                file=self._file(write),
            )
            log.warning("the kernel refuses %s in %s: %s", write.knob.name, write.directory, refusal.error)

    def _file(self, write: Write) -> str:
        return self.cgroups.file(write.knob, write.directory).rpartition("/")[2]

    async def _ask_kubelet(self, sources: Sources) -> None:
        async with AsyncExitStack() as stack:
            watch = stack.enter_context(PodWatch(self.cgroups, self.driver, self._clock))
            address, client = "", None
            while True:
                node = sources.node.get(self._options.node)
                found = self._options.kubelet_address or (kubelet.address_of(node) if node else "")
                if found and found != address:
                    address = found
                    client = await stack.enter_async_context(kubelet.client_of(self._client.config, address))
                if client is not None:
                    await self._kubelet_round(client, sources)
                    watch.follow(pod.directory for pod in sources.pods.values())
                await watch.next_look(self._options.kubelet_s)

    async def _kubelet_round(self, client: Client, sources: Sources) -> None:
        found = await self._kubelet_pods.news(client)
        if found is not None:
            pods = pods_of(found, self.driver)
            if pods != sources.pods:
                for uid in sources.pods.keys() - pods.keys():
                    self.agent.executor.forget(sources.pods[uid].directory)
                sources.pods = pods
        asked = await kubelet.settings(client, sources.kubelet, self.topology)
        new = replace(asked, static_cpus=kubelet.given_cpus(self.files, asked))
        if new != sources.kubelet:
            sources.kubelet = new

    async def _report(self, sources: Sources) -> None:
        while True:
            metric = sources.metric.get(self._options.node)
            policy = policy_of(metric.spec.metric_collect_policy if metric else None, ReportPolicy())
            state = self._state
            # The first report comes as soon as there is something to tell.
            is_told = metric is not None and state is not None and await self._write_report(state, policy)
            await self._clock.sleep(max(policy.report_s, LEAST_REPORT_S) if is_told else 1.0)

    async def _report_topology(self, sources: Sources) -> None:
        while True:
            state = self._state
            known = sources.topology.get(self._options.node)
            try:
                wanted = None if state is None else node_resource_topology.change(state, self.files, known)
            except BadInput as error:
                log.error("the topology stays as it was reported: %s", error)
                wanted = None
            if wanted is not None:
                await self._write_topology(wanted, is_new=known is None)
            await self._clock.sleep(TOPOLOGY_S)

    async def _write_topology(self, wanted: Mapping[str, Any], *, is_new: bool) -> None:
        name, kind = self._options.node, NODE_RESOURCE_TOPOLOGIES
        try:
            if is_new:
                metadata = {"name": name, **wanted["metadata"]}
                await self._client.create(kind, {**wanted, "metadata": metadata}, field_manager=FIELD_MANAGER)
            else:
                await self._client.patch(kind, name, wanted, field_manager=FIELD_MANAGER)
        except ApiError as error:
            log.warning("the topology could not be reported: %s", error)

    async def _write_report(self, state: NodeState, policy: ReportPolicy) -> bool:
        at = timestamp(self._clock.now())
        status = node_metric_status(state, self.agent.samples, policy, self._clock.monotonic(), at)
        if status is None:
            return False
        body = {"status": msgspec.to_builtins(status)}
        try:
            await self._client.patch(
                NODE_METRICS, self._options.node, body, field_manager=FIELD_MANAGER, subresource="status"
            )
        except NotFound:
            log.info("there is no NodeMetric to report to yet")
            return False
        except ApiError as error:
            log.warning("usage could not be reported: %s", error)
        return True


def _allow_many_files() -> None:
    """A service is often given a thousand descriptors, and may have more for the asking."""
    has, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if most == resource.RLIM_INFINITY else min(MOST_FILES, most)
    if has != resource.RLIM_INFINITY and has < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


async def run(
    client: Client,
    options: Options,
    *,
    clock: Clock | None = None,
    on_start: Callable[[Daemon], None] = lambda daemon: None,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """`on_start` gets the daemon, for whoever serves what it knows."""
    daemon = Daemon(client, options, clock or SystemClock())
    on_start(daemon)
    try:
        await daemon.run(on_ready)
    finally:
        daemon.files.close()
