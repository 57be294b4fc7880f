"""More room for a reservation on its node: tried out there like a new reservation that keeps all that it holds.

    tried       in a transaction, without the reservation and its owners: amounts, CPUs, NUMA nodes, devices, quota
    held        the larger room counts from then on, though the object does not say so yet (`as_grown`)
    written     first its CPUs and devices, then, once that is heard, `status.allocatable`

Whoever is killed in between leaves a reservation that holds more than it reserves: the next one tries again, and where
there is no room any more, the reservation gives back what is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.resources import amounts
from koord.api.machinery.faults import BadInput
from koord.api.protocol.crd.reservation import Reservation
from koord.api.text.quantity import ResourceList
from koord.scheduler.framework.after_placing import merge, patch_of
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import One
from koord.scheduler.framework.exact import checks_of_more
from koord.scheduler.framework.verdicts import Part
from koord.scheduler.plugins.devices.grants import Granted
from koord.scheduler.plugins.devices.ledger import Devices
from koord.scheduler.plugins.devices.requests import wanted
from koord.scheduler.plugins.node_resources_fit import NodeResourcesFit
from koord.scheduler.plugins.numa.allocation import held_among
from koord.scheduler.plugins.numa.allocations import Allocations
from koord.scheduler.plugins.numa.facts import CPU
from koord.scheduler.plugins.reservation.giving_back import kept_of
from koord.scheduler.plugins.reservation.lifecycle import target_of
from koord.scheduler.plugins.reservation.reserve_pod import ENDED, reserve_pod
from koord.scheduler.plugins.reservation.room import Room
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import Amounts
from koord.scheduler.state.table import Row

if TYPE_CHECKING:
    from koord.scheduler.framework.engine import Engine

TAKING: Final = (NodeResourcesFit.name, Allocations.name, Devices.name)
"""Plugins that say what a pod takes of its node. What the others say is about pods that are yet to come there."""


class Growth(NamedTuple):
    """What a reservation has been given, and may not say yet."""

    target: Mapping[str, int]
    allocatable: ResourceList
    said: Mapping[str, str | None]
    "Its annotations; None: not any more."

    def is_said(self, meta: ObjectMeta) -> bool:
        return all(meta.annotations.get(key) == text for key, text in self.said.items())


def as_grown(reservation: Reservation, growth: Growth | None) -> Reservation:
    """A reservation with what it has been given, as long as that is what it asks for."""
    status, meta = reservation.status, reservation.metadata
    if growth is None or not status.node_name or status.phase in ENDED:
        return reservation
    target = target_of(reservation)
    if target is None or amounts(target) != growth.target:
        return reservation
    said = {key: text for key, text in {**meta.annotations, **growth.said}.items() if text is not None}
    return replace(
        reservation,
        metadata=replace(meta, annotations=said),
        status=replace(status, allocatable=growth.allocatable),
    )


def lacks(room: Room, requests: Amounts, annotations: Mapping[str, str]) -> bool:
    """Whether a reservation has fewer CPUs or devices of its own than it reserves."""
    record = room.record
    if record is None:
        return False
    held = next(iter(held_among([record])), None)
    if held is not None and held.cpus and held.cpus.bit_count() * 1000 < dict(requests).get(CPU, 0):
        return True
    granted = record.note(Devices.name)
    if not isinstance(granted, Granted):
        return False
    try:
        asks = wanted(requests, ObjectMeta(annotations=dict(annotations)))
    except BadInput:
        return False
    for request in () if asks is None else asks.requests:
        having = granted.of(request.type)
        short = (
            amount > dict(grant.amounts).get(name, amount) for grant in having for name, amount in request.per_device
        )
        if len(having) < request.count or any(short):
            return True
    return False


def grown(reservation: Reservation, target: ResourceList, room: Room, engine: Engine) -> Growth | str:
    """What a reservation has with other amounts, or why it cannot have them. It counts with that afterwards."""
    record, row, cluster = room.record, room.row, engine.cluster
    assert record is not None
    larger = replace(reservation, status=replace(reservation.status, allocatable=target))
    ask = Ask(reserve_pod(larger))
    having = kept_of(room, ask.requests, reservation.metadata.annotations, cluster)
    with cluster.transaction() as trial:
        for key in (record.key, *list(room.owners)):
            cluster.remove_pod(key)
        # A quota gives by what is asked for.
        cluster.expect(ask.record(cluster.now_s, cluster.noted(ask.pod, record, ask.template)))
        grown_parts = _tried(ask, row, engine, having)
        trial.undo()
    if isinstance(grown_parts, str):
        return grown_parts
    patch: dict[str, Any] = {}
    for part, note in grown_parts:
        if part.plugin.pre_bind is not None:
            merge(patch, patch_of(part.plugin.pre_bind(ask, row, cluster, note)), part.plugin.name)
    growth = Growth(amounts(target), target, patch.get("metadata", {}).get("annotations", {}))
    _count(as_grown(reservation, growth), row, cluster)
    return growth


def _tried(ask: Ask, row: Row, engine: Engine, having: Mapping[str, object]) -> list[tuple[Part, object]] | str:
    """What each plugin gives, on a row without the reservation; or why one of them gives nothing."""
    refused = engine.refusal(ask)
    if refused is not None:
        return refused[1]
    parts = [part for part in engine.judged_alone(ask).parts if part.plugin.name in TAKING]
    cells = One(engine.cluster.table.columns, row)
    for part in parts:
        judge = part.judge
        if judge.refused is not None:
            return judge.refused
        mask = int(judge.feasible(cells)) if judge.filters_on else 0
        if mask:
            return ", ".join(judge.reasons(mask))
    exact = [part for part in parts if part.judge.exact is not None]
    checked = checks_of_more(exact, ask, row, having)
    if isinstance(checked, tuple):
        return checked[1].reason
    return [(part, checked[part.plugin.name]) for part in exact]


def _count(reservation: Reservation, row: Row, cluster: Cluster) -> None:
    ask = Ask(reserve_pod(reservation))
    former, _ = cluster.pods[ask.key]
    record = ask.record(cluster.now_s, cluster.noted(ask.pod, former, ask.template))
    cluster.place(replace(record, placed_s=former.placed_s), row)
