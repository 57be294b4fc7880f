"""Starts the manager against one API server, and keeps it until cancelled.

Every replica hears everything; only the leader decides and writes, with a client that is fenced by its lease. Parts
that run on every replica, like the webhook server, run beside it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from koord.api.kinds import NODES
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.kube.client import Client
from koord.kube.clock import Clock, SystemClock
from koord.kube.controller import Controller
from koord.kube.events import EventRecorder
from koord.kube.informers import Informers
from koord.kube.leader import LeaderElection, run_as_leader
from koord.kube.malformed import MalformedTeller
from koord.kube.metrics import Metrics
from koord.kube.served import until_served
from koord.manager.annotations import READ
from koord.manager.live.config import Configuration, ConfigurationTeller
from koord.manager.live.metrics import ManagerMetrics
from koord.manager.live.node_objects import node_metric_loop, node_slo_loop
from koord.manager.live.node_resource import NodeResourceLoop
from koord.manager.live.pairs import PairsLoop
from koord.manager.live.quota_profile import QuotaProfileLoop
from koord.manager.live.recommendation import RecommendationLoop, RecommendationPace
from koord.manager.live.rollout import LOOK_S as ROLLOUT_LOOK_S
from koord.manager.live.rollout import RolloutLoop
from koord.manager.live.sources import REQUIRED, Sources
from koord.manager.live.unacted import UnactedTeller
from koord.manager.live.waiting_pods import WaitingPodsLoop
from koord.manager.node_resource.plugins import choose
from koord.manager.plugin import Plugin

log = logging.getLogger(__name__)

CONTROLLERS: Final = (
    "nodemetric",
    "noderesource",
    "nodeslo",
    "quotaprofile",
    "colocationprofile",
    "recommendation",
    "interferencepair",
    "rollout",
)


class ControllerError(BadInput):
    """A list of controllers has an unknown name."""


@dataclass(frozen=True, slots=True)
class ManagerOptions:
    elect: bool = False
    "Whether to work only while holding the lease."
    namespace: str = names.NAMESPACE_KOORDINATOR
    "Of the lease."
    controllers: frozenset[str] = frozenset(CONTROLLERS)
    waiting_pods: bool = False
    "Whether the controller colocationprofile may change pods that wait: the gate ColocationProfileController."
    recommendation: RecommendationPace = field(default_factory=RecommendationPace)
    rollout_look_s: float = ROLLOUT_LOOK_S
    "How often a roll-out that grows is looked at."
    plugins: Sequence[Plugin] = field(default_factory=choose)
    beside: tuple[Callable[[Client, Informers, Metrics], Awaitable[None]], ...] = ()
    "What runs on every replica, leading or not."


def choose_controllers(wanted: Sequence[str]) -> frozenset[str]:
    """The controllers that a list asks for: `*` is all, a name is that one, `-name` is not that one."""
    for entry in wanted:
        if entry != "*" and entry.removeprefix("-") not in CONTROLLERS:
            raise ControllerError(
                f"there is no controller {entry!r}; there are {', '.join(CONTROLLERS)}, each also with a - before it"
            )
    named = {
        controller
        for controller in CONTROLLERS
        if controller in wanted or ("*" in wanted and f"-{controller}" not in wanted)
    }
    return frozenset(named)


class Loop(Protocol):
    """One controller with its state."""

    @property
    def controller(self) -> Controller[Any]: ...
    def stop_listening(self) -> None: ...


async def run(
    client: Client,
    *,
    options: ManagerOptions | None = None,
    clock: Clock | None = None,
    metrics: Metrics | None = None,
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Runs until cancelled. `on_ready` is called when it has a picture of the cluster, leading or not."""
    runner = _Runner(
        client, options or ManagerOptions(), clock or SystemClock(), ManagerMetrics(metrics or Metrics(process=False))
    )
    await runner.run(on_ready or (lambda: None))


class _Runner:
    def __init__(self, client: Client, options: ManagerOptions, clock: Clock, metrics: ManagerMetrics) -> None:
        self._client, self._options, self._clock, self._metrics = client, options, clock, metrics

    async def run(self, on_ready: Callable[[], None]) -> None:
        async with AsyncExitStack() as stack:
            informers = await stack.enter_async_context(Informers(self._client, clock=self._clock))
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            for beside in self._options.beside:
                tasks.create_task(_awaited(beside(self._client, informers, self._metrics.metrics)), name="beside")
            await until_served(self._client, REQUIRED, self._clock)
            sources = Sources(self._client, informers, self._clock)
            configuration = Configuration(informers)
            self._metrics.configuration_faults.set_function(lambda: configuration.faults)
            await sources.begin()
            for informer in informers:
                self._metrics.metrics.follow(informer)
            await informers.synced(freeze=True)
            await configuration.synced()
            tasks.create_task(sources.run(), name="sources")
            tasks.create_task(self._work(informers, sources, configuration), name="work")
            on_ready()

    async def _work(self, informers: Informers, sources: Sources, configuration: Configuration) -> None:
        if not self._options.elect:
            self._metrics.leading.set(1)
            await self._lead(self._client, informers, sources, configuration)
            return

        async def work(leader: LeaderElection) -> None:
            await self._lead(leader.client, informers, sources, configuration)

        gauge = self._metrics.metrics.leader(names.LEASE_MANAGER)

        def leads(leading: bool) -> None:
            gauge.set(leading)
            self._metrics.leading.set(leading)

        await run_as_leader(
            self._client, work, name=names.LEASE_MANAGER, namespace=self._options.namespace, on_change=leads
        )

    async def _lead(self, client: Client, informers: Informers, sources: Sources, configuration: Configuration) -> None:
        """Decides and writes until cancelled."""
        async with (
            EventRecorder(
                client, controller="koord-manager", observer=self._metrics.metrics.events(), clock=self._clock
            ) as events,
            AsyncExitStack() as stack,
            asyncio.TaskGroup() as tasks,
        ):
            loops = self._loops(client, informers, sources, configuration, events)
            hear = MalformedTeller(events, READ).hear(NODES, lambda record: record.facts.meta)
            stack.callback(sources.nodes.add_handler(hear))
            teller = ConfigurationTeller(client, configuration, events, self._clock)
            tasks.create_task(teller.controller.run(), name="slo-config")
            tasks.create_task(UnactedTeller(client, informers, events, self._clock).run(), name="unacted")
            for loop in loops:
                tasks.create_task(self._running(loop), name=loop.controller.name)
            log.info("deciding what nodes lend", extra={"controllers": ", ".join(sorted(self._options.controllers))})

    async def _running(self, loop: Loop) -> None:
        try:
            await loop.controller.run()
        finally:
            loop.stop_listening()

    def _loops(
        self,
        client: Client,
        informers: Informers,
        sources: Sources,
        configuration: Configuration,
        events: EventRecorder,
    ) -> list[Loop]:
        metrics, options = self._metrics, self._options
        made: dict[str, Callable[[], Loop]] = {
            "nodemetric": lambda: node_metric_loop(client, sources, configuration, metrics),
            "noderesource": lambda: NodeResourceLoop(
                client, sources, configuration, options.plugins, self._clock, metrics
            ),
            "nodeslo": lambda: node_slo_loop(client, sources, configuration, metrics),
            "quotaprofile": lambda: QuotaProfileLoop(client, sources, events, metrics),
            "recommendation": lambda: RecommendationLoop(
                client, sources, events, self._clock, metrics, pace=options.recommendation
            ),
            "interferencepair": lambda: PairsLoop(client, sources, self._clock, metrics),
            "rollout": lambda: RolloutLoop(
                client,
                informers,
                sources,
                configuration,
                events,
                self._clock,
                metrics,
                look_s=options.rollout_look_s,
            ),
        }
        if options.waiting_pods:
            made["colocationprofile"] = lambda: WaitingPodsLoop(client, informers, self._clock, metrics)
        return [make() for name, make in made.items() if name in options.controllers]


async def _awaited(call: Awaitable[None]) -> None:
    await call
