"""The descheduler: informers, rounds, arbitration and moves put together, until cancelled.

    async with Client.from_config() as client:
        await run(client, config)

Every replica hears everything; only the leader decides and writes, with a client that is fenced by its lease. Moves
that another process began are gone on with: all that is known of them is in their jobs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from koord.api.configuration.component_config import PluginConfig
from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.configuration.descheduler_config import DeschedulerConfiguration, DeschedulerProfile
from koord.api.configuration.features import DeschedulerGate
from koord.api.configuration.scheduler_config import SHIPPED as SHIPPED_SCHEDULER
from koord.api.configuration.scheduler_config import SchedulerConfiguration
from koord.api.kinds import LEASES, Kind
from koord.api.machinery.faults import BadInput, Invalid
from koord.api.machinery.shield import Shield
from koord.api.protocol.annotations.load import JOB_PROFILE
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.api.protocol.names import OWN_ANNOTATION_SETTINGS_IN_FORCE, SCHEDULER_DEFAULT
from koord.descheduler.annotations import READ
from koord.descheduler.compiled import MIGRATION, Compiled, compiled
from koord.descheduler.live.agents import Agents
from koord.descheduler.live.arbitrating import Arbitrating
from koord.descheduler.live.metrics import DeschedulerMetrics
from koord.descheduler.live.migrating import Migrating
from koord.descheduler.live.pace import Pace
from koord.descheduler.live.picture import OTHERS, REQUIRED, Picture
from koord.descheduler.live.rounds import Rounds
from koord.descheduler.live.scales import Scales
from koord.descheduler.live.tidying import Tidying
from koord.descheduler.plugin import Plugin
from koord.descheduler.rules import Rules
from koord.descheduler.settings_in_force import written
from koord.kube.client import Client
from koord.kube.clock import Clock, SystemClock
from koord.kube.errors import ApiError
from koord.kube.events import EventRecorder
from koord.kube.informers import Informers
from koord.kube.leader import run_elected
from koord.kube.malformed import FailureTeller, MalformedTeller
from koord.kube.metrics import Metrics
from koord.kube.reload import changes
from koord.kube.served import asked_until_told, until_served

log = logging.getLogger(__name__)

CONTROLLER: Final = "koord-descheduler"
PUBLISH_AGAIN_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class DeschedulerOptions:
    elect: bool = False
    "Work only while holding the lease that the configuration names."
    dry_run: bool = False
    "Rounds only say what they would move, whatever the configuration says."
    alone: bool = False
    "No other scheduler is there: pods that name none are koord's."
    reload: Callable[[], DeschedulerConfiguration] | None = None
    "Reads the configuration again; None if it never changes."
    gates: Mapping[DeschedulerGate, bool] = field(default_factory=dict)
    scheduler: SchedulerConfiguration = SHIPPED_SCHEDULER
    "By whose rules a place for a pod is looked for."
    plugins: tuple[type[Plugin], ...] = ()
    "The user's own, for every profile."
    in_force: Callable[[DeschedulerConfiguration], None] = lambda config: None
    "Called with every configuration that is gone by from then on."


async def run(
    client: Client,
    config: DeschedulerConfiguration,
    *,
    options: DeschedulerOptions | None = None,
    clock: Clock | None = None,
    metrics: Metrics | None = None,
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Deschedules until cancelled. `on_ready` is called when it has a picture of the cluster, leading or not."""
    runner = Runner(
        client, config, options or DeschedulerOptions(), clock or SystemClock(), metrics or Metrics(process=False)
    )
    await runner.run(on_ready or (lambda: None))


class Runner:
    """One running descheduler."""

    def __init__(
        self,
        client: Client,
        config: DeschedulerConfiguration,
        options: DeschedulerOptions,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._client, self._options, self._clock, self._given = client, options, clock, config
        self._metrics = DeschedulerMetrics(metrics)
        self._failures = FailureTeller(metrics)
        self._shield = Shield(self._failures)
        self._ready = self._as_told(config)
        self._changed, self._unpublished = asyncio.Event(), asyncio.Event()
        self._agents = Agents(client, clock)

    async def run(self, on_ready: Callable[[], None]) -> None:
        metrics = self._metrics.metrics
        async with AsyncExitStack() as stack:
            await until_served(self._client, REQUIRED, self._clock)
            await self._agents.look()
            self._require_no_fight(self._ready.config)
            informers = await stack.enter_async_context(Informers(self._client, clock=self._clock))
            picture = Picture(
                informers, self._clock, self._options.scheduler, alone=self._options.alone, shield=self._shield
            )
            missing = [kind for kind in OTHERS if not await asked_until_told(self._client, kind, self._clock)]
            for kind in OTHERS:
                if kind not in missing:
                    picture.serve(kind)
            for informer in informers:
                metrics.follow(informer)
            # Everything first, so that no decision is made on half of the picture.
            await informers.synced(freeze=True)
            picture.connect()
            self._metrics.follow(picture.jobs.list, self._clock.now)
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            if self._options.reload is not None:
                tasks.create_task(self._keep_up(self._options.reload), name="configuration")
            for kind in missing:
                log.info("%s are not served here: decisions are made without them until they are", kind.plural)
                tasks.create_task(self._await(kind, picture), name=kind.plural)
            tasks.create_task(self._work(picture), name="descheduling")
            config = self._ready.config
            log.info(
                "descheduling",
                extra={
                    "profiles": ", ".join(profile.name for profile in config.profiles),
                    "interval": config.descheduling_interval,
                    "dry_run": config.dry_run,
                },
            )
            on_ready()

    async def _work(self, picture: Picture) -> None:
        async def lead(client: Client, identity: str) -> None:
            await self._lead(client, identity, picture)

        wanted, elect = self._given.leader_election, self._options.elect
        await run_elected(self._client, lead, wanted, elect=elect, metrics=self._metrics.metrics)

    async def _lead(self, client: Client, identity: str, picture: Picture) -> None:
        """Decides and writes until cancelled."""
        pace, metrics, clock = Pace(), self._metrics, self._clock
        scales = Scales(client, clock)
        claims = not self._options.gates.get(DeschedulerGate.DISABLE_PVC_RESERVATION, False)
        async with (
            EventRecorder(client, controller=CONTROLLER, observer=metrics.metrics.events(), clock=clock) as events,
            AsyncExitStack() as stack,
            asyncio.TaskGroup() as tasks,
        ):
            stack.callback(picture.tell_malformed(MalformedTeller(events, READ)))
            stack.callback(self._tell_failures(events))
            workers = max(profile.rules.args.max_concurrent_reconciles for profile in self._ready.profiles)
            migrating = Migrating(
                client,
                picture,
                self._rules,
                pace,
                events,
                metrics,
                clock,
                claims=claims,
                workers=workers,
                elected=self._options.elect,
            )
            arbitrating = Arbitrating(
                client, picture, self._rules, lambda: self._ready.arbitration_s, scales, events, metrics, clock
            )
            rounds = Rounds(
                client,
                picture,
                lambda: self._ready,
                pace,
                scales,
                events,
                metrics,
                clock,
                self._changed,
                self._agents,
                identity=identity,
            )
            tasks.create_task(migrating.run(), name="migrating")
            tasks.create_task(arbitrating.run(), name="arbitrating")
            tasks.create_task(Tidying(client, picture, self._args, clock).run(), name="tidying")
            tasks.create_task(rounds.run(), name="rounds")
            if self._options.elect:
                tasks.create_task(self._publish(client, identity), name="settings")

    async def _publish(self, client: Client, identity: str) -> None:
        """Writes the settings in force on the lease, whenever they change."""
        election = self._given.leader_election
        while True:
            self._unpublished.clear()
            patch = {
                "metadata": {"annotations": {OWN_ANNOTATION_SETTINGS_IN_FORCE: written(self._ready.config, identity)}}
            }
            try:
                await client.patch(LEASES, election.resource_name, patch, namespace=election.resource_namespace)
            except ApiError as error:
                log.warning("the settings could not be written on the lease: %s", error)
                await self._clock.sleep(PUBLISH_AGAIN_S)
                continue
            await self._unpublished.wait()

    def _tell_failures(self, events: EventRecorder) -> Callable[[], None]:
        """On objects, from now on; returns what ends it."""
        self._failures.events = events

        def end() -> None:
            self._failures.events = None

        return end

    async def _keep_up(self, read: Callable[[], DeschedulerConfiguration]) -> None:
        async for config in changes(read, self._given, self._clock, "descheduler"):
            try:
                await self._agents.look()
                ready = self._as_told(config)
                self._require_no_fight(ready.config)
                self._ready = ready
                self._options.in_force(ready.config)
            except BadInput as error:
                log.error("the configuration is left as it was: %s", error)
                continue
            log.info("the configuration has changed, and takes effect")
            self._changed.set()
            self._unpublished.set()

    async def _await(self, kind: Kind[Any], picture: Picture) -> None:
        """Definitions may come after the descheduler."""
        await until_served(self._client, (kind,), self._clock)
        picture.serve_late(kind)

    def _require_no_fight(self, config: DeschedulerConfiguration) -> None:
        faults = self._agents.faults(config)
        if faults:
            raise Invalid("thresholds of usage", faults)

    def _rules(self, job: PodMigrationJob) -> Rules:
        return self._ready.rules_of(JOB_PROFILE.read(job.metadata, "PodMigrationJob"))

    def _args(self, job: PodMigrationJob) -> MigrationControllerArgs:
        return self._rules(job).args

    def _as_told(self, config: DeschedulerConfiguration) -> Compiled:
        """A configuration, with what the command line says instead."""
        if self._options.dry_run:
            config = replace(config, dry_run=True)
        if self._options.alone:
            config = replace(config, profiles=tuple(map(_for_pods_of_no_scheduler, config.profiles)))
        return compiled(config, self._options.plugins)


def _for_pods_of_no_scheduler(profile: DeschedulerProfile) -> DeschedulerProfile:
    """A profile that also moves pods that name no scheduler."""
    args = profile.args_of(MIGRATION, MigrationControllerArgs)
    if SCHEDULER_DEFAULT in args.scheduler_names:
        return profile
    wider = PluginConfig(MIGRATION, replace(args, scheduler_names=(*args.scheduler_names, SCHEDULER_DEFAULT)))
    others = tuple(config for config in profile.plugin_config if config.name != MIGRATION)
    return replace(profile, plugin_config=(*others, wider))
