"""The scheduler: informers, decisions and bindings put together, until cancelled.

    async with Client.from_config() as client:
        await run(client, config)

It decides as long as somebody is ready and the API server keeps up, and gives way to what informers hear in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from koord.api import kinds
from koord.api.kinds import Kind
from koord.api.pod import Pod
from koord.api.scheduler_config import SchedulerConfiguration
from koord.kube.client import Client
from koord.kube.clock import Clock, SystemClock
from koord.kube.errors import NotFound
from koord.kube.events import EventRecorder
from koord.kube.informers import Informers
from koord.kube.leader import LeaderElection, run_as_leader
from koord.kube.store import Delta
from koord.scheduler.framework.engine import Engine
from koord.scheduler.live.binding import Bindings
from koord.scheduler.live.cycle import Bind, Broken, Cycle, Nowhere
from koord.scheduler.live.feed import Feed
from koord.scheduler.live.telling import Telling
from koord.scheduler.profiles import profiles_of
from koord.scheduler.state.cluster import Cluster

log = logging.getLogger(__name__)

LEASE: Final = "koord-scheduler"
BETWEEN_BREATHS: Final = 16
"""After so many decisions in a row, whoever else has something to do is let through."""
LONGEST_REST_S: Final = 1.0

_STORAGE: Final[tuple[Kind[Any], ...]] = (
    kinds.PERSISTENT_VOLUME_CLAIMS,
    kinds.PERSISTENT_VOLUMES,
    kinds.STORAGE_CLASSES,
    kinds.CSI_NODES,
    kinds.CSI_DRIVERS,
    kinds.CSI_STORAGE_CAPACITIES,
)


@dataclass(frozen=True, slots=True)
class Options:
    elect: bool = False
    namespace: str = "kube-system"
    "Where the lease is."
    seed: int = 0


async def run(
    client: Client,
    config: SchedulerConfiguration,
    *,
    options: Options | None = None,
    clock: Clock | None = None,
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Schedules until cancelled. `on_ready` is called when it has a picture of the cluster."""
    chosen = options or Options()
    if not chosen.elect:
        await _run(client, config, chosen, clock or SystemClock(), on_ready)
        return

    async def work(leader: LeaderElection) -> None:
        await _run(leader.client, config, chosen, clock or SystemClock(), on_ready)

    await run_as_leader(client, work, name=LEASE, namespace=chosen.namespace)


async def _run(
    client: Client,
    config: SchedulerConfiguration,
    options: Options,
    clock: Clock,
    on_ready: Callable[[], None] | None,
) -> None:
    profiles = profiles_of(config)
    for warning in profiles.warnings:
        log.warning(warning)
    cluster = Cluster(options.seed)
    cluster.now_s = clock.now()
    engines = {name: Engine(cluster, profile) for name, profile in profiles.profiles.items()}
    ready = asyncio.Event()
    async with (
        EventRecorder(client, controller=LEASE, clock=clock) as events,
        Informers(client, clock=clock) as informers,
        asyncio.TaskGroup() as tasks,
    ):
        pods = informers.get(kinds.PODS, indexes={"node": _node_of})
        feed = Feed(
            cluster,
            profiles.queue(),
            engines,
            profiles.plugins(),
            now=clock.now,
            pods_of=lambda node: pods.by_index("node", node),
            wake=ready.set,
        )
        _listen(informers, feed)
        if await _is_served(client, kinds.NODE_METRICS):
            informers.get(kinds.NODE_METRICS).add_handler(feed.node_metric)
        telling = Telling(client, events, clock)
        # Nodes, claims and the rest first, so that no decision is made on half of the picture.
        await informers.synced()
        informers.get(kinds.PODS).add_handler(feed.pod)
        await informers.synced()
        tasks.create_task(telling.run(), name="telling")
        scheduler = Scheduler(client, feed, telling, clock, ready)
        tasks.create_task(scheduler.run(), name="scheduling")
        if on_ready is not None:
            on_ready()


def _listen(informers: Informers, feed: Feed) -> None:
    cluster = feed.cluster
    informers.get(kinds.NODES).add_handler(feed.node)
    informers.get(kinds.NAMESPACES).add_handler(
        lambda delta: cluster.put_namespace(delta.new) if delta.new is not None else cluster.remove_namespace(delta.key)
    )
    informers.get(kinds.SERVICES).add_handler(
        lambda delta: (
            cluster.put_service(delta.new)
            if delta.new is not None
            else cluster.remove_service(*delta.key.split("/", 1))
        )
    )

    def workload(delta: Delta[Any]) -> None:
        if delta.new is not None:
            cluster.put_workload(delta.new)
        elif delta.old is not None:
            cluster.remove_workload(delta.old)

    for kind in (kinds.REPLICA_SETS, kinds.STATEFUL_SETS, kinds.REPLICATION_CONTROLLERS):
        informers.get(kind).add_handler(workload)
    for storage in _STORAGE:
        informers.get(storage).add_handler(feed.storage)


async def _is_served(client: Client, kind: Kind[Any]) -> bool:
    try:
        await client.list(kind, limit=1)
    except NotFound:
        log.info("%s are not served here: decisions are made without them", kind.resource)
        return False
    return True


def _node_of(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


class Scheduler:
    """The loop. `ready` is set by whoever has something new for it."""

    def __init__(self, client: Client, feed: Feed, telling: Telling, clock: Clock, ready: asyncio.Event) -> None:
        self._feed, self._telling, self._clock, self._ready = feed, telling, clock, ready
        self._cycle = Cycle(feed)
        self._bindings = Bindings(client, feed, clock, told=self._told, wake=ready.set)

    async def run(self) -> None:
        """Decides until cancelled; what is being bound then is let through."""
        try:
            while True:
                await self._decide()
                await self._rest()
        finally:
            await self._bindings.finish()

    async def _decide(self) -> None:
        """As long as somebody is ready."""
        decided = 0
        while not self._bindings.is_full:
            decision = self._cycle.step(self._clock.now())
            if decision is None:
                return
            if isinstance(decision, Bind):
                self._bindings.start(decision)
            elif isinstance(decision, Nowhere):
                self._telling.nowhere(decision)
            elif isinstance(decision, Broken):
                self._telling.broken(decision)
            self._bindings.look_after_waiting()
            decided += 1
            if decided % BETWEEN_BREATHS == 0:
                await asyncio.sleep(0)

    async def _rest(self) -> None:
        """Until something happens, or time alone makes somebody ready."""
        self._bindings.look_after_waiting()
        change_s = self._feed.queue.next_change_s()
        rest_s = LONGEST_REST_S if change_s is None else min(LONGEST_REST_S, max(0.0, change_s - self._clock.now()))
        self._ready.clear()
        try:
            async with asyncio.timeout(rest_s):
                await self._ready.wait()
        except TimeoutError:
            pass

    def _told(self, bind: Bind, outcome: str) -> None:
        if outcome == "bound":
            self._telling.bound(bind)
        elif outcome == "failed":
            self._telling.not_bound(bind, "the API server did not take it")
        else:
            self._telling.forget(bind.ask.meta.uid)
