"""The CPUs and devices that reservations hold and no pod uses yet, as if a pod had them: for pictures of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.pod import Pod, PodSpec
from koord.api.protocol.annotations.cpu import RESOURCE_STATUS
from koord.api.protocol.annotations.device import DEVICE_ALLOCATED
from koord.api.protocol.crd.reservation import Reservation
from koord.scheduler.plugins.devices import grants
from koord.scheduler.plugins.numa import on_node
from koord.scheduler.plugins.numa.allocation import Allocation, held_by, status_of
from koord.scheduler.plugins.numa.on_node import OnNode
from koord.scheduler.plugins.reservation.owners import came_out_of
from koord.scheduler.plugins.reservation.reserve_pod import reserve_pod
from koord.scheduler.plugins.reservation.room import OPEN
from koord.scheduler.state.stand_ins import stand_in_name


def unused(reservations: Iterable[Reservation], pods: Iterable[Pod]) -> Iterator[Pod]:
    """A stand-in for each that holds something which none of its owners has."""
    inside: dict[tuple[str, str], list[Pod]] = {}
    for pod in pods:
        if uid := came_out_of(pod):
            inside.setdefault((uid, pod.spec.node_name), []).append(pod)
    for reservation in reservations:
        node = reservation.status.node_name
        if reservation.status.phase in OPEN and node:
            said = _rest(
                reserve_pod(reservation), inside.get((reservation.metadata.uid or reservation.metadata.name, node), [])
            )
            if said:
                meta = ObjectMeta(name=stand_in_name("Reservation", reservation.metadata.name), annotations=said)
                yield Pod(metadata=meta, spec=PodSpec(node_name=node))


def _rest(holder: Pod, owners: list[Pod]) -> dict[str, str]:
    said: dict[str, str] = {}
    devices = grants.held_by(holder)
    if devices is not None:
        had = [granted for owner in owners if (granted := grants.held_by(owner)) is not None]
        rest = grants.rest_of(devices, had)
        if rest.by_type:
            said[DEVICE_ALLOCATED.key] = grants.render(rest)
    held = held_by(holder)
    if held is not None:
        theirs = [mine for owner in owners if (mine := held_by(owner)) is not None]
        left = on_node.rest_of(held, theirs, OnNode())
        zones = (
            (zone, tuple(amount_of_zone for amount_of_zone in listed if amount_of_zone[1]))
            for zone, listed in left.zones
        )
        kept = Allocation(left.cpus, tuple(zone for zone in zones if zone[1]))
        if kept.cpus or kept.zones:
            said[RESOURCE_STATUS.key] = RESOURCE_STATUS.render(status_of(kept))
    return said
