"""Queues, classes and limits of the network as things that can be set like any other.

Of the node's interface: its root queue, its classes, and the class of each pod's address. Of a pod: a limit on what it
sends, in its own network namespace, and on what it gets, on the host's end of its interface. The node's network is that
of process 1 below the host's root. A queue that another program made is never changed: the agent's own are known by a
mark.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from koord.agent.host.knobs import Form, Knob, Place
from koord.agent.host.network import packets, queues
from koord.agent.host.network.netlink import NETFILTER, ROUTE, Netlink
from koord.agent.host.network.queues import Class, Link, Queue, handle_of, name_of
from koord.agent.host.processes import process_of

if TYPE_CHECKING:
    from koord.agent.host.cgroups import Cgroups

NONE: Final = "none"
"""The kernel's own queue; a missing class; an address without a class."""
OURS: Final = "htb"
ROOT: Final = "1:"
DEFAULT: Final = 2
MARK: Final = 0x4B6F
"""Of queues that the agent made."""
_INTERFACE: Final = "[A-Za-z0-9_.@:-]{1,15}"
_ROOT_NAME: Final = re.compile(f"tc root ({_INTERFACE})")
_CLASS_NAME: Final = re.compile(f"tc class ({_INTERFACE}) (1:[0-9a-f]{{1,4}})")
_ADDRESS_NAME: Final = re.compile("tc address ([0-9a-f.:]{2,39})")
_CLASS: Final = re.compile("parent ([0-9a-f]+:[0-9a-f]*) prio ([0-9]+) rate ([0-9]+) ceil ([0-9]+)")
_LIMIT: Final = re.compile("limit ([0-9]+)")
_HANDLE: Final = re.compile("1:[0-9a-f]{1,4}")


def class_text(parent: str, priority: int, rate_bps: int, ceil_bps: int) -> str:
    """In whole bytes, as the kernel keeps them."""
    return f"parent {parent} prio {priority} rate {rate_bps // 8 * 8} ceil {ceil_bps // 8 * 8}"


def limit_text(limit_bps: int) -> str:
    return f"limit {limit_bps // 8 * 8}"


def root_text(queue: Queue | None) -> str:
    """A foreign queue is shown by its kind and handle, which is not a valid value: the agent must not change it."""
    if queue is None or queue.is_kernels:
        return NONE
    if queue.kind == "htb" and queue.handle == handle_of(ROOT) and queue.mark == MARK:
        return OURS
    if queue.kind == "tbf" and queue.handle == MARK << 16:
        return limit_text(queue.limit_bps)
    return f"{queue.kind} {name_of(queue.handle)}"


def is_free(text: str) -> bool:
    """Whether a root queue is the kernel's or the agent's own."""
    return text in (NONE, OURS) or _LIMIT.fullmatch(text) is not None


def node_namespace(cgroups: Cgroups) -> str:
    return cgroups.files.path("proc/1/ns/net")


def no_network(cgroups: Cgroups) -> str:
    """Why the node's network is not there to be changed; empty where it is."""
    if cgroups.root:
        return "the node is a part of a machine, and the network is the whole machine's"
    try:
        os.stat(node_namespace(cgroups))
    except OSError as error:
        return f"the network of the host's process 1 cannot be reached ({error.strerror})"
    return ""


def has_network(cgroups: Cgroups) -> bool:
    return not no_network(cgroups)


def pod_namespace(cgroups: Cgroups, directory: str) -> str:
    """Of a pod that has one of its own. Raises FileNotFoundError for others.

    Its oldest process tells, which is its sandbox's: those of containers may have gone to other namespaces since, where
    a limit would have no effect.
    """
    pids: list[int] = []
    for group in (directory, *(f"{directory}/{name}" for name in cgroups.children(directory))):
        with suppress(FileNotFoundError):
            pids += cgroups.processes(group)
    for pid in sorted(pids, key=lambda pid: _started(cgroups, pid)):
        path = cgroups.files.path(f"proc/{pid}/ns/net")
        if os.path.exists(path) and not os.path.samefile(path, node_namespace(cgroups)):
            return path
    raise FileNotFoundError(errno.ENOENT, "it has no process in a network namespace of its own", directory)


def _started(cgroups: Cgroups, pid: int) -> float:
    """Counted by the kernel from its own start; one that has ended comes last."""
    process = process_of(cgroups.files, pid)
    return float("inf") if process is None else float(process.partition("@")[2])


def _one(text: str, *patterns: re.Pattern[str]) -> str:
    if text != NONE and not any(pattern.fullmatch(text) for pattern in patterns):
        raise ValueError(f"{text!r} belongs to another program")
    return text


def _form(*patterns: re.Pattern[str]) -> Form:
    return Form(write=str, read=lambda text: _one(text, *patterns))


class _Shown:
    """What is the agent's is what it wrote."""

    def is_ours(self, original: str, wrote: Collection[str], shown: str) -> bool:
        return shown in wrote


@dataclass(frozen=True, slots=True)
class _Root(_Shown):
    interface: str

    def has(self, cgroups: Cgroups, directory: str) -> bool:
        return has_network(cgroups)

    def text(self, cgroups: Cgroups, directory: str, ours: Collection[str]) -> str:
        with Netlink(ROUTE, node_namespace(cgroups)) as socket:
            return root_text(queues.root_queue(socket, _named(socket, self.interface).number))

    def put(self, cgroups: Cgroups, directory: str, text: str, ours: Collection[str]) -> None:
        with Netlink(ROUTE, node_namespace(cgroups)) as socket:
            index = _named(socket, self.interface).number
            if text == NONE:
                _free(socket, index)
            else:
                queues.make_htb(socket, index, handle_of(ROOT), DEFAULT, MARK)

    def file(self, cgroups: Cgroups, directory: str) -> str:
        return f"tc root {self.interface}"


@dataclass(frozen=True, slots=True)
class _Class(_Shown):
    interface: str
    name: str

    def has(self, cgroups: Cgroups, directory: str) -> bool:
        return has_network(cgroups)

    def text(self, cgroups: Cgroups, directory: str, ours: Collection[str]) -> str:
        return _remembered(cgroups, f"tc class {self.interface}", self._read).get(handle_of(self.name), NONE)

    def _read(self, cgroups: Cgroups) -> dict[int, str]:
        with Netlink(ROUTE, node_namespace(cgroups)) as socket:
            index = _named(socket, self.interface).number
            if root_text(queues.root_queue(socket, index)) != OURS:
                return {}
            return {handle: _class_text(class_) for handle, class_ in queues.classes(socket, index).items()}

    def put(self, cgroups: Cgroups, directory: str, text: str, ours: Collection[str]) -> None:
        cgroups.read_now.pop(f"tc class {self.interface}", None)
        with Netlink(ROUTE, node_namespace(cgroups)) as socket:
            index = _named(socket, self.interface).number
            if root_text(queues.root_queue(socket, index)) != OURS:
                if text == NONE:
                    return
                raise OSError(errno.EBUSY, f"the root queue of {self.interface} is not the agent's")
            if text == NONE:
                # A class that contains others is deleted after them. All of them are the agent's.
                own = handle_of(self.name)
                inner = [handle for handle, class_ in queues.classes(socket, index).items() if class_.parent == own]
                for handle in (*inner, own):
                    queues.delete_class(socket, index, handle)
            else:
                queues.put_class(socket, index, handle_of(self.name), _class(text))

    def file(self, cgroups: Cgroups, directory: str) -> str:
        return f"tc class {self.interface} {self.name}"


@dataclass(frozen=True, slots=True)
class _Address(_Shown):
    address: packets.Address

    def has(self, cgroups: Cgroups, directory: str) -> bool:
        return has_network(cgroups)

    def text(self, cgroups: Cgroups, directory: str, ours: Collection[str]) -> str:
        handles = _remembered(cgroups, self._key, self._read)
        return handles.get(int(self.address), NONE)

    @property
    def _key(self) -> str:
        return f"tc address {self.address.version}"

    def _read(self, cgroups: Cgroups) -> dict[int, str]:
        with Netlink(NETFILTER, node_namespace(cgroups)) as socket:
            return {int(address): name_of(of) for address, of in packets.classes(socket, self.address.version).items()}

    def put(self, cgroups: Cgroups, directory: str, text: str, ours: Collection[str]) -> None:
        cgroups.read_now.pop(self._key, None)
        with Netlink(NETFILTER, node_namespace(cgroups)) as socket:
            handles = packets.classes(socket, self.address.version)
            packets.put(socket, self.address, None if text == NONE else handle_of(text), handles)

    def file(self, cgroups: Cgroups, directory: str) -> str:
        return f"nftables {packets.TABLE} {self.address}"


@dataclass(frozen=True, slots=True)
class _Limit(_Shown):
    """On an interface that is found by its pod."""

    what: str
    port: Callable[[Cgroups, str], tuple[str, int]]
    "The network namespace and the index of the interface."

    def has(self, cgroups: Cgroups, directory: str) -> bool:
        try:
            self.port(cgroups, directory)
        except OSError:
            return False
        return True

    def text(self, cgroups: Cgroups, directory: str, ours: Collection[str]) -> str:
        namespace, index = self.port(cgroups, directory)
        with Netlink(ROUTE, namespace) as socket:
            return root_text(queues.root_queue(socket, index))

    def put(self, cgroups: Cgroups, directory: str, text: str, ours: Collection[str]) -> None:
        namespace, index = self.port(cgroups, directory)
        with Netlink(ROUTE, namespace) as socket:
            if text == NONE:
                _free(socket, index)
                return
            match = _LIMIT.fullmatch(text)
            assert match is not None, "only what can be read is written"
            replaces = root_text(queues.root_queue(socket, index)) != NONE
            queues.make_limit(socket, index, MARK << 16, int(match[1]), replaces)

    def file(self, cgroups: Cgroups, directory: str) -> str:
        return f"{directory}/tc {self.what} limit"


def _free(socket: Netlink, index: int) -> None:
    """The kernel's own queue comes back, if this one is the agent's."""
    queue = queues.root_queue(socket, index)
    if queue is not None and root_text(queue) != NONE and is_free(root_text(queue)):
        queues.delete_root(socket, index, queue.handle)


def _named(socket: Netlink, name: str) -> Link:
    for link in queues.links(socket):
        if link.name == name:
            return link
    raise FileNotFoundError(errno.ENOENT, "the interface does not exist", name)


def _own_port(cgroups: Cgroups, directory: str) -> tuple[str, int]:
    """In the pod's namespace, the interface that its packets leave by."""
    namespace = pod_namespace(cgroups, directory)
    with Netlink(ROUTE, namespace) as socket:
        index = queues.default_interface(socket)
    if index is None:
        raise FileNotFoundError(errno.ENOENT, "its network has no default route", directory)
    return namespace, index


def _host_port(cgroups: Cgroups, directory: str) -> tuple[str, int]:
    """On the host, the other end of it."""
    namespace, index = _own_port(cgroups, directory)
    with Netlink(ROUTE, namespace) as socket:
        own = next(link for link in queues.links(socket) if link.number == index)
    with Netlink(ROUTE, node_namespace(cgroups)) as socket:
        for link in queues.links(socket):
            if (link.number, link.peer, link.kind, own.kind) == (own.peer, index, "veth", "veth"):
                return node_namespace(cgroups), link.number
    raise FileNotFoundError(errno.ENOENT, "its interface has no other end on the host", directory)


def _remembered(cgroups: Cgroups, key: str, read: Callable[[Cgroups], dict[int, str]]) -> dict[int, str]:
    remembered = cgroups.read_now.get(key)
    if remembered is None:
        remembered = cgroups.read_now[key] = read(cgroups)
    return dict(remembered)


def _class_text(class_: Class) -> str:
    parent = ROOT if class_.parent == queues.ROOT else name_of(class_.parent)
    return class_text(parent, class_.priority, class_.rate_bps, class_.ceil_bps)


def _class(text: str) -> Class:
    match = _CLASS.fullmatch(text)
    assert match is not None, "only what can be read is written"
    return Class(handle_of(match[1]), int(match[2]), int(match[3]), int(match[4]))


@lru_cache(64)
def root_of(interface: str) -> Knob:
    place = Place("tc", _form(re.compile(OURS)), means=_Root(interface))
    return Knob(f"tc root {interface}", place, place, is_of_host=True)


@lru_cache(2048)
def class_of(interface: str, name: str) -> Knob:
    place = Place("tc", _form(_CLASS), means=_Class(interface, name))
    return Knob(f"tc class {interface} {name}", place, place, is_of_host=True)


@lru_cache(4096)
def address_of(address: str) -> Knob:
    """Raises ValueError for an invalid address."""
    parsed = ipaddress.ip_address(address)
    place = Place("tc", _form(_HANDLE), means=_Address(parsed))
    return Knob(f"tc address {parsed}", place, place, is_of_host=True)


def _limit_knob(name: str, what: str, port: Callable[[Cgroups, str], tuple[str, int]]) -> Knob:
    place = Place("tc", _form(_LIMIT), "cpu", means=_Limit(what, port))
    return Knob(name, place, place)


EGRESS_LIMIT: Final = _limit_knob("tc egress limit", "egress", _own_port)
INGRESS_LIMIT: Final = _limit_knob("tc ingress limit", "ingress", _host_port)


_OF_PODS: Final = {knob.name: knob for knob in (EGRESS_LIMIT, INGRESS_LIMIT)}


def network_knob_named(name: str) -> Knob | None:
    if name in _OF_PODS:
        return _OF_PODS[name]
    if match := _ROOT_NAME.fullmatch(name):
        return root_of(match[1])
    if match := _CLASS_NAME.fullmatch(name):
        return class_of(match[1], match[2])
    if match := _ADDRESS_NAME.fullmatch(name):
        try:
            return address_of(match[1])
        except ValueError:
            return None
    return None
