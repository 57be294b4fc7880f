"""Which class a packet is of: a table of nftables with the addresses of pods, which sets a packet's priority.

It is looked at after routing and before addresses are translated, so a pod is known by its own address, and a queue of
any interface can use it. What pods on the host's network send is known by their cgroups' net_cls. The table is there
as long as it has an address, and is made and deleted with the first and the last of them.
"""

from __future__ import annotations

import errno
import ipaddress
import struct
from typing import Final

from koord.agent.host.network.netlink import (
    CREATE,
    Message,
    Netlink,
    attribute,
    attributes,
    each_attribute,
    nested,
    text,
)

TABLE: Final = "koord-network"
_MAP, _CHAIN = "classes", "classify"
_BEGIN, _END = 16, 17
_NFTABLES: Final = 10
_NEW_TABLE, _DELETE_TABLE, _NEW_CHAIN, _NEW_RULE, _NEW_SET = 0, 2, 3, 6, 9
_NEW_ELEMENT, _GET_ELEMENT, _DELETE_ELEMENT = 12, 13, 14
_POSTROUTING, _MANGLE = 4, -150
_IS_MAP: Final = 8
_CLASSID: Final = 23
_FAMILIES: Final = {4: 2, 6: 10}
_ADDRESS_TYPES: Final = {4: 7, 6: 8}
_SOURCE_AT: Final = {4: (12, 4), 6: (8, 16)}
_META_PRIORITY, _META_CGROUP = 2, 23
_FIRST, _SECOND = 1, 2
_MAJOR_MASK, _MAJOR = 0xFFFF0000, 0x00010000

NOBODY: Final = {4: "0.0.0.0", 6: "::"}
"""What no packet of a pod comes from: with that address alone, the table tells packets by their cgroup."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def classes(socket: Netlink, version: int) -> dict[Address, int]:
    """Of addresses of IPv4 or IPv6, the class of each."""
    body = _head(_FAMILIES[version]) + text(1, TABLE) + text(2, _MAP)
    try:
        answers = socket.dump(_message(_GET_ELEMENT, body))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return {}
        raise
    handles: dict[Address, int] = {}
    for answer in answers:
        elements = attributes(answer.body[4:]).get(3, b"")
        for _, element in each_attribute(elements):
            own = attributes(element)
            key, data = attributes(own[1])[1], attributes(own[2])[1]
            handles[ipaddress.ip_address(key)] = struct.unpack("=I", data[:4])[0]
    return handles


def put(socket: Netlink, address: Address, handle: int | None, handles: dict[Address, int]) -> None:
    """None removes the address. `known`: existing addresses of its family."""
    family, version = _FAMILIES[address.version], address.version
    messages = []
    if address in handles:
        messages.append(_message(_DELETE_ELEMENT, _element(family, address, handles[address])))
    if handle is None:
        if not handles.keys() - {address}:
            messages = [_message(_DELETE_TABLE, _head(family) + text(1, TABLE))] if handles else []
    else:
        messages += [] if handles else _table(version)
        messages.append(_message(_NEW_ELEMENT, _element(family, address, handle), CREATE))
    if messages:
        edge = struct.pack("!BBH", 0, 0, _NFTABLES)
        socket.ask_all([Message(_BEGIN, edge), *messages, Message(_END, edge)])


def _table(version: int) -> list[Message]:
    family = _FAMILIES[version]
    head, table = _head(family), text(1, TABLE)
    hook = nested(4, attribute(1, struct.pack("!I", _POSTROUTING)), attribute(2, struct.pack("!i", _MANGLE)))
    at, length = _SOURCE_AT[version]
    kept = [
        text(2, _MAP),
        attribute(3, _be(_IS_MAP)),
        attribute(4, _be(_ADDRESS_TYPES[version])),
        attribute(5, _be(length)),
        attribute(6, _be(_CLASSID)),
        attribute(7, _be(4)),
        attribute(10, _be(1)),
    ]
    by_cgroup = [
        _expression("meta", attribute(1, _be(_FIRST)), attribute(2, _be(_META_CGROUP))),
        _expression(
            "bitwise",
            attribute(1, _be(_FIRST)),
            attribute(2, _be(_SECOND)),
            attribute(3, _be(4)),
            nested(4, attribute(1, struct.pack("=I", _MAJOR_MASK))),
            nested(5, attribute(1, bytes(4))),
        ),
        _expression(
            "cmp", attribute(1, _be(_SECOND)), attribute(2, _be(0)), nested(3, attribute(1, struct.pack("=I", _MAJOR)))
        ),
        _expression("meta", attribute(2, _be(_META_PRIORITY)), attribute(3, _be(_FIRST))),
    ]
    by_address = [
        _expression(
            "payload",
            attribute(1, _be(_FIRST)),
            attribute(2, _be(1)),
            attribute(3, _be(at)),
            attribute(4, _be(length)),
        ),
        _expression("lookup", text(1, _MAP), attribute(2, _be(_FIRST)), attribute(3, _be(_FIRST))),
        _expression("meta", attribute(2, _be(_META_PRIORITY)), attribute(3, _be(_FIRST))),
    ]
    rules = [
        _message(_NEW_RULE, head + table + text(2, _CHAIN) + nested(4, *expressions), CREATE | 0x800)
        for expressions in (by_cgroup, by_address)
    ]
    return [
        _message(_NEW_TABLE, head + table, CREATE),
        _message(_NEW_CHAIN, head + table + text(3, _CHAIN) + hook + text(7, "filter"), CREATE),
        _message(_NEW_SET, head + table + b"".join(kept), CREATE),
        *rules,
    ]


def _element(family: int, address: Address, handle: int) -> bytes:
    key = nested(1, attribute(1, address.packed))
    data = nested(2, attribute(1, struct.pack("=I", handle)))
    return _head(family) + text(1, TABLE) + text(2, _MAP) + nested(3, nested(1, key, data))


def _expression(name: str, *own: bytes) -> bytes:
    return nested(1, text(1, name), nested(2, *own))


def _message(kind: int, body: bytes, flags: int = 0) -> Message:
    return Message(_NFTABLES << 8 | kind, body, flags)


def _head(family: int) -> bytes:
    return struct.pack("!BBH", family, 0, 0)


def _be(number: int) -> bytes:
    return struct.pack("!I", number)
