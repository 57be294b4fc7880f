"""The queues of an interface (tc): the root queue, classes of an HTB, and a plain limit (TBF).

A queue with the handle 0: was made by the kernel itself when the interface came up; any other belongs to the program
that made it. Deleting the root brings the kernel's own back.
"""

from __future__ import annotations

import errno
import struct
from typing import Final, NamedTuple

from koord.agent.host.network.netlink import (
    CREATE,
    EXCLUSIVE,
    REPLACE,
    Message,
    Netlink,
    attribute,
    attributes,
    name_in,
    nested,
    text,
)

NEW_QUEUE, DELETE_QUEUE, GET_QUEUE = 36, 37, 38
NEW_CLASS, DELETE_CLASS, GET_CLASS = 40, 41, 42
GET_LINK, GET_ROUTE = 18, 26
ROOT: Final = 0xFFFFFFFF
_TC: Final = struct.Struct("=BxxxiIII")
_LINK: Final = struct.Struct("=BxHiII")
_ROUTE: Final = struct.Struct("=8BI")
_KIND, _OPTIONS = 1, 2
_HTB_PARAMETERS, _HTB_INIT, _HTB_RATE64, _HTB_CEIL64 = 1, 2, 6, 7
_TBF_PARAMETERS, _TBF_RATE64, _TBF_BURST = 1, 4, 6
_RATE: Final = struct.Struct("=BBHhHI")
_ETHERNET: Final = 1
_MOST_RATE: Final = 0xFFFFFFFF
_TICK_NS: Final = 64
_LEAST_BURST: Final = 65536 + 1514
"""One large segment as interfaces send them, and a frame."""
_QUEUE_S: Final = 0.05
"""How much a limit lets wait."""
_MAIN_TABLE, _UNICAST = 254, 1
_IPV4, _IPV6 = 2, 10


class Link(NamedTuple):
    number: int
    name: str
    peer: int
    "For a veth: the index of its other end, in whichever namespace; 0 for others."
    kind: str


class Queue(NamedTuple):
    kind: str
    handle: int
    limit_bps: int = 0
    "Of a plain limit."
    mark: int = 0
    "For an HTB: its `r2q`, which matters only for classes without a quantum, and so can mark the agent's queues."

    @property
    def is_kernels(self) -> bool:
        return self.handle == 0


class Class(NamedTuple):
    parent: int
    priority: int
    rate_bps: int
    ceil_bps: int


def links(socket: Netlink) -> list[Link]:
    listed = []
    for message in socket.dump(Message(GET_LINK, _LINK.pack(0, 0, 0, 0, 0))):
        _, _, index, _, _ = _LINK.unpack_from(message.body)
        own = attributes(message.body[_LINK.size :])
        peer = struct.unpack("=I", own[5])[0] if 5 in own else 0
        kind = name_in(attributes(own[18]).get(1, b"")) if 18 in own else ""
        listed.append(Link(index, name_in(own[3]), peer, kind))
    return listed


def default_interface(socket: Netlink) -> int | None:
    """The index of the interface of the default route, of IPv4 if it has one."""
    routes = []
    for family in (_IPV4, _IPV6):
        for message in socket.dump(Message(GET_ROUTE, _ROUTE.pack(family, 0, 0, 0, 0, 0, 0, 0, 0))):
            of, length, _, _, table, _, _, kind, _ = _ROUTE.unpack_from(message.body)
            if (of, length, table, kind) != (family, 0, _MAIN_TABLE, _UNICAST):
                continue
            own = attributes(message.body[_ROUTE.size :])
            metric = struct.unpack("=I", own[6])[0] if 6 in own else 0
            if 4 in own:
                routes.append((family, metric, struct.unpack("=I", own[4])[0]))
            elif 9 in own:
                routes.append((family, metric, struct.unpack_from("=HBBi", own[9])[3]))
    return min(routes)[2] if routes else None


def root_queue(socket: Netlink, index: int) -> Queue | None:
    """None on an interface that has none."""
    for message in socket.dump(Message(GET_QUEUE, _TC.pack(0, index, 0, 0, 0))):
        _, of, handle, parent, _ = _TC.unpack_from(message.body)
        if of == index and parent == ROOT:
            own = attributes(message.body[_TC.size :])
            return _queue(name_in(own[_KIND]), handle, own.get(_OPTIONS, b""))
    return None


def _queue(kind: str, handle: int, options: bytes) -> Queue:
    own = attributes(options) if kind in ("htb", "tbf") else {}
    if kind == "tbf":
        rate = struct.unpack("=Q", own[_TBF_RATE64])[0] if _TBF_RATE64 in own else _rate_in(own[_TBF_PARAMETERS])
        return Queue(kind, handle, rate * 8)
    mark = struct.unpack_from("=II", own[_HTB_INIT])[1] if _HTB_INIT in own else 0
    return Queue(kind, handle, mark=mark)


def classes(socket: Netlink, index: int) -> dict[int, Class]:
    """Those of an HTB, by their handle."""
    by_handle = {}
    for message in socket.dump(Message(GET_CLASS, _TC.pack(0, index, 0, 0, 0))):
        _, of, handle, parent, _ = _TC.unpack_from(message.body)
        own = attributes(message.body[_TC.size :])
        if of != index or name_in(own[_KIND]) != "htb":
            continue
        options = attributes(own[_OPTIONS])
        parameters = options[_HTB_PARAMETERS]
        rate, ceil = _rate_in(parameters), _rate_in(parameters[_RATE.size :])
        if _HTB_RATE64 in options:
            (rate,) = struct.unpack("=Q", options[_HTB_RATE64])
        if _HTB_CEIL64 in options:
            (ceil,) = struct.unpack("=Q", options[_HTB_CEIL64])
        priority = struct.unpack_from("=IIIII", parameters, 2 * _RATE.size)[4]
        by_handle[handle] = Class(parent, priority, rate * 8, ceil * 8)
    return by_handle


def make_htb(socket: Netlink, index: int, handle: int, default: int, mark: int) -> None:
    """`default`: the class of unclassified packets. Fails if the root queue was made by another program."""
    options = nested(_OPTIONS, attribute(_HTB_INIT, struct.pack("=5I", 3, mark, default, 0, 0)))
    body = _TC.pack(0, index, handle, ROOT, 0) + text(_KIND, "htb") + options
    socket.ask(Message(NEW_QUEUE, body, CREATE | EXCLUSIVE))


def make_limit(socket: Netlink, index: int, handle: int, rate_bps: int, replaces: bool) -> None:
    rate = max(rate_bps // 8, 1)
    burst = _burst(rate)
    most = int(rate * _QUEUE_S) + burst
    parameters = _rate(rate) + _rate(0) + struct.pack("=III", min(most, 2**32 - 1), _ticks(burst, rate), 0)
    own = [attribute(_TBF_PARAMETERS, parameters), attribute(_TBF_BURST, struct.pack("=I", burst))]
    own += [attribute(_TBF_RATE64, struct.pack("=Q", rate))] if rate > _MOST_RATE else []
    body = _TC.pack(0, index, handle, ROOT, 0) + text(_KIND, "tbf") + nested(_OPTIONS, *own)
    socket.ask(Message(NEW_QUEUE, body, CREATE | (REPLACE if replaces else EXCLUSIVE)))


def delete_root(socket: Netlink, index: int, handle: int) -> None:
    """Nothing where it is gone already."""
    try:
        socket.ask(Message(DELETE_QUEUE, _TC.pack(0, index, handle, ROOT, 0)))
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EINVAL):
            raise


def put_class(socket: Netlink, index: int, handle: int, wanted: Class) -> None:
    """Makes it, or changes it where it is."""
    rate, ceil = max(wanted.rate_bps // 8, 1), max(wanted.ceil_bps // 8, 1)
    quantum = min(max(rate // 10, 1514), 60_000)
    parameters = _rate(rate) + _rate(ceil)
    parameters += struct.pack(
        "=5I", _ticks(_burst(rate), rate), _ticks(_burst(ceil), ceil), quantum, 0, wanted.priority
    )
    own = [attribute(_HTB_PARAMETERS, parameters)]
    own += [attribute(_HTB_RATE64, struct.pack("=Q", rate))] if rate > _MOST_RATE else []
    own += [attribute(_HTB_CEIL64, struct.pack("=Q", ceil))] if ceil > _MOST_RATE else []
    body = _TC.pack(0, index, handle, wanted.parent, 0) + text(_KIND, "htb") + nested(_OPTIONS, *own)
    socket.ask(Message(NEW_CLASS, body, CREATE))


def delete_class(socket: Netlink, index: int, handle: int) -> None:
    try:
        socket.ask(Message(DELETE_CLASS, _TC.pack(0, index, handle, 0, 0)))
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EINVAL):
            raise


def handle_of(name: str) -> int:
    """`1:3`, in hexadecimal as tc writes it."""
    major, _, minor = name.partition(":")
    return int(major, 16) << 16 | int(minor or "0", 16)


def name_of(handle: int) -> str:
    return f"{handle >> 16:x}:{handle & 0xFFFF:x}"


def _rate(rate: int) -> bytes:
    return _RATE.pack(0, _ETHERNET, 0, 0, 0, min(rate, _MOST_RATE))


def _rate_in(data: bytes) -> int:
    rate: int = _RATE.unpack_from(data)[5]
    return rate


def _burst(rate: int) -> int:
    """Bytes that may go at once: five milliseconds, and never less than one segment."""
    return min(max(rate // 200, _LEAST_BURST), 2**31)


def _ticks(size: int, rate: int) -> int:
    return min(size * 1_000_000_000 // rate // _TICK_NS, 2**32 - 1)
