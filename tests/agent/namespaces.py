"""Network namespaces for a test: a node with a pod and the world outside, joined by pairs of interfaces.

    pod eth0 10.9.2.2  <->  node pod0 10.9.2.1   node eth0 10.9.1.1  <->  outside eth0 10.9.1.2

They are the test's own, have no way to anything else, and are gone afterwards.
"""

from __future__ import annotations

import ctypes
import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

import pytest

from koord.agent.host.network import packets
from koord.agent.host.network.netlink import NETFILTER, Netlink

NODE_ADDRESS, OUTSIDE_ADDRESS, POD_ADDRESS = "10.9.1.1", "10.9.1.2", "10.9.2.2"
_NEW_NETWORK = 0x40000000
_number = count()


def run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


@dataclass(frozen=True)
class Namespaces:
    node: str
    pod: str
    outside: str

    def queues(self) -> str:
        """All that there is of queues and classes, of the node and the pod."""
        told = [run("tc", "-n", name, "qdisc", "show") for name in (self.node, self.pod)]
        links = ((self.node, "eth0"), (self.node, "pod0"), (self.pod, "eth0"))
        told += [run("tc", "-n", name, "class", "show", "dev", link) for name, link in links]
        return re.sub("direct_packets_stat [0-9]+", "", "\n".join(told))


def path(name: str) -> str:
    return f"/run/netns/{name}"


@contextmanager
def namespaces() -> Iterator[Namespaces]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    own = f"koord-{os.getpid()}-{next(_number)}"
    found = Namespaces(f"{own}-n", f"{own}-p", f"{own}-o")
    every = (found.node, found.pod, found.outside)
    made = []
    try:
        for name in every:
            try:
                run("ip", "netns", "add", name)
            except (RuntimeError, FileNotFoundError) as error:
                pytest.skip(f"needs network namespaces: {error}")
            made.append(name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", found.node, "link", "add", "eth0", "type", "veth", "peer", "eth0", "netns", found.outside)
        run("ip", "-n", found.node, "link", "add", "pod0", "type", "veth", "peer", "eth0", "netns", found.pod)
        for name, link, address in (
            (found.node, "eth0", NODE_ADDRESS),
            (found.outside, "eth0", OUTSIDE_ADDRESS),
            (found.node, "pod0", "10.9.2.1"),
            (found.pod, "eth0", POD_ADDRESS),
        ):
            run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", link)
            run("ip", "-n", name, "link", "set", link, "up")
        for name, gateway in ((found.node, OUTSIDE_ADDRESS), (found.outside, NODE_ADDRESS), (found.pod, "10.9.2.1")):
            run("ip", "-n", name, "route", "add", "default", "via", gateway)
        run("ip", "netns", "exec", found.node, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
        _must_have_queues(found.node)
        yield found
    finally:
        for name in made:
            run("ip", "netns", "del", name)


def _must_have_queues(name: str) -> None:
    """Kernels are built with and without these."""
    limit = ("tbf", "rate", "1gbit", "burst", "100kb", "latency", "50ms")
    for queue in (("htb",), limit):
        try:
            run("tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", *queue)
            run("tc", "-n", name, "qdisc", "del", "dev", "eth0", "root")
        except (RuntimeError, FileNotFoundError) as error:
            pytest.skip(f"needs tc with {queue[0]}: {error}")
    try:
        with Netlink(NETFILTER, path(name)) as socket:
            packets.classes(socket, 4)
    except OSError as error:
        pytest.skip(f"needs nftables: {error}")


def socket_in(name: str) -> socket.socket:
    """Made by a thread that enters the namespace and ends."""
    made: list[socket.socket] = []

    def make() -> None:
        fd = os.open(path(name), os.O_RDONLY)
        assert ctypes.CDLL(None).setns(fd, _NEW_NETWORK) == 0
        os.close(fd)
        made.append(socket.socket())

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return made[0]


def transfer_s(source: str, to: str, address: str, size: int) -> float:
    """How long N bytes take from one namespace to another, from the first to the last that arrives."""
    with socket_in(to) as server, socket_in(source) as client:
        server.settimeout(30)
        client.settimeout(30)
        server.bind((address, 0))
        server.listen(1)
        client.connect(server.getsockname())
        taken, _ = server.accept()
        with taken:
            taken.settimeout(30)
            began_s = time.monotonic()
            thread = threading.Thread(target=client.sendall, args=(bytes(size),))
            thread.start()
            left = size
            while left:
                got = len(taken.recv(1 << 16))
                assert got, "the sender ended early"
                left -= got
            took_s = time.monotonic() - began_s
            thread.join()
    return took_s
