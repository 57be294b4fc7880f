"""The scheduler: informers, decisions and bindings put together, until cancelled.

    async with Client.from_config() as client:
        await run(client, config)

A standby follows all objects too, so that a new leader decides at once. A new configuration gets a new state, fed from
the same informers, once everything that was decided under the old one is bound.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from koord.api.configuration.features import SchedulerGate
from koord.api.configuration.scheduler_config import SchedulerConfiguration
from koord.api.configuration.threshold_order import load_limits, of_nodes
from koord.api.kinds import Kind
from koord.api.machinery.faults import BadInput, Invalid
from koord.api.machinery.shield import Shield
from koord.api.protocol.names import SCHEDULER_DEFAULT
from koord.kube.client import Client
from koord.kube.clock import Clock, SystemClock
from koord.kube.errors import ApiError
from koord.kube.event_ledger import EventLimits
from koord.kube.events import EventRecorder
from koord.kube.informers import Informers
from koord.kube.leader import run_elected
from koord.kube.malformed import FailureTeller, MalformedTeller
from koord.kube.metrics import Metrics
from koord.kube.reload import changes
from koord.kube.served import is_served
from koord.scheduler.annotations import READ
from koord.scheduler.auditor import AuditLimits as AuditLimits
from koord.scheduler.core.core import Core
from koord.scheduler.live.announcing import Announcing
from koord.scheduler.live.auditing import Auditing, AuditMetrics
from koord.scheduler.live.diagnosis import Inspection
from koord.scheduler.live.dividing import Division, until_one_division
from koord.scheduler.live.loop import Loop
from koord.scheduler.live.metrics import SchedulerMetrics
from koord.scheduler.live.noticing import UnderNotice
from koord.scheduler.live.onlooker import Onlooker
from koord.scheduler.live.sources import OPTIONAL, Sources, moment, together
from koord.scheduler.live.telling import Telling
from koord.scheduler.own_plugins import OwnPlugin
from koord.scheduler.profiles import profiles_of
from koord.scheduler.shards import Shard

log = logging.getLogger(__name__)

CONTROLLER: Final = "koord-scheduler"
MOST_EVENTS: Final = 1 << 14
EVENTS_AT_ONCE: Final = 8
"""As many as it takes for events to keep up with bindings."""
ASK_AGAIN_S: Final = 5.0
"""Whether a kind is served that was not."""
ASK_SOON_S: Final = 0.5
SETTLING_S: Final = 60.0
"""While a cluster is set up, CRDs come soon after the scheduler, which cannot use objects of unserved kinds."""


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    elect: bool = False
    "Work only while holding the lease that the configuration names."
    alone: bool = False
    "No other scheduler runs: pods that name none are scheduled by this one."
    shard: Shard | None = None
    "Its part of a cluster that several schedulers share."
    reload: Callable[[], SchedulerConfiguration] | None = None
    "Reads the configuration again; None: it is never reloaded."
    plugins: tuple[OwnPlugin, ...] = ()
    "The user's own, for every profile."
    gates: Mapping[SchedulerGate, bool] = field(default_factory=dict)
    "Feature gates that differ from their defaults, and any others."
    inspection: Inspection | None = None
    "How users inspect the running scheduler."
    in_force: Callable[[SchedulerConfiguration], None] = lambda config: None
    "Called with every configuration that takes effect."
    audit: AuditLimits | None = None
    "Limits for alerts on pods whose scheduling goes badly. None: no alerts."
    seed: int = 0


async def run(
    client: Client,
    config: SchedulerConfiguration,
    *,
    options: SchedulerOptions | None = None,
    clock: Clock | None = None,
    metrics: Metrics | None = None,
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Schedules until cancelled. `on_ready` is called when it has a picture of the cluster, leading or not."""
    runner = Runner(
        client, config, options or SchedulerOptions(), clock or SystemClock(), metrics or Metrics(process=False)
    )
    await runner.run(on_ready or (lambda: None))


class Runner:
    """One running scheduler."""

    def __init__(
        self, client: Client, config: SchedulerConfiguration, options: SchedulerOptions, clock: Clock, metrics: Metrics
    ) -> None:
        self._client, self._options, self._clock = client, options, clock
        self._config, self._metrics = config, SchedulerMetrics(metrics)
        self._audited = AuditMetrics(metrics) if options.audit is not None else None
        self._failures = FailureTeller(metrics)
        self._shield = Shield(self._failures)
        self._ready = asyncio.Event()
        self._under = UnderNotice()
        self._loop: Loop | None = None
        self._disconnect: Callable[[], None] = lambda: None
        self.core: Core | None = None
        if options.inspection is not None:
            options.inspection.look_at(lambda: self.core, lambda: self._loop is not None)

    async def run(self, on_ready: Callable[[], None]) -> None:
        metrics = self._metrics.metrics
        async with AsyncExitStack() as stack:
            informers = await stack.enter_async_context(Informers(self._client, clock=self._clock))
            self._sources = Sources(informers, self._clock)
            missing = [kind for kind in OPTIONAL if not await is_served(self._client, kind)]
            for kind in OPTIONAL:
                if kind not in missing:
                    self._sources.add(kind)
            self._events = await stack.enter_async_context(
                EventRecorder(
                    self._client,
                    controller=CONTROLLER,
                    limits=EventLimits(max_series=MOST_EVENTS),
                    observer=metrics.events(),
                    clock=self._clock,
                    at_once=EVENTS_AT_ONCE,
                )
            )
            for informer in informers:
                metrics.follow(informer)
            # Everything first, so that no decision is made on half of the picture.
            await informers.synced(freeze=True)
            self._require_order(self._config)
            self._take_over(self._config)
            self._sources.pods.add_handler(self._under.hear)
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            if self._options.reload is not None:
                tasks.create_task(self._keep_up(self._options.reload), name="configuration")
            tasks.create_task(self._schedule(), name="scheduling")
            for kind in missing:
                log.info("%s are not served here: decisions are made without them until they are", kind.plural)
                tasks.create_task(self._await(kind), name=kind.plural)
            log.info(
                "scheduling", extra={"profiles": ", ".join(profile.scheduler_name for profile in self._config.profiles)}
            )
            on_ready()

    async def _schedule(self) -> None:
        wanted, elect = self._config.leader_election, self._options.elect
        if (shard := self._options.shard) is not None:
            # Each shard has a leader of its own.
            wanted = replace(wanted, resource_name=f"{wanted.resource_name}-{shard}")
        await run_elected(self._client, self._lead, wanted, elect=elect, metrics=self._metrics.metrics)

    async def _lead(self, client: Client, identity: str) -> None:
        """Decides until cancelled, by one configuration after the other."""
        if self._options.elect:
            wanted = self._config.leader_election
            division = Division(wanted.resource_name, self._options.shard)
            await until_one_division(client, wanted.resource_namespace, division, self._clock)
        telling = Telling(client, self._events, self._clock)
        namespace = self._config.leader_election.resource_namespace
        announcing = Announcing(client, namespace, identity, self._scheduler_names, self._clock)
        # What takes time for each pod there is has been done by the standby, or is done beside the first decisions.
        forget = together(self._sources.pods.add_handler(telling.pod, replay=False), self._sources.stop_telling)
        self._failures.events = self._events
        audit = None
        if self._audited is not None and self._options.audit is not None:
            audit = Auditing(self._audited, self._clock, self._options.audit)
            audit.core = self.core
            forget = together(forget, self._sources.pods.add_handler(audit.pod))
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(telling.run(), name="telling")
                tasks.create_task(announcing.run(), name="announcing")
                malformed = self._sources.tell_malformed(MalformedTeller(self._events, READ))
                tasks.create_task(malformed, name="malformed objects")
                if self._options.inspection is not None:
                    self._options.inspection.pending = telling.pending.listed
                    tasks.create_task(self._options.inspection.run(), name="diagnoses")
                while True:
                    assert self.core is not None
                    self._loop = Loop(
                        client,
                        self.core,
                        self._clock,
                        telling,
                        self._metrics,
                        self._ready,
                        self._sources.pods.get,
                        audit,
                        self._under,
                        self._options.shard,
                    )
                    await self._loop.run()
                    self._take_over(self._config)
        finally:
            self._loop = self._failures.events = None
            forget()

    def _scheduler_names(self) -> list[str]:
        """The names that pods may give to be scheduled here."""
        names = [profile.scheduler_name for profile in self._config.profiles]
        if (shard := self._options.shard) is not None and shard.number > 1:
            # The first shard announces the names that pods give.
            return [f"{name}-{shard}" for name in names]
        return [*names, SCHEDULER_DEFAULT] if self._options.alone and SCHEDULER_DEFAULT not in names else names

    async def _keep_up(self, read: Callable[[], SchedulerConfiguration]) -> None:
        async for config in changes(read, self._config, self._clock, "scheduler"):
            try:
                profiles_of(config, self._options.plugins, self._options.gates)
                self._require_order(config)
            except BadInput as error:
                log.error("the configuration stays unchanged: %s", error)
                continue
            log.info("the configuration has changed, and takes effect")
            self._config = config
            self._options.in_force(config)
            if self._loop is not None:
                self._loop.stop()
            else:
                self._take_over(config)

    async def _await(self, kind: Kind[Any]) -> None:
        """CRDs may be installed after the scheduler starts. Their objects then go to the core in use at that time."""
        began_s = self._clock.monotonic()
        while not await self._is_served(kind):
            is_new = self._clock.monotonic() - began_s < SETTLING_S
            await self._clock.sleep(ASK_SOON_S if is_new else ASK_AGAIN_S)
        self._sources.add(kind)
        assert self.core is not None
        self._disconnect = together(self._disconnect, self._sources.connect_added(kind, self.core))

    async def _is_served(self, kind: Kind[Any]) -> bool:
        try:
            return await is_served(self._client, kind)
        except ApiError:
            return False

    def _require_order(self, config: SchedulerConfiguration) -> None:
        """Up to where pods are placed must lie below where agents act. What people set otherwise is refused."""
        findings = of_nodes(self._sources.node_metas(), load_limits(config), self._sources.slo_specs())
        if findings.faults:
            raise Invalid("thresholds of usage", findings.faults)
        for warning in findings.warnings:
            log.warning(warning)

    def _take_over(self, config: SchedulerConfiguration) -> None:
        """A state for a configuration, fed from the informers. Placements that informers have not seen yet are kept."""
        before = self.core
        self._disconnect()
        profiles = profiles_of(config, self._options.plugins, self._options.gates)
        for warning in profiles.warnings:
            log.warning(warning)
        self.core = Core(
            profiles,
            seed=self._options.seed,
            alone=self._options.alone,
            shard=self._options.shard,
            now=moment(self._clock),
            observer=Onlooker(
                self._clock, self._metrics.spent, self._options.inspection, self._metrics.looked_for_victims
            ),
            wake=self._ready.set,
            queued=self._metrics.queued,
            shield=self._shield,
        )
        self.core.cluster.ticks = self._clock.monotonic
        if before is not None:
            self.core.take_over(before)
        self._disconnect = self._sources.connect(self.core)
        self._ready.set()
