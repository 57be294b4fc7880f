"""The input of decisions on the network: the node's interface, the owner of its root queue, and those of pods."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.knobs import Knob
from koord.agent.host.network import packets, queues
from koord.agent.host.network.knobs import (
    EGRESS_LIMIT,
    INGRESS_LIMIT,
    is_free,
    no_network,
    node_namespace,
    root_text,
)
from koord.agent.host.network.netlink import NETFILTER, ROUTE, Netlink


class Port(NamedTuple):
    """An interface of a pod, as far as its root queue goes."""

    queue: str = ""
    "In the words of `root_text`; empty if the interface does not exist."
    why: str = ""
    "Why there is none."


class Ports(NamedTuple):
    ingress: Port
    egress: Port
    at_s: float = float("-inf")
    "When they were looked at."


class NetworkSeen(NamedTuple):
    interface: str = ""
    "Of the default route."
    queue: str = ""
    why: str = ""
    "Why there is no interface."
    ports: Mapping[str, Ports] = MappingProxyType({})
    "By uid, of pods with limits of their own."
    by_cgroup: tuple[str, ...] = ()
    "Addresses that stand for all packets that are known by their cgroup (`packets.NOBODY`), if the kernel knows any."


PORTS_FOR_S: Final = 60.0
"""For how long the known ends of a pod stay valid, like the settings that are written there."""
_NO_PORTS: Final[Mapping[str, Ports]] = MappingProxyType({})


def look(
    cgroups: Cgroups, pods: Mapping[str, str], former: Mapping[str, Ports] = _NO_PORTS, now_s: float = 0.0
) -> NetworkSeen:
    """`pods`: by uid, the directories of those whose ends are asked for; `known`: what was seen of them before."""
    if why := no_network(cgroups):
        return NetworkSeen(why=why)
    ports = {
        uid: former[uid] if _holds(former.get(uid), now_s) else _ports(cgroups, directory, now_s)
        for uid, directory in pods.items()
    }
    try:
        with Netlink(ROUTE, node_namespace(cgroups)) as socket:
            index = queues.default_interface(socket)
            name = next((link.name for link in queues.links(socket) if link.number == index), "")
            queue = root_text(queues.root_queue(socket, index)) if index is not None and name else ""
    except OSError as error:
        return NetworkSeen(why=f"its network cannot be reached: {error.strerror}", ports=ports)
    why = "" if name else "there is no default route, which tells the interface"
    return NetworkSeen(name, queue, why, ports, _by_cgroup(cgroups))


def _by_cgroup(cgroups: Cgroups) -> tuple[str, ...]:
    if cgroups.version is not Version.V1 or not cgroups.files.exists(cgroups.name("net_cls", "", "net_cls.classid")):
        return ()
    has_ipv6 = cgroups.files.exists("proc/1/net/if_inet6")
    return tuple(address for version, address in packets.NOBODY.items() if version == 4 or has_ipv6)


def absence(cgroups: Cgroups, seen: NetworkSeen) -> str:
    """Why there can be no classes on the interface; empty where there can."""
    if not is_free(seen.queue):
        return f"{seen.interface} has a root queue of another program ({seen.queue}), which is not changed"
    try:
        with Netlink(NETFILTER, node_namespace(cgroups)) as socket:
            packets.classes(socket, 4)
    except OSError as error:
        return f"this kernel has no nftables: {error.strerror}"
    return ""


def _holds(ports: Ports | None, now_s: float) -> bool:
    is_whole = ports is not None and bool(ports.ingress.queue and ports.egress.queue)
    return ports is not None and is_whole and now_s - ports.at_s < PORTS_FOR_S


def _ports(cgroups: Cgroups, directory: str, now_s: float) -> Ports:
    return Ports(_port(cgroups, directory, INGRESS_LIMIT), _port(cgroups, directory, EGRESS_LIMIT), now_s)


def _port(cgroups: Cgroups, directory: str, knob: Knob) -> Port:
    try:
        return Port(cgroups.text(knob, directory))
    except OSError as error:
        return Port(why=error.strerror or str(error))
