"""An overview of a running cluster: nodes, pods by phase, the last events.

Informers keep it up to date, with one small row per object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import msgspec

from koord.api.kinds import EVENTS, NODE_METRICS, NODES, PODS
from koord.api.kubernetes.core import Event
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import PodStatus
from koord.api.machinery.codec import decode
from koord.api.machinery.struct import Struct
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.kube.client import Client
from koord.kube.informers import Informers
from koord.kube.store import Delta, Identity
from koord.operate.bands import Bands, Room, Used, room_of, used_of

RECENT: Final = 30
"""As many as a tall terminal can show."""


class _PodHead(Struct):
    metadata: ObjectMeta = ObjectMeta()
    status: PodStatus = PodStatus()


class Row(msgspec.Struct, frozen=True, gc=False):
    """The part of an object that is counted."""

    identity: Identity
    state: str = ""
    room: Room | None = None
    used: Used | None = None


@dataclass(slots=True)
class Picture:
    nodes: Counter[str] = field(default_factory=Counter)
    pods: Counter[str] = field(default_factory=Counter)
    events: dict[str, Event] = field(default_factory=dict)
    bands: Bands = field(default_factory=Bands)
    rooms: dict[str, Room] = field(default_factory=dict)
    used: dict[str, Used] = field(default_factory=dict)

    def look(self) -> None:
        """Lets a moment pass: the course of usage goes on by one."""
        self.bands.look(self.rooms.values(), self.used.values())

    def recent(self, most: int = RECENT) -> list[Event]:
        """The last events, the newest first."""
        return sorted(self.events.values(), key=event_time, reverse=True)[: min(most, RECENT)]

    def _count(self, counts: Counter[str], delta: Delta[Row]) -> None:
        if delta.old is not None:
            counts[delta.old.state] -= 1
        if delta.new is not None:
            counts[delta.new.state] += 1

    def _hear_node(self, delta: Delta[Row]) -> None:
        self._count(self.nodes, delta)
        if delta.new is not None and delta.new.room is not None:
            self.rooms[delta.key] = delta.new.room
        else:
            self.rooms.pop(delta.key, None)

    def _hear_metric(self, delta: Delta[Row]) -> None:
        if delta.new is not None and delta.new.used is not None:
            self.used[delta.key] = delta.new.used
        else:
            self.used.pop(delta.key, None)

    def _hear_pod(self, delta: Delta[Row]) -> None:
        self._count(self.pods, delta)

    def _hear_event(self, delta: Delta[Event]) -> None:
        if delta.new is None:
            self.events.pop(delta.key, None)
            return
        self.events[delta.key] = delta.new
        if len(self.events) > 4 * RECENT:
            kept = sorted(self.events.items(), key=lambda item: event_time(item[1]))[-2 * RECENT :]
            self.events = dict(kept)


def event_time(event: Event) -> str:
    """When it was last seen. Times of both kinds of writers order as text."""
    series = event.series.last_observed_time if event.series is not None else None
    return series or event.event_time or event.deprecated_last_timestamp or event.metadata.creation_timestamp or ""


@asynccontextmanager
async def followed(
    client: Client, more: Callable[[Informers], None] = lambda informers: None
) -> AsyncIterator[Picture]:
    """A picture that stays current while the block runs. `more` may listen to the same informers, and to others."""
    picture = Picture()
    informers = Informers(client)
    informers.get(NODES, transform=_node_row, identity=_identity).add_handler(picture._hear_node)
    informers.get(PODS, transform=_pod_row, identity=_identity).add_handler(picture._hear_pod)
    informers.get(EVENTS).add_handler(picture._hear_event)
    informers.get(NODE_METRICS, transform=_metric_row, identity=_identity).add_handler(picture._hear_metric)
    more(informers)
    async with informers:
        yield picture


def _identity(row: Row) -> Identity:
    return row.identity


def _node_row(raw: msgspec.Raw) -> Row:
    node = decode(Node, memoryview(raw))
    ready = node.status.condition("Ready")
    state = "Ready" if ready is not None and ready.status == "True" else "NotReady"
    return Row(_id(node.metadata), f"{state},cordoned" if node.spec.unschedulable else state, room=room_of(node))


def _metric_row(raw: msgspec.Raw) -> Row:
    metric = decode(NodeMetric, memoryview(raw))
    return Row(_id(metric.metadata), used=used_of(metric))


def _pod_row(raw: msgspec.Raw) -> Row:
    pod = decode(_PodHead, memoryview(raw))
    return Row(_id(pod.metadata), "Terminating" if pod.metadata.deletion_timestamp else str(pod.status.phase))


def _id(metadata: ObjectMeta) -> Identity:
    return metadata.key, metadata.uid, metadata.resource_version
