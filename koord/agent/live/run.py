"""The agent as a daemon on one node, until it is cancelled.

Each second a round, which never waits for the network: beside it kubelet is asked for its pods, usage is reported, and
the API server is asked for what rounds decide (`api_requests`). There is no round before the Node, kubelet's settings
and its pods are known, from them or from the agent that was here before (`last_known`): what is not known yet changes
nothing. A failed round is logged and the next one runs: a
kernel file that cannot be read now may exist in a second. Other parts that fail begin again, since a node without an
agent keeps the limits of its last second. Only a failure of the requests' queue ends the agent.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

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
from koord.agent.live.api_requests import ApiRequests
from koord.agent.live.copilot import CopilotClient
from koord.agent.live.devices import DeviceLook, DeviceWatch
from koord.agent.live.evicting import Evictor
from koord.agent.live.holding import directory_of, held, is_there
from koord.agent.live.interfering import Interfering
from koord.agent.live.keeping import AUDIT, LedgerFile, read_ledger
from koord.agent.live.last_known import LastKnown, LastKnownFile, read_last_known, strangers
from koord.agent.live.left_out import LeftOutPods
from koord.agent.live.lending import learning
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
from koord.agent.qos.decision import Eviction, Move, Problem
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
from koord.kube.background_task import background_task
from koord.kube.client import Client
from koord.kube.clock import Clock, SystemClock
from koord.kube.events import EventRecorder, reference_to
from koord.kube.informer import Informer
from koord.kube.informers import Informers
from koord.kube.listening import allow_many_descriptors
from koord.kube.malformed import FailureTeller, MalformedTeller
from koord.kube.served import until_served

log = logging.getLogger(__name__)

ROUND_S: Final = 1.0
KUBELET_S: Final = 10.0
DRIVER_WITHIN_S: Final = 60.0
AGAIN_S: Final = 5.0
API_S: Final = 5.0
"""How long a call to the API server may take."""
REPORT_ATTEMPTS: Final = 3
"""Attempts to write a report: the next report comes a minute later."""
ANNOUNCED_S: Final = 300.0
"""For how long a pod that a runtime announced may be unknown to kubelet: one that was never created is forgotten."""
RESIZED_S: Final = 5.0
"""How long a runtime's announcement of a resize counts; by then kubelet reports the resize itself."""
MOST_PROBLEMS: Final = 10_000
"""How many problems are remembered as reported; after that, all are reported again."""


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
    "The socket where container runtimes ask for the settings of new containers; None: no socket."
    prediction: PredictionSettings = field(default_factory=PredictionSettings)
    prediction_dir: Path | None = None
    "Keeps what peaks are predicted by, in a folder of its own; None: the state directory."


@dataclass(slots=True)
class Sources:
    """What is known of the node right now; a new state is made when one of these changes."""

    node: Informer[Node]
    slo: Informer[NodeSLO]
    reports: Sequence[tuple[Report[Any], Informer[Any]]]
    "Each report with the informer of its object."
    pods: dict[str, AgentPod] | None = None
    kubelet: Kubelet | None = None
    "Both None while kubelet has not said it, and no earlier agent kept it."
    recalled: LastKnown | None = None
    "What an earlier agent kept. Its Node and NodeSLO count until the API server has told its own."
    is_heard: bool = False
    "Whether it has."

    def node_and_slo(self, name: str) -> tuple[Node | None, NodeSLO | None]:
        if self.is_heard or self.recalled is None:
            return self.node.get(name), self.slo.get(name)
        return self.recalled.node, self.recalled.slo


class Daemon:
    def __init__(self, client: Client, options: AgentOptions, clock: Clock) -> None:
        self._client, self._options, self._clock = client, options, clock
        self._api = client.limited(timeout_s=API_S, attempts=1)
        "For what is asked again anyway, where it is still wanted."
        self.requests = ApiRequests()
        allow_many_descriptors()
        self.files = Files(options.host_root)
        self.cgroups = Cgroups.of(self.files, options.cgroup_root)
        self.topology: Topology = topology(self.files)
        self.driver = CgroupDriver.SYSTEMD
        self._has_node: Callable[[], bool] = lambda: True
        "Whether the API server has the Node; it does until it is heard that it does not."
        self.audit = Audit(options.state_dir / AUDIT)
        self._ledger_file = LedgerFile(options.state_dir)
        self._last_known = LastKnownFile(options.state_dir)
        executor = Executor(self.cgroups, read_ledger(options.state_dir), self._ledger_file.save)
        self.agent = Agent(self.cgroups, executor, started_s=clock.monotonic(), expires_s=options.sample_expires_s)
        self.failures = FailureTeller()
        self._shield = Shield(self.failures)
        self.predictor = Predictor(options.prediction)
        self._problems: set[tuple[str, str, str]] = set()
        "The problems already reported."
        self.counts: dict[str, int] = {}
        "By strategy and what it did."
        self.evictions: Counter[tuple[Charged, str]] = Counter()
        "By whose pod it was, and the strategy."
        self.reporter = Reporter(self._api.limited(attempts=REPORT_ATTEMPTS), clock, options.node, self._facts)
        self._kubelet_pods = kubelet.PodList()
        self._left_out = LeftOutPods(client, self.cgroups, clock)
        self._look = DeviceLook(self.files, options.gates)
        self._watch = DeviceWatch(self._look, clock)
        self._state: NodeState | None = None
        self._made_of: tuple[object, ...] = ()
        self._announced: dict[str, tuple[AgentPod, float]] = {}
        "By uid, pods that a runtime announced and kubelet has not reported yet, and when."
        self._copilot = CopilotClient(options.copilot_socket, clock)
        self._blames: Callable[[], Mapping[str, Sequence[Blame]]] = dict
        self._refusals: dict[Spot, str] = {}
        "Writes that the kernel refuses, reported once: they are retried each round."
        self._resizing: dict[str, float] = {}
        "By uid, pods that a runtime says kubelet is resizing, and since when."
        self._pod_watch: PodWatch | None = None
        self._awaited = ""
        "What was missing when that was last logged."

    async def run(self, on_ready: Callable[[], None]) -> None:
        own = f"metadata.name={self._options.node}"
        async with AsyncExitStack() as stack:
            events = await stack.enter_async_context(
                EventRecorder(self._api, controller="koord-agent", clock=self._clock)
            )
            reports = [report for report in REPORTS if report.is_on(self._options.gates)]
            informers = Informers(self._client, clock=self._clock)
            sources = Sources(
                informers.get(NODES, fields=own),
                informers.get(NODE_SLOS, fields=own),
                [(report, informers.get(report.kind, fields=own)) for report in reports],
            )
            malformed = MalformedTeller(events, READ)
            self.failures.events = events
            sources.node.add_handler(malformed.hear(NODES))
            await stack.enter_async_context(background_task(self.requests.run(), name="api-requests"))
            hearing = self._hear(informers, sources, on_ready)
            await stack.enter_async_context(background_task(hearing, name="informers"))
            evictor = Evictor(
                self._api,
                self.requests,
                events,
                self.audit,
                self._clock,
                self.cgroups,
                self._evicted,
                lambda: sources.node_and_slo(self._options.node)[0],
                lambda eviction: self.agent.was_refused(eviction, self._clock.monotonic()),
                lambda eviction: self.agent.was_told(eviction, self._clock.monotonic()),
                self._copilot,
                self._shield,
            )
            interfering = Interfering(
                self._api,
                events,
                self._clock,
                self._options.state_dir,
                lambda: sources.pods or {},
                self.agent.replicas,
                self._options.node,
            )
            self._blames = interfering.blames
            await self._find_driver()
            self._recall(sources)
            if self._options.hooks_socket is not None:
                answering = await asked.serve(self._options.hooks_socket, partial(self._asked, sources))
                stack.push_async_callback(answering.cleanup)
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            tasks.create_task(self._again("kubelet", lambda: self._ask_kubelet(sources, malformed)), name="kubelet")
            tasks.create_task(self._again("node", partial(self._tell_missing_node, events)), name="node")
            tasks.create_task(self._again("copilot", self._copilot.run), name="copilot")
            tasks.create_task(self._again("predictions", self._predict), name="predictions")
            tasks.create_task(self._again("lending", self._learn), name="lending")
            if device.REPORT in reports:
                watching = partial(self._watch.run, self.agent.samples, lambda: sources.pods or {}, self.files)
                tasks.create_task(self._again("devices", watching), name="device-watch")
            for report, informer in sources.reports:
                work = partial(self._report, report, informer)
                tasks.create_task(self._again(report.name, work), name=report.name)
            if self._options.gates[AgentGate.APPLICATION_PROBE_COLLECTOR]:
                prober = Prober(lambda: (sources.pods or {}).values(), self._probed, self._clock)
                tasks.create_task(self._again("probes", prober.run), name="probes")
            if self._options.gates[AgentGate.POD_RESOURCES_PROXY]:
                proxy = pod_resources_of(self._options, lambda: self._state, self._clock)
                tasks.create_task(self._again("pod resources", proxy.run), name="pod-resources")
            if any(self._options.gates[gate] for gate in interference.GATES):
                tasks.create_task(self._again("comparing", interfering.answer), name="comparing")
            await self._again("rounds", lambda: self._rounds(sources, evictor, interfering))

    async def _hear(self, informers: Informers, sources: Sources, on_ready: Callable[[], None]) -> None:
        """Rounds do not wait for the API server: what an earlier agent kept counts until it answers."""
        await until_served(self._client, [NODE_SLOS, *(report.kind for report, _ in sources.reports)], self._clock)
        async with informers:
            await informers.synced(freeze=True)
            sources.is_heard = True
            self._has_node = lambda: sources.node.get(self._options.node) is not None
            on_ready()
            await asyncio.Event().wait()

    async def _report(self, report: Report[Any], informer: Informer[Any]) -> None:
        await informer.synced()
        await self.reporter.run(report, partial(informer.get, self._options.node))

    def _recall(self, sources: Sources) -> None:
        recalled = read_last_known(self._options.state_dir)
        if recalled is None or not recalled.is_of(self._options.node, self._clock.now()):
            return
        if others := strangers(recalled.pods, self.agent.executor.ledger, self.cgroups, self.driver):
            log.warning("what was known last is not used, these pods came later: %s", ", ".join(sorted(others)))
            return
        sources.recalled, sources.pods, sources.kubelet = recalled, recalled.pods, recalled.kubelet

    async def _again(self, part: str, work: Callable[[], Awaitable[None]]) -> None:
        """The supervisor of what the agent does side by side."""
        while True:
            try:
                await work()
            except Exception:
                log.exception("%s of node %s failed, and begin again in %g s", part, self._options.node, AGAIN_S)
            await self._clock.sleep(AGAIN_S)

    def missing_node(self) -> str | None:
        """What is wrong with the node's name, if anything: without a Node, nothing is protected or reported."""
        if self._has_node():
            return None
        return f"there is no Node {self._options.node}: --node-name or $NODE_NAME must be the name of this host's Node"

    async def _tell_missing_node(self, events: EventRecorder) -> None:
        """When it is missed, and again each time after it was there."""
        was_told = False
        while True:
            missing = self.missing_node()
            if missing and not was_told:
                log.warning("%s; nothing is done until there is", missing)
                about = reference_to(NODES, ObjectMeta(name=self._options.node))
                events.record(about, "NoSuchNode", f"koord agent: {missing}", action="Starting", type="Warning")
            was_told = missing is not None
            await self._clock.sleep(AGAIN_S)

    async def _find_driver(self) -> None:
        """By kubelet's directories, which may come after the agent; without any for a minute, as most nodes have it."""
        until_s = self._clock.monotonic() + DRIVER_WITHIN_S
        driver_name = self._options.cgroup_driver
        while not driver_name and driver_of(self.cgroups) is None and self._clock.monotonic() < until_s:
            await self._clock.sleep(0.5)
        self.driver = driver_in(self.cgroups, driver_name)
        self.cgroups.look_for_pods_in(qos_dir(KubeQoS.GUARANTEED, self.driver))

    async def _rounds(self, sources: Sources, evictor: Evictor, interfering: Interfering) -> None:
        hours = UsualHours(self._options.state_dir, self._clock, self.agent.usual)
        while True:
            began_s = self._clock.monotonic()
            try:
                self._ledger_file.catch_up()
                state = self._now(sources)
                self._tell_unknown(self._unknown(sources))
                if state is not None:
                    done = self.agent.round(state, began_s, evictor.unanswered)
                    self._tell_writes(done.outcome)
                    for problem in done.problems:
                        self._tell_problem(problem)
                    for eviction in done.evictions:
                        with self._shield.about("evict it", PODS, eviction.pod.meta):
                            evictor.evict(eviction)
                    evictor.let_stay(state.pods.values())
                    for finding in done.findings:
                        interfering.tell(finding)
                    interfering.watch(self.agent.remembered(interference.STRATEGY).control.episodes)
                    if done.usual_signals:
                        hours.heard(state.pods, done.usual_signals)
                    for move in done.moves:
                        self._count(move.by, "move")
                        if not self.requests.put(("move", move.pod.uid), partial(self._move, interfering, move)):
                            self.agent.was_not_moved(move.pod, self._clock.monotonic())
                    for pod in done.asks:
                        interfering.ask(pod)
            except (OSError, ValueError) as error:
                log.warning("this round is left out: %s", error)
            await self._clock.sleep(max(self._options.round_s - (self._clock.monotonic() - began_s), 0.05))

    async def _move(self, interfering: Interfering, move: Move) -> None:
        with self._shield.about("have it moved", PODS, move.pod.meta):
            if not await interfering.move(move):
                self.agent.was_not_moved(move.pod, self._clock.monotonic())

    async def _predict(self) -> None:
        directory = self._options.prediction_dir or self._options.state_dir
        await predicting(self.predictor, directory, self.agent.samples, lambda: self._state, self._clock)

    async def _learn(self) -> None:
        agent = self.agent
        await learning(agent.learner, self._options.state_dir, agent.samples, lambda: self._state, self._clock)

    def _evicted(self, eviction: Eviction) -> None:
        self._count(eviction.by, "evict")
        self.evictions[charged_to(eviction.pod.meta), eviction.by] += 1
        self.agent.was_evicted(eviction, self._clock.monotonic())

    def _asked(self, sources: Sources, asking: Asking) -> Adjustment:
        """A runtime is about to make something."""
        uid, state = asking.pod.uid, self._now(sources)
        if state is None or state.slo is None:
            unknown = self._unknown(sources) or "its NodeSLO"
            raise asked.NotYet(f"not known yet of node {self._options.node}: {unknown}")
        if asking.is_over:
            self._announced = {other: announced_pod for other, announced_pod in self._announced.items() if other != uid}
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
        adjustment = self._spared(answer(state, pod, asking, resctrl.class_ahead(state, pod, self.files)), pod, asking)
        if not asking.container:
            self._tell_writes(self.agent.made_ready(state, pod, now_s))
        if asking.is_update and is_resized(pod, asking):
            self._resizing = {**self._resizing, uid: now_s}
            self._tell_writes(self.agent.stood_aside(pod, now_s))
            if self._pod_watch is not None:
                self._pod_watch.hurry()
        at, name = timestamp(self._clock.now()), "/".join(filter(None, (pod.meta.name, asking.container)))
        for why in adjustment.why:
            by, _, message = why.partition(": ")
            self.audit.add(at, asking.by or "ask", by, message, namespace=pod.meta.namespace, name=name)
        return adjustment

    def _spared(self, wanted: Adjustment, pod: AgentPod, asking: Asking) -> Adjustment:
        """A container that runs gets no memory limit from its runtime that would have it killed."""
        limit = wanted.memory_limit_bytes
        directory = next(
            (container.directory for container in pod.containers if container.name == asking.container), ""
        )
        if limit is None or not directory or self.agent.executor.in_use_above(directory, limit) is None:
            return wanted
        return msgspec.structs.replace(wanted, memory_limit_bytes=None)

    def _pods(self, of_kubelet: dict[str, AgentPod]) -> dict[str, AgentPod]:
        """Kubelet's, and what runtimes say beside it."""
        if self._announced:
            until_s = self._clock.monotonic() - ANNOUNCED_S
            left = {
                uid: (pod, at_s)
                for uid, (pod, at_s) in self._announced.items()
                if uid not in of_kubelet and at_s > until_s
            }
            if left.keys() != self._announced.keys():
                self._announced = left
        since_s = self._clock.monotonic() - RESIZED_S
        if any(at_s <= since_s for at_s in self._resizing.values()):
            self._resizing = {uid: at_s for uid, at_s in self._resizing.items() if at_s > since_s}
        if not self._announced and not self._resizing:
            return of_kubelet
        resizing = {
            uid: replace(pod, is_resizing=True, is_resize_deferred=False)
            for uid in self._resizing
            if (pod := of_kubelet.get(uid))
        }
        return {**of_kubelet, **resizing, **{uid: pod for uid, (pod, _) in self._announced.items()}}

    def _unknown(self, sources: Sources) -> str:
        """What a state cannot be made without; empty where all of it is known."""
        is_known = {
            "its Node": sources.node_and_slo(self._options.node)[0] is not None,
            "kubelet's settings": sources.kubelet is not None,
            "kubelet's pods": sources.pods is not None,
            "the containers of YARN": self._copilot.has_looked,
        }
        return ", ".join(what for what, is_so in is_known.items() if not is_so)

    def _now(self, sources: Sources) -> NodeState | None:
        """None while something is not known without which nothing can be decided."""
        node, slo = sources.node_and_slo(self._options.node)
        if node is None or sources.pods is None or sources.kubelet is None or not self._copilot.has_looked:
            return None
        pods = self._pods(sources.pods)
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
            recalled = None if sources.is_heard else sources.recalled
            at_s = self._clock.now() if recalled is None else recalled.at_s
            self._last_known.save(LastKnown(at_s, node, slo, sources.kubelet, sources.pods))
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
        for done in outcome.done:
            write = done.write
            self._refusals.pop(write.spot, None)
            self._count(write.by, "write")
            self.audit.add(
                at, "write" if write.text is None else "restore", write.by, write.why,
                directory=write.directory, file=self._file(write), old=done.old, value=done.text,
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
        problem_key = (meta.uid if meta else "", problem.doing, problem.why)
        if problem_key in self._problems:
            return
        if len(self._problems) >= MOST_PROBLEMS:
            self._problems.clear()
        self._problems.add(problem_key)
        self._shield.failed(problem.doing, BadInput(problem.why), PODS if problem.pod else NODES, meta)

    def _tell_unknown(self, unknown: str) -> None:
        if unknown != self._awaited:
            self._awaited = unknown
            if unknown:
                log.warning("nothing is changed on node %s before this is known: %s", self._options.node, unknown)
            else:
                log.info("all is known that node %s is looked after by", self._options.node)

    def _node_meta(self) -> ObjectMeta | None:
        return None if self._state is None else self._state.node.metadata

    async def _ask_kubelet(self, sources: Sources, malformed: MalformedTeller) -> None:
        async with AsyncExitStack() as stack:
            watch = self._pod_watch = stack.enter_context(PodWatch(self.cgroups, self.driver, self._clock))
            address, client = "", None
            while True:
                node, _ = sources.node_and_slo(self._options.node)
                wanted_address = self._options.kubelet_address or (kubelet.address_of(node) if node else "")
                if wanted_address and wanted_address != address:
                    address = wanted_address
                    client = await stack.enter_async_context(kubelet.client_of(self._client.config, address))
                if client is not None:
                    await self._kubelet_round(client, sources, malformed)
                    watch.follow(pod.directory for pod in (sources.pods or {}).values())
                await watch.next_look(self._options.kubelet_s)

    async def _kubelet_round(self, client: Client, sources: Sources, malformed: MalformedTeller) -> None:
        # First: pods are not to be looked after by what a kubelet with other settings would do.
        settings = await kubelet.settings(client, sources.kubelet, self.topology)
        given = None if settings is None else kubelet.given_cpus(self.files, settings, sources.kubelet)
        if settings is not None and given is not None:
            new = replace(settings, static_cpus=given)
            if new != sources.kubelet:
                sources.kubelet = new
        news = await self._kubelet_pods.news(client)
        if news is None:
            return
        listed, before = pods_of(news, self.driver, self._shield), sources.pods
        pods = await self._left_out.completed(listed, before, self.driver)
        if pods is None or len(pods) > len(listed):
            self._kubelet_pods.look_again()
        if pods is None or pods == before:
            return
        former = before or {}
        for uid in former.keys() - pods.keys():
            self.agent.executor.forget(former[uid].directory)
        for uid, pod in pods.items():
            malformed.tell(PODS, pod.meta, former[uid].meta if uid in former else None)
        sources.pods = pods

    def _facts(self) -> Facts | None:
        if self._state is None:
            return None
        now_s, at = self._clock.monotonic(), timestamp(self._clock.now())
        blames = self._blames()
        outlook = self.agent.learner.outlook(self._state, self.agent.samples, now_s, self._clock.now())
        return Facts(self._state, self.agent.samples, self.files, now_s, at, self.predictor.forecast, outlook, blames)


def pod_resources_of(options: AgentOptions, state: Callable[[], NodeState | None], clock: Clock) -> PodResources:
    kubelet_socket = Path(options.host_root) / KUBELET_DIRECTORY / POD_RESOURCES_SOCKET
    own = Path(options.pod_resources_dir) / POD_RESOURCES_SOCKET
    return PodResources(kubelet_socket, own, options.state_dir, state, clock)


async def run(
    client: Client,
    options: AgentOptions,
    *,
    clock: Clock | None = None,
    on_start: Callable[[Daemon], None] = lambda daemon: None,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """`on_start` gets the daemon, to serve what it knows. Raises HeldError if the node has an agent already."""
    clock = clock or SystemClock()
    cgroups = await _cgroups_when_there(options, clock)
    with held(options.state_dir, cgroups, "koord agent", timestamp(clock.now())):
        daemon = Daemon(client, options, clock)
        on_start(daemon)
        try:
            await daemon.run(on_ready)
        finally:
            daemon.files.close()


async def _cgroups_when_there(options: AgentOptions, clock: Clock) -> Cgroups:
    """Kubelet may make the node's cgroup after the agent has started."""
    files, is_told = Files(options.host_root), False
    while not is_there(cgroups := Cgroups.of(files, options.cgroup_root)):
        if not is_told:
            where = directory_of(cgroups)
            log.warning("waiting for cgroup %s: there is none; --host-root and --cgroup-root say where it is", where)
        is_told = True
        await clock.sleep(0.5)
    return cgroups
