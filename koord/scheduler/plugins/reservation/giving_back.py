"""What a reservation that was made smaller gives back of the CPUs, NUMA amounts and devices that it holds.

Amounts follow `status.allocatable`. CPUs and devices are single things, named on the reservation: it keeps what its
owners have, then the first of the rest, and says so. Nothing is given back that an owner has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.faults import BadInput
from koord.api.protocol.annotations.cpu import RESOURCE_STATUS
from koord.api.protocol.annotations.device import DEVICE_ALLOCATED
from koord.scheduler.plugins.devices import grants
from koord.scheduler.plugins.devices.grants import Grant, Granted
from koord.scheduler.plugins.devices.ledger import Devices
from koord.scheduler.plugins.devices.requests import MEMORY, RATIO, Request, Wanted, wanted
from koord.scheduler.plugins.numa.allocation import Allocation, held_among, status_of
from koord.scheduler.plugins.numa.allocations import Allocations
from koord.scheduler.plugins.numa.facts import CPU
from koord.scheduler.plugins.numa.topology import Topology, cpus_in
from koord.scheduler.plugins.reservation.room import Room
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import Amounts


def given_back(room: Room, annotations: Mapping[str, str], cluster: Cluster) -> dict[str, str | None]:
    """The annotations that a reservation must have instead, if it holds more than it reserves; a value of None removes
    one. The pod that holds its room asks for what it reserves."""
    record, said = room.record, dict[str, str | None]()
    kept = {} if record is None else kept_of(room, record.shape.requests, annotations, cluster)
    for name, note in kept.items():
        if record is None or record.note(name) == note:
            continue
        if isinstance(note, Allocation):
            said[RESOURCE_STATUS.key] = RESOURCE_STATUS.render(status_of(note)) if note.cpus or note.zones else None
        elif isinstance(note, Granted):
            said[DEVICE_ALLOCATED.key] = grants.render(note) if note.by_type else None
    return said


def kept_of(
    room: Room, requests: Amounts, annotations: Mapping[str, str], cluster: Cluster
) -> dict[str, Allocation | Granted]:
    """What a reservation keeps of CPUs, NUMA amounts and devices if it asks for `requests`, by plugin."""
    record, kept = room.record, dict[str, Allocation | Granted]()
    if record is None:
        return kept
    held = next(iter(held_among([record])), None)
    if held is not None:
        on = cluster.notes(Allocations).on.get(room.row)
        topology = None if on is None else on.facts.topology
        kept[Allocations.name] = cpus_kept(held, held_among(room.owners.values()), dict(requests), topology)
    granted = record.note(Devices.name)
    if isinstance(granted, Granted):
        notes = [owner.note(Devices.name) for owner in room.owners.values()]
        inside = [granted for granted in notes if isinstance(granted, Granted)]
        kept[Devices.name] = _devices_kept(granted, inside, requests, annotations)
    return kept


def cpus_kept(
    held: Allocation, inside: Sequence[Allocation], asked: Mapping[str, int], topology: Topology | None
) -> Allocation:
    """What a reservation keeps of CPUs and NUMA amounts that now asks for less."""
    cpus, dropped = _cpus_kept(held.cpus, _union(inside), -(-asked.get(CPU, 0) // 1000), topology)
    lost = (
        {}
        if topology is None
        else {zone: 1000 * cpus_of_zone.bit_count() for zone, cpus_of_zone in topology.nodes_of(dropped)}
    )
    had: dict[tuple[int, str], int] = {}
    for allocation in inside:
        for zone, listed in allocation.zones:
            for name, amount in listed:
                had[zone, name] = had.get((zone, name), 0) + amount
    zones = {zone: dict(listed) for zone, listed in held.zones}
    for name in {name for listed in zones.values() for name in listed}:
        if name not in asked:
            continue
        over = sum(listed.get(name, 0) for listed in zones.values()) - asked[name]
        # CPUs that are given back leave their own NUMA nodes; else the last one gives first.
        for zone in sorted(zones, key=lambda left_of_zone: (name != CPU or not lost.get(left_of_zone), -left_of_zone)):
            most = lost[zone] if name == CPU and lost.get(zone) else over
            spare = zones[zone].get(name, 0) - had.get((zone, name), 0)
            less = max(0, min(over, most, spare))
            if less:
                zones[zone][name] -= less
                over -= less
    kept = tuple((zone, tuple(sorted((name, n) for name, n in zones[zone].items() if n))) for zone in sorted(zones))
    return Allocation(
        cpus,
        tuple(zone_amounts for zone_amounts in kept if zone_amounts[1]),
        held.exclusive if cpus else "",
        held.alone,
    )


def _cpus_kept(held: int, had: int, most: int, topology: Topology | None) -> tuple[int, int]:
    """The CPUs that are kept, and those that are not. Whole cores go before parts of any."""
    dropped, over = 0, held.bit_count() - max(most, (held & had).bit_count())
    order = list(cpus_in(held & ~had))
    if topology is not None:
        place = {cpu: i for i, core in enumerate(topology.cores) for cpu in cpus_in(core.cpus)}
        order.sort(key=lambda cpu: (place.get(cpu, -1), cpu))
    for cpu in reversed(order[len(order) - over :] if over > 0 else ()):
        dropped |= 1 << cpu
    return held & ~dropped, dropped


def _union(inside: Iterable[Allocation]) -> int:
    cpus = 0
    for allocation in inside:
        cpus |= allocation.cpus
    return cpus


def _devices_kept(
    held: Granted, inside: Sequence[Granted], requests: Amounts, annotations: Mapping[str, str]
) -> Granted:
    try:
        asks = wanted(requests, ObjectMeta(annotations=dict(annotations)))
    except BadInput:
        return held
    return devices_kept(held, inside, asks)


def devices_kept(held: Granted, inside: Sequence[Granted], asks: Wanted | None) -> Granted:
    """What a reservation keeps of devices that now asks for less."""
    by_type = []
    for type_, having in held.by_type:
        request = None if asks is None else asks.of(type_)
        if request is not None and not request.count:
            # It has all that there are.
            by_type.append((type_, having))
            continue
        had: dict[int, dict[str, int]] = {}
        for granted in inside:
            for grant in granted.of(type_):
                of_device = had.setdefault(grant.minor, {})
                for name, amount in grant.amounts:
                    of_device[name] = of_device.get(name, 0) + amount
        number = max(0 if request is None else request.count, sum(grant.minor in had for grant in having))
        chosen = sorted(having, key=lambda grant: grant.minor not in had)[:number]
        kept = [_smaller(grant, request, had.get(grant.minor, {})) for grant in having if grant in chosen]
        if kept:
            by_type.append((type_, tuple(kept)))
    return grants.granted(by_type, held.alone_on_pcie)


def _smaller(grant: Grant, request: Request | None, had: Mapping[str, int]) -> Grant:
    """No more of a device than the request asks of each. Memory is given in bytes and as a ratio: one follows from the
    other."""
    has, per_device = dict(grant.amounts), {} if request is None else request.amounts
    basis = next((name for name in (RATIO, MEMORY) if name in per_device and has.get(name)), None)
    amounts = {}
    for name, amount in has.items():
        if name in per_device:
            most = per_device[name]
        elif basis is not None and name in (RATIO, MEMORY):
            most = amount * min(per_device[basis], has[basis]) // has[basis]
        else:
            most = 0 if request is None else amount
        amounts[name] = max(min(amount, most), min(amount, had.get(name, 0)))
    return grant._replace(amounts=tuple(sorted((name, amount) for name, amount in amounts.items() if amount)))
