"""The device files of the RDMA cards, or of their virtual functions, that the scheduler gave a pod.

Where a specification file of the node names one by its bus id, it is also asked for by that name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from koord.agent import wish
from koord.agent.devices.cdi import named
from koord.agent.devices.inventory import NO_DEVICES, RdmaCard
from koord.agent.hooks.hook import Hook
from koord.agent.pods import AgentContainer, AgentPod
from koord.agent.state import NodeState
from koord.agent.wish import CdiDevice, Device, Wish
from koord.api.configuration.features import AgentGate
from koord.api.protocol.annotations.device import DEVICE_ALLOCATED, AllocatedDevice
from koord.api.protocol.annotations.value import AnnotationError

NAME: Final = "rdma"
_KIND: Final = "rdma"
"""In the kind of a specification (example.com/net-rdma): others give the same card away as a plain network card."""
CONNECTIONS: Final = "/dev/infiniband/rdma_cm"
"""Everybody's: connections are made through it."""


def _for_container(state: NodeState, pod: AgentPod, container: AgentContainer) -> Iterator[Wish]:
    try:
        given = DEVICE_ALLOCATED.read(pod.meta).get("rdma", ())
    except AnnotationError:
        return
    devices, target = state.devices or NO_DEVICES, wish.container(pod.uid, container.name)
    cards = {card.minor: card for card in devices.cards}
    paths = [path for device in given if device.minor in cards for path in _paths(cards[device.minor], device)]
    for path in (CONNECTIONS, *paths) if paths else ():
        yield Wish(target, Device(path), path, NAME, "the scheduler gave the pod its card")
    buses = [bus for device in given if device.minor in cards for bus in _buses(cards[device.minor], device)]
    for bus in buses if devices.cdi else ():
        name = named(devices.cdi, bus, _KIND)
        if name is not None:
            yield Wish(target, CdiDevice(name), name, NAME, "a specification of the node has this card")


def _paths(card: RdmaCard, given: AllocatedDevice) -> Iterator[str]:
    functions = given.extension.vfs if given.extension else ()
    device_names = [card.functions.get(function.bus_id, "") for function in functions] if functions else [card.verbs]
    yield from (f"/dev/{name}" for name in device_names if name)


def _buses(card: RdmaCard, given: AllocatedDevice) -> Iterator[str]:
    functions = given.extension.vfs if given.extension else ()
    yield from [function.bus_id for function in functions] if functions else [card.bus_id]


HOOK: Final = Hook(NAME, AgentGate.RDMA_DEVICE_INJECT, for_container=_for_container)
