"""Rounds, every deschedulingInterval: what sits badly is found, and a PodMigrationJob asks for each move.

In a dry run the moves are only reported: in the log, in metrics, and as events on the pods.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from koord.api.kinds import NODES, POD_MIGRATION_JOBS, PODS
from koord.api.kubernetes.pod_costs import DELETION_COST
from koord.descheduler.compiled import Compiled, ReadyProfile
from koord.descheduler.job_request import job_request, move_name
from koord.descheduler.live.agents import Agents
from koord.descheduler.live.metrics import DeschedulerMetrics
from koord.descheduler.live.pace import Pace
from koord.descheduler.live.picture import Picture
from koord.descheduler.live.scales import Scales
from koord.descheduler.plugin import Proposal
from koord.descheduler.round import Outcome, run
from koord.descheduler.sight import Sight
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.errors import AlreadyExists, ApiError
from koord.kube.events import EventRecorder, reference

log = logging.getLogger(__name__)


class Rounds:
    """`changed` is set when there is another configuration: the next round comes at once."""

    def __init__(
        self,
        client: Client,
        picture: Picture,
        ready: Callable[[], Compiled],
        pace: Pace,
        scales: Scales,
        events: EventRecorder,
        metrics: DeschedulerMetrics,
        clock: Clock,
        changed: asyncio.Event,
        agents: Agents,
        *,
        identity: str,
    ) -> None:
        self._client, self._picture, self._ready, self._pace = client, picture, ready, pace
        self._scales = scales
        self._events, self._metrics, self._clock, self._changed = events, metrics, clock, changed
        self._identity, self._agents = identity, agents
        self._fights = ""
        "The thresholds over which rounds are left out."
        self._memory: dict[tuple[str, str], Any] = {}
        self.last: Outcome | None = None

    async def run(self) -> None:
        while True:
            self._changed.clear()
            await self.round()
            # An interval of 0 is one round. Jobs are carried out nevertheless.
            try:
                async with asyncio.timeout(self._ready().interval_s or None):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def round(self) -> Outcome | None:
        ready = self._ready()
        if await self._would_fight(ready):
            return None
        with self._picture.shield.about("learn how large workloads of other kinds are"):
            self._picture.scales = await self._scales.of(self._picture.pods.list())
        began_s = self._clock.monotonic()
        try:
            sight = self._picture.sight()
            outcome = run(ready, sight, self._memory, shield=self._picture.shield)
        except Exception:  # filters and sorters of users: jobs that are under way go on nevertheless
            log.exception("a round failed; the next one comes in %s", ready.config.descheduling_interval)
            return None
        for plugin, error in outcome.failed:
            log.error("the plugin %s broke off; others go on", plugin, exc_info=error)
        self._memory, self.last = outcome.memory, outcome
        self._metrics.round(outcome, self._clock.monotonic() - began_s)
        if outcome.skipped:
            log.info("no round: %s", outcome.skipped)
        elif outcome.moves or outcome.held:
            log.info("a round", extra={"moves": len(outcome.moves), "held": len(outcome.held)})
        await self._carry_out(outcome, sight, dry=ready.config.dry_run)
        return outcome

    async def _would_fight(self, ready: Compiled) -> bool:
        """Agents may have new thresholds by now: a move that they would undo is not started."""
        await self._agents.look()
        fights = "; ".join(map(str, self._agents.faults(ready.config)))
        if fights and fights != self._fights:
            log.error("no rounds until the thresholds of usage are in order: %s", fights)
        self._fights = fights
        return bool(fights)

    async def _carry_out(self, outcome: Outcome, sight: Sight, *, dry: bool) -> None:
        if not dry:
            await self._write_costs(outcome)
            for node in outcome.cordons:
                await self._set_unschedulable(node, True)
        for proposal in outcome.moves:
            profile = outcome.asked_by[proposal.pod.metadata.key]
            with self._picture.shield.about("ask for its move", PODS, proposal.pod.metadata):
                if dry or profile.rules.args.dry_run:
                    self._tell(proposal)
                elif not await self._ask(proposal, profile, sight) and proposal.node in outcome.cordons:
                    await self._set_unschedulable(proposal.node, False)

    async def _write_costs(self, outcome: Outcome) -> None:
        for key, cost in outcome.deletion_costs.items():
            namespace, _, name = key.partition("/")
            patch = {"metadata": {"annotations": {DELETION_COST: str(cost)}}}
            await self._try(self._client.patch(PODS, name, patch, namespace=namespace), key)

    async def _set_unschedulable(self, node: str, closed: bool) -> None:
        await self._try(self._client.patch(NODES, node, {"spec": {"unschedulable": closed or None}}), node)

    async def _try(self, call: Awaitable[object], what: str) -> None:
        try:
            await call
        except ApiError as error:
            log.warning("cannot write what a round came to: %s", error, extra={"object": what})

    def _tell(self, proposal: Proposal) -> None:
        meta = proposal.pod.metadata
        where = f" to {proposal.to}" if proposal.to else ""
        log.info(
            "would move a pod (dry run)",
            extra={"pod": meta.key, "from": proposal.node, "to": proposal.to, "reason": proposal.reason},
        )
        note = f"{proposal.by} would move it from {proposal.node}{where}, but this is a dry run: {proposal.reason}"
        self._events.record(
            reference(PODS, proposal.pod), "WouldDeschedule", note, action="Migrating", theme=proposal.by
        )

    async def _ask(self, proposal: Proposal, profile: ReadyProfile, sight: Sight) -> bool:
        meta, args = proposal.pod.metadata, profile.rules.args
        wait_s = self._pace.wait_s(proposal.pod, args, sight.workloads.of(proposal.pod), self._clock.now())
        if wait_s > 0:
            log.info("a pod must wait: its workload moved others lately", extra={"pod": meta.key, "wait_s": wait_s})
            return False
        name = move_name(meta.uid, (job.metadata.name for job in self._picture.jobs.by_index("pods", meta.key)))
        wanted = job_request(proposal, args, name=name, created_by=self._identity, profile=profile.name)
        try:
            job = await self._client.create(POD_MIGRATION_JOBS, wanted)
        except AlreadyExists:
            log.info("another descheduler asked for the same move", extra={"pod": meta.key, "job": name})
            return True
        except ApiError as error:
            log.warning("cannot ask for a move: %s", error, extra={"pod": meta.key})
            return False
        self._picture.written(job)
        log.info("asked for a move", extra={"pod": meta.key, "job": job.metadata.name, "reason": proposal.reason})
        return True
