"""Records the course of the story: informers for pods and events, and a sample every two seconds.

CPU that pods want and do not get comes from the nodes' Prometheus metrics; everything else comes from the API.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
import msgspec
from prometheus_client.samples import Sample

from koord.api.kinds import EVENTS, PODS
from koord.api.kubernetes.core import Event
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import pod_requests
from koord.api.kubernetes.words import PodPhase
from koord.api.machinery.codec import decode
from koord.api.machinery.struct import EMPTY
from koord.api.protocol.names import RESOURCE_BATCH_CPU, RESOURCE_GPU, RESOURCE_GPU_MEMORY_RATIO
from koord.api.text.timestamp import TimestampError, parse_timestamp
from koord.kube.client import Client
from koord.kube.informers import Informers
from koord.kube.store import Delta, Identity
from koord_minicluster.demo.ledger import ClusterSample, Ledger, PodSeen
from koord_minicluster.demo.scenario import Scenario
from koord_minicluster.demo.settings import hot_node
from koord_minicluster.hollow.live.guard import ASKED
from koord_minicluster.up.picture import Picture, event_time, followed
from koord_minicluster.up.run import Up
from koord_minicluster.up.this_node import Scraper, ThisNode

LOOK_S: Final = 2.0


class _Row(msgspec.Struct, frozen=True, gc=False):
    identity: Identity
    seen: PodSeen


class Watching:
    """A ledger that is kept, and the picture beside it."""

    def __init__(self, up: Up, scenario: Scenario, ledger: Ledger, picture: Picture, scraper: Scraper) -> None:
        self.ledger, self.picture, self.scenario = ledger, picture, scenario
        self._up, self._scraper, self._hot = up, scraper, hot_node(scenario)
        self.here = ThisNode()
        "This machine as a node, if it is one."

    async def look(self) -> None:
        """Takes the moment down."""
        asked = _asked(await self._scrape("hollow"))
        picture, ledger = self.picture, self.ledger
        if self.scenario.local:
            self.here.look(await self._scrape("local"), await self._scrape("agent"))
            if self.here.used is not None:
                picture.used[self.scenario.local.name] = self.here.used
        picture.look()
        ready, services = ledger.services()
        hot, room = picture.used.get(self._hot), picture.rooms.get(self._hot)
        ledger.looks.append(
            ClusterSample(
                time_s=time.time(),
                capacity=picture.bands.room.cpu_milli,
                used=dict(picture.bands.used),
                lent=picture.bands.room.lent_milli,
                held_back=asked.get(("best-effort", "wanted"), 0) - asked.get(("best-effort", "used"), 0),
                services_short=asked.get(("service", "wanted"), 0) - asked.get(("service", "used"), 0),
                services_ready=ready,
                services=services,
                hot_percent=100 * sum(hot.cpu_milli.values()) / room.cpu_milli if hot and room else 0.0,
            )
        )

    async def _scrape(self, component: str) -> list[Sample]:
        child = self._up.supervisor.children.get(component)
        return await self._scraper.scrape(child.endpoints.get("health") if child is not None else None)


@asynccontextmanager
async def watching(up: Up, client: Client, scenario: Scenario, ledger: Ledger) -> AsyncIterator[Watching]:
    ledger.began_s = time.time()

    def more(informers: Informers) -> None:
        informers.get(PODS, transform=_row, identity=_identity).add_handler(hear_pod)
        informers.get(EVENTS).add_handler(hear_event)

    def hear_pod(delta: Delta[_Row]) -> None:
        old, new = delta.old, delta.new
        ledger.hear_pod(delta.key, old.seen if old is not None else None, new.seen if new is not None else None)

    def hear_event(delta: Delta[Event]) -> None:
        if delta.old is None and delta.new is not None and _is_new(delta.new, ledger.began_s):
            ledger.hear_event(delta.new.reason)

    async with followed(client, more) as picture, aiohttp.ClientSession() as session:
        yield Watching(up, scenario, ledger, picture, Scraper(client, session, time.monotonic))


def _is_new(event: Event, began_s: float) -> bool:
    """What happened before is another run's."""
    try:
        return parse_timestamp(event_time(event)) >= began_s
    except TimestampError:
        return False


def _asked(samples: Iterable[Sample]) -> dict[tuple[str, str], int]:
    return {
        (sample.labels["band"], sample.labels["what"]): int(sample.value) for sample in samples if sample.name == ASKED
    }


def _identity(row: _Row) -> Identity:
    return row.identity


def _row(raw: msgspec.Raw) -> _Row:
    pod = decode(Pod, memoryview(raw))
    meta, status = pod.metadata, pod.status
    requests = pod_requests(pod, capped=True) if pod.spec.containers else EMPTY
    ready = any(condition.type == "Ready" and condition.status == "True" for condition in status.conditions)
    going = meta.deletion_timestamp is not None and status.phase not in (PodPhase.SUCCEEDED, PodPhase.FAILED)
    seen = PodSeen(
        namespace=meta.namespace,
        name=meta.name,
        state="Terminating" if going else str(status.phase),
        is_ready=ready,
        node=pod.spec.node_name,
        batch_milli=requests.get(RESOURCE_BATCH_CPU, 0),
        gpu_percent=requests.get(RESOURCE_GPU, 0) or requests.get(RESOURCE_GPU_MEMORY_RATIO, 0),
    )
    return _Row((meta.key, meta.uid, meta.resource_version), seen)
