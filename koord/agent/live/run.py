"""The agent as a daemon on one node, until it is cancelled.

Each second a round; beside it kubelet is asked for its pods, and usage is reported. A round that fails is told and the
next one comes: a kernel file that cannot be read now may be there in a second. Neither does any other failure end it: a
node without an agent keeps the limits of its last second.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from koord.agent.adjustment import Adjustment
from koord.agent.annotations import READ
from koord.agent.announced import Asking, announced, answer, is_resized
from koord.agent.collect.round import EXPIRES_S
from koord.agent.core import Agent
from koord.agent.executor.audit import Audit
from koord.agent.executor.executor import Executor, ExecutorOutcome
from koord.agent.executor.write import Spot, Write
from koord.agent.host.cgroups import Cgroups
from koord.agent.host.files import Files
from koord.agent.host.layout import driver_of
from koord.agent.host.topology import Topology, topology
from koord.agent.live import asked, kubelet
from koord.agent.live.copilot import CopilotClient
from koord.agent.live.devices import DeviceLook, DeviceWatch
from koord.agent.live.evicting import Evictor
from koord.agent.live.interfering import Interfering
from koord.agent.live.keeping import AUDIT, read_ledger, write_ledger
from koord.agent.live.pod_resources import PodResources
from koord.agent.live.pod_watch import PodWatch
from koord.agent.live.predicting import predicting
from koord.agent.live.probing import Prober
from koord.agent.live.reporting import Reporter
from koord.agent.live.usual_hours import UsualHours
from koord.agent.pods import AgentPod, pods_of
from koord.agent.predict.forecast import Predictor
from koord.agent.predict.model import PredictionSettings
from koord.agent.qos import interference, resctrl
from koord.agent.qos.decision import Eviction, Problem
from koord.agent.report import device
from koord.agent.report.registry import REPORTS
from koord.agent.report.report import Facts, Report
from koord.agent.series import names
from koord.agent.series.samples import SLOW_RING
from koord.agent.state import DEFAULT_GATES, Kubelet, NodeState
from koord.agent.view import driver_in, state_of
from koord.api.configuration.features import AgentGate
from koord.api.kinds import NODE_SLOS, NODES, PODS
from koord.api.kubernetes.cgroup import CgroupDriver, qos_dir
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.words import KubeQoS
from koord.api.machinery.faults import BadInput
from koord.api.machinery.shield import Shield
from koord.api.protocol.charged import Charged, charged_to
from koord.api.protocol.copilot import SOCKET
from koord.api.protocol.crd.node_slo import NodeSLO
from koord.api.protocol.pod_resources import DIRECTORY, KUBELET_DIRECTORY
from koord.api.protocol.pod_resources import SOCKET as POD_RESOURCES_SOCKET
from koord.api.protocol.slowed_by import Blame
from koord.api.text.timestamp import from_seconds as timestamp
from koord.kube.client import Client
from koord.kube.clock import Clock, SystemClock
from koord.kube.events import EventRecorder
from koord.kube.informer import Informer
from koord.kube.informers import Informers
from koord.kube.malformed import FailureTeller, MalformedTeller
from koord.kube.served import until_served

log = logging.getLogger(__name__)

ROUND_S: Final = 1.0
KUBELET_S: Final = 10.0
DRIVER_WITHIN_S: Final = 60.0
AGAIN_S: Final = 5.0
ANNOUNCED_S: Final = 300.0
"""For how long a pod that a runtime has told of may be unknown to kubelet: one that never came about is forgotten."""
RESIZED_S: Final = 5.0
"""For so long a runtime's word that kubelet resizes a pod counts; kubelet tells it by then."""
MOST_FILES: Final = 65536
MOST_PROBLEMS: Final = 10_000
"""So many are remembered as told; after that, all are told again."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
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
    pod_resources_dir: str = DIRECTORY
    "Where kubelet's pod resources are served with what the scheduler gave."
    copilot_socket: str = SOCKET
    "Of YARN's copilot."
    sample_expires_s: float = EXPIRES_S
    "Samples older than this do not count in what the system uses."
    hooks_socket: Path | None = None
    "Where container runtimes ask what a container is to be made with; None: nowhere."
    prediction: PredictionSettings = field(default_factory=PredictionSettings)
    prediction_dir: Path | None = None
    "Keeps what peaks are predicted by, in a folder of its own; None: the state directory."


@dataclass(slots=True)
class Sources:
    """What is known of the node right now; a new state is made when one of these changes."""

    node: Informer[Node]
    slo: Informer[NodeSLO]
    reports: Sequence[tuple[Report[Any], Informer[Any]]]
    "Each with the object that it is told in."
    pods: dict[str, AgentPod] = field(default_factory=dict)
    kubelet: Kubelet = field(default_factory=lambda: Kubelet(is_told=False))


class Daemon:
    def __init__(self, client: Client, options: AgentOptions, clock: Clock) -> None:
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
        self.agent = Agent(self.cgroups, executor, started_s=clock.monotonic(), expires_s=options.sample_expires_s)
        self.failures = FailureTeller()
        self._shield = Shield(self.failures)
        self.predictor = Predictor(options.prediction)
        self._problems: set[tuple[str, str, str]] = set()
        "Those that were told."
        self.counts: dict[str, int] = {}
        "By strategy and what it did."
        self.evictions: Counter[tuple[Charged, str]] = Counter()
        "By whose pod it was, and the strategy."
        self.reporter = Reporter(client, clock, options.node, self._facts)
        self._kubelet_pods = kubelet.Pods()
        self._look = DeviceLook(self.files, options.gates)
        self._watch = DeviceWatch(self._look, clock)
        self._state: NodeState | None = None
        self._made_of: tuple[object, ...] = ()
        self._announced: dict[str, tuple[AgentPod, float]] = {}
        "By uid, pods that a runtime has told of and kubelet has not, and when."
        self._copilot = CopilotClient(options.copilot_socket, clock)
        self._blames: Callable[[], Mapping[str, Sequence[Blame]]] = dict
        self._refusals: dict[Spot, str] = {}
        "What the kernel refuses, told once: it is tried again each round."
        self._resizing: dict[str, float] = {}
        "By uid, pods that a runtime says kubelet is resizing, and since when."
        self._pod_watch: PodWatch | None = None
        self._knows_pods = False
        "Whether kubelet has said which pods are here."

    async def run(self, on_ready: Callable[[], None]) -> None:
        own = f"metadata.name={self._options.node}"
        async with AsyncExitStack() as stack:
            events = await stack.enter_async_context(
                EventRecorder(self._client, controller="koord-agent", clock=self._clock)
            )
            reports = [report for report in REPORTS if report.is_on(self._options.gates)]
            await until_served(self._client, [NODE_SLOS, *(report.kind for report in reports)], self._clock)
            informers = await stack.enter_async_context(Informers(self._client, clock=self._clock))
            sources = Sources(
                informers.get(NODES, fields=own),
                informers.get(NODE_SLOS, fields=own),
                [(report, informers.get(report.kind, fields=own)) for report in reports],
            )
            malformed = MalformedTeller(events, READ)
            self.failures.events = events
            sources.node.add_handler(malformed.hear(NODES))
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
                lambda eviction: self.agent.was_told(eviction, self._clock.monotonic()),
                self._copilot,
            )
            interfering = Interfering(
                self._client,
                events,
                self._clock,
                self._options.state_dir,
                lambda: sources.pods,
                self.agent.replicas,
                self._options.node,
            )
            self._blames = interfering.blames
            on_ready()
            await self._find_driver()
            if self._options.hooks_socket is not None:
                answering = await asked.serve(self._options.hooks_socket, partial(self._asked, sources))
                stack.push_async_callback(answering.cleanup)
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            tasks.create_task(self._again("kubelet", lambda: self._ask_kubelet(sources, malformed)), name="kubelet")
            tasks.create_task(self._again("copilot", self._copilot.run), name="copilot")
            tasks.create_task(self._again("predictions", self._predict), name="predictions")
            if device.REPORT in reports:
                watching = partial(self._watch.run, self.agent.samples, lambda: sources.pods, self.files)
                tasks.create_task(self._again("devices", watching), name="device-watch")
            for report, informer in sources.reports:
                work = partial(self.reporter.run, report, partial(informer.get, self._options.node))
                tasks.create_task(self._again(report.name, work), name=report.name)
            if self._options.gates[AgentGate.APPLICATION_PROBE_COLLECTOR]:
                prober = Prober(lambda: sources.pods.values(), self._probed, self._clock)
                tasks.create_task(self._again("probes", prober.run), name="probes")
            if self._options.gates[AgentGate.POD_RESOURCES_PROXY]:
                proxy = pod_resources_of(self._options, lambda: self._state, self._clock)
                tasks.create_task(self._again("pod resources", proxy.run), name="pod-resources")
            if any(self._options.gates[gate] for gate in interference.GATES):
                tasks.create_task(self._again("comparing", interfering.answer), name="comparing")
            await self._again("rounds", lambda: self._rounds(sources, evictor, interfering))

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

    async def _rounds(self, sources: Sources, evictor: Evictor, interfering: Interfering) -> None:
        hours = UsualHours(self._options.state_dir, self._clock, self.agent.usual)
        while True:
            began_s = self._clock.monotonic()
            try:
                state = self._now(sources)
                if state is not None:
                    done = self.agent.round(state, began_s)
                    self._tell_writes(done.outcome)
                    for problem in done.problems:
                        self._tell_problem(problem)
                    for eviction in done.evictions:
                        with self._shield.about("evict it", PODS, eviction.pod.meta):
                            await evictor.evict(eviction)
                    await evictor.let_stay(sources.pods.values())
                    for finding in done.findings:
                        interfering.tell(finding)
                    interfering.watch(self.agent.remembered(interference.STRATEGY).control.episodes)
                    if done.usual_signals:
                        hours.heard(sources.pods, done.usual_signals)
                    for move in done.moves:
                        self._count(move.by, "move")
                        if not await interfering.move(move):
                            self.agent.was_not_moved(move.pod, self._clock.monotonic())
                    for pod in done.asks:
                        interfering.ask(pod)
            except (OSError, ValueError) as error:
                log.warning("this round is left out: %s", error)
            await self._clock.sleep(max(self._options.round_s - (self._clock.monotonic() - began_s), 0.05))

    async def _predict(self) -> None:
        def state() -> NodeState | None:
            return self._state if self._knows_pods else None

        directory = self._options.prediction_dir or self._options.state_dir
        await predicting(self.predictor, directory, self.agent.samples, state, self._clock)

    def _evicted(self, eviction: Eviction) -> None:
        self._count(eviction.by, "evict")
        self.evictions[charged_to(eviction.pod.meta), eviction.by] += 1
        self.agent.was_evicted(eviction, self._clock.monotonic())

    def _asked(self, sources: Sources, asking: Asking) -> Adjustment:
        """A runtime is about to make something."""
        uid, state = asking.pod.uid, self._now(sources)
        if state is None or state.slo is None:
            raise asked.NotYet(f"node {self._options.node} has no NodeSLO yet")
        if asking.is_over:
            self._announced = {other: each for other, each in self._announced.items() if other != uid}
            return Adjustment()
        pod, now_s = state.pods.get(uid), self._clock.monotonic()
        if asking.is_look:
            if pod is None:
                raise asked.Unknown(f"pod {uid[:80]} is not on node {self._options.node}")
            return answer(state, pod, asking)
        if pod is None:
            pod = announced(asking.pod, self.driver)
            self._announced = {**self._announced, uid: (pod, now_s)}
            state = self._now(sources) or state
        found = answer(state, pod, asking, resctrl.class_ahead(state, pod, self.files))
        if not asking.container:
            self._tell_writes(self.agent.made_ready(state, pod, now_s))
        if asking.is_update and is_resized(pod, asking):
            self._resizing = {**self._resizing, uid: now_s}
            self._tell_writes(self.agent.stood_aside(pod, now_s))
            if self._pod_watch is not None:
                self._pod_watch.hurry()
        at, name = timestamp(self._clock.now()), "/".join(filter(None, (pod.meta.name, asking.container)))
        for why in found.why:
            by, _, message = why.partition(": ")
            self.audit.add(at, asking.by or "ask", by, message, namespace=pod.meta.namespace, name=name)
        return found

    def _pods(self, sources: Sources) -> dict[str, AgentPod]:
        if self._announced:
            until_s = self._clock.monotonic() - ANNOUNCED_S
            left = {
                uid: (pod, at_s)
                for uid, (pod, at_s) in self._announced.items()
                if uid not in sources.pods and at_s > until_s
            }
            if left.keys() != self._announced.keys():
                self._announced = left
        since_s = self._clock.monotonic() - RESIZED_S
        if any(at_s <= since_s for at_s in self._resizing.values()):
            self._resizing = {uid: at_s for uid, at_s in self._resizing.items() if at_s > since_s}
        if not self._announced and not self._resizing:
            return sources.pods
        resizing = {
            uid: replace(pod, is_resizing=True, is_resize_deferred=False)
            for uid in self._resizing
            if (pod := sources.pods.get(uid))
        }
        return {**sources.pods, **resizing, **{uid: pod for uid, (pod, _) in self._announced.items()}}

    def _now(self, sources: Sources) -> NodeState | None:
        node, slo = sources.node.get(self._options.node), sources.slo.get(self._options.node)
        if node is None:
            return None
        pods = self._pods(sources)
        made_of = (
            node,
            slo,
            sources.pods,
            self._announced,
            self._resizing,
            sources.kubelet,
            self._watch.inventory,
            self._copilot.found,
        )
        if self._state is None or any(a is not b for a, b in zip(made_of, self._made_of, strict=True)):
            spec = slo.spec if slo is not None else None
            self._state = state_of(
                self.cgroups,
                self.topology,
                self.driver,
                node,
                spec,
                pods,
                sources.kubelet,
                self._options.gates,
                self._watch.inventory,
                self._copilot.found,
                self._shield,
            )
            self._made_of = made_of
        return self._state

    @property
    def state(self) -> NodeState | None:
        return self._state

    def _probed(self, uid: str, value: float) -> None:
        self.agent.samples.add(names.pod_probe(uid), self._clock.monotonic(), value, SLOW_RING)

    def _count(self, by: str, what: str) -> None:
        key = f"{by}/{what}"
        self.counts[key] = self.counts.get(key, 0) + 1

    def _tell_writes(self, outcome: ExecutorOutcome) -> None:
        at = timestamp(self._clock.now())
        for each in outcome.done:
            write = each.write
            self._refusals.pop(write.spot, None)
            self._count(write.by, "write")
            self.audit.add(
                at, "write" if write.text is None else "restore", write.by, write.why,
                directory=write.directory, file=self._file(write), old=each.old, value=each.text,
            )  # fmt: skip
        for refusal in outcome.refused:
            write = refusal.write
            self._count(write.by, "refused" if write.text is None else "restore-refused")
            if self._refusals.get(write.spot) == refusal.error:
                continue
            if len(self._refusals) >= MOST_PROBLEMS:
                self._refusals.clear()
            self._refusals[write.spot] = refusal.error
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
        file = self.agent.executor.file(write)
        return file if write.process or not write.directory else file.rpartition("/")[2]

    def _tell_problem(self, problem: Problem) -> None:
        """Once: a Node changes often, and its kernel does not."""
        meta = problem.pod.meta if problem.pod else self._node_meta()
        told = (meta.uid if meta else "", problem.doing, problem.why)
        if told in self._problems:
            return
        if len(self._problems) >= MOST_PROBLEMS:
            self._problems.clear()
        self._problems.add(told)
        self._shield.failed(problem.doing, BadInput(problem.why), PODS if problem.pod else NODES, meta)

    def _node_meta(self) -> ObjectMeta | None:
        return None if self._state is None else self._state.node.metadata

    async def _ask_kubelet(self, sources: Sources, malformed: MalformedTeller) -> None:
        async with AsyncExitStack() as stack:
            watch = self._pod_watch = stack.enter_context(PodWatch(self.cgroups, self.driver, self._clock))
            address, client = "", None
            while True:
                node = sources.node.get(self._options.node)
                found = self._options.kubelet_address or (kubelet.address_of(node) if node else "")
                if found and found != address:
                    address = found
                    client = await stack.enter_async_context(kubelet.client_of(self._client.config, address))
                if client is not None:
                    await self._kubelet_round(client, sources, malformed)
                    watch.follow(pod.directory for pod in sources.pods.values())
                await watch.next_look(self._options.kubelet_s)

    async def _kubelet_round(self, client: Client, sources: Sources, malformed: MalformedTeller) -> None:
        # First: pods are not to be looked after by what a kubelet with other settings would do.
        asked = await kubelet.settings(client, sources.kubelet, self.topology)
        new = replace(asked, static_cpus=kubelet.given_cpus(self.files, asked))
        if new != sources.kubelet:
            sources.kubelet = new
        found = await self._kubelet_pods.news(client)
        if found is not None:
            pods = pods_of(found, self.driver, self._shield)
            if pods != sources.pods:
                for uid in sources.pods.keys() - pods.keys():
                    self.agent.executor.forget(sources.pods[uid].directory)
                for uid, pod in pods.items():
                    malformed.tell(PODS, pod.meta, sources.pods[uid].meta if uid in sources.pods else None)
                sources.pods = pods
            self._knows_pods = True

    def _facts(self) -> Facts | None:
        if self._state is None:
            return None
        now_s, at = self._clock.monotonic(), timestamp(self._clock.now())
        blames = self._blames()
        return Facts(self._state, self.agent.samples, self.files, now_s, at, self.predictor.forecast, blames)


def pod_resources_of(options: AgentOptions, state: Callable[[], NodeState | None], clock: Clock) -> PodResources:
    kubelet_socket = Path(options.host_root) / KUBELET_DIRECTORY / POD_RESOURCES_SOCKET
    own = Path(options.pod_resources_dir) / POD_RESOURCES_SOCKET
    return PodResources(kubelet_socket, own, options.state_dir, state, clock)


def _allow_many_files() -> None:
    """A service is often given a thousand descriptors, and may have more for the asking."""
    has, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if most == resource.RLIM_INFINITY else min(MOST_FILES, most)
    if has != resource.RLIM_INFINITY and has < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


async def run(
    client: Client,
    options: AgentOptions,
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
