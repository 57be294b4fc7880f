"""Which process listens on a port, from the kernel's tables of sockets.

Pods of a local node share the machine's network: a port belongs to a pod only if one of its processes listens on it.
"""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

LISTENS: Final = "0A"

Family: TypeAlias = Literal[4, 6]
"""Of IP addresses."""


@dataclass(frozen=True, slots=True)
class Listener:
    family: Family
    address: str
    port: int
    inode: int

    @property
    def is_for_all(self) -> bool:
        return ipaddress.ip_address(self.address).is_unspecified

    @property
    def reached_at(self) -> str:
        """Where to connect to."""
        if not self.is_for_all:
            return self.address
        return "127.0.0.1" if self.family == 4 else "::1"


def listeners(table: str, family: Family) -> Iterator[Listener]:
    """The listening sockets of `/proc/PID/net/tcp` or `tcp6`."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == LISTENS:
            address, _, port = fields[1].partition(":")
            yield Listener(family, _address(address), int(port, 16), int(fields[9]))


def listener_of(inodes: Collection[int], port: int, table: Collection[Listener]) -> Listener | None:
    """The listener on the port that has one of the sockets. One for all addresses, and IPv4, come first."""
    own = [listener for listener in table if listener.port == port and listener.inode in inodes]
    return min(own, key=lambda listener: (not listener.is_for_all, listener.family), default=None)


def _address(text: str) -> str:
    """The kernel prints each word of an address as the machine stores it."""
    packed = bytes.fromhex(text)
    if sys.byteorder == "little":
        packed = b"".join(packed[at : at + 4][::-1] for at in range(0, len(packed), 4))
    address = ipaddress.ip_address(packed)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
