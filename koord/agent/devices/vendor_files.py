"""Devices of vendors that are not asked by koord itself: their drivers' tools write what they find into files.

Each file in the directory is a list of devices in JSON. A file that cannot be read is named and passed over: it says
nothing of the others.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Final

import msgspec

from koord.agent.devices.inventory import VendorDevice
from koord.agent.host.files import Files
from koord.api.machinery.struct import EMPTY

log = logging.getLogger(__name__)

DIRECTORY: Final = "var/run/koordlet/xpu-device-infos"
MOST_BYTES: Final = 1 << 20
_PLAIN: Final = {"gpu-core": "koordinator.sh/gpu-core", "gpu-memory": "koordinator.sh/gpu-memory"}


class _Link(msgspec.Struct, rename="camel"):
    peer_minor: str
    type: str = ""


_WORDS: Final = {
    "p2p_links": "p2pLinks",
    "must_honor": "mustHonorPartition",
    "socket": "socketID",
    "node": "nodeID",
    "pcie": "pcieID",
    "bus": "busID",
}


class _Topology(msgspec.Struct, rename=_WORDS):
    p2p_links: list[_Link] = []
    must_honor: bool = False
    socket: str = ""
    node: str = ""
    pcie: str = ""
    bus: str = ""


class _Status(msgspec.Struct, rename="camel"):
    healthy: bool = False
    err_code: str = ""
    err_message: str = ""


class _Device(msgspec.Struct):
    vendor: str
    model: str
    uuid: str
    minor: str
    resources: dict[str, str] = {}
    topology: _Topology | None = None
    status: _Status | None = None


def devices(files: Files) -> tuple[VendorDevice, ...]:
    """By minor."""
    by_minor: dict[int, VendorDevice] = {}
    for name in _names(files):
        try:
            for device in _read(files, name):
                by_minor.setdefault(device.minor, device)
        except (OSError, ValueError) as error:
            log.warning("/%s/%s is passed over: %s", DIRECTORY, name, error)
    return tuple(by_minor[minor] for minor in sorted(by_minor))


def _names(files: Files) -> list[str]:
    try:
        with os.scandir(files.path(DIRECTORY)) as entries:
            return sorted(entry.name for entry in entries if entry.is_file())
    except OSError:
        return []


def _read(files: Files, name: str) -> Iterator[VendorDevice]:
    text = files.once(f"{DIRECTORY}/{name}")
    if len(text) > MOST_BYTES:
        raise ValueError(f"it has {len(text)} bytes, and at most {MOST_BYTES} are read")
    for device in msgspec.json.decode(text, type=list[_Device]):
        topology, status = device.topology or _Topology(), device.status or _Status(healthy=True)
        yield VendorDevice(
            vendor=device.vendor,
            model=device.model,
            uuid=device.uuid,
            minor=int(device.minor),
            resources={_PLAIN.get(key, key): amount for key, amount in device.resources.items()} or EMPTY,
            socket=int(topology.socket or -1),
            node=int(topology.node or -1),
            pcie=topology.pcie,
            bus_id=topology.bus,
            links={int(link.peer_minor): link.type for link in topology.p2p_links},
            must_honor=topology.must_honor,
            is_healthy=status.healthy,
            error=status.err_code,
            message=status.err_message,
        )
