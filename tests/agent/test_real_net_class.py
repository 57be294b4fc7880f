"""Pods on the host's network, whose packets are known by their cgroups' net_cls: in a guest (`make test-guest`).

The guest's own network is the node's. Its interface leads to a namespace of the test's.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from koord.agent.host.cgroups import Version
from koord.agent.host.knobs import NET_CLASS
from koord.agent.pods import AgentPod
from koord.api.configuration.features import AgentGate
from tests.agent.loads import Process
from tests.agent.namespaces import NODE_ADDRESS, OUTSIDE_ADDRESS, run, socket_in
from tests.agent.real_node import RealNode, real_node

pytestmark = pytest.mark.root

SLO = {
    "resourceQOSStrategy": {
        "lsClass": {"networkQOS": {"enable": True, "egressRequest": 35}},
        "beClass": {"networkQOS": {"enable": True, "egressLimit": 40}},
    },
    "systemStrategy": {"totalNetworkBandwidth": "1G"},
}
SIZE = 50_000
OUTSIDE = f"koord-{os.getpid()}-outside"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RealNode]:
    if os.environ.get("KOORD_TEST_HOST_NETWORK") != "1":
        pytest.skip("changes the host's network: in a guest only")
    with real_node(tmp_path) as found:
        assert found.cgroups.version is Version.V1
        assert found.cgroups.has(NET_CLASS, ""), "net_cls is not mounted"
        found.gates[AgentGate.TC_NETWORK_QOS] = True
        found.slo = SLO
        found.start()
        yield found


@pytest.fixture
def outside() -> Iterator[str]:
    run("ip", "netns", "add", OUTSIDE)
    try:
        run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", OUTSIDE)
        for where, address in (((), NODE_ADDRESS), (("-n", OUTSIDE), OUTSIDE_ADDRESS)):
            run("ip", *where, "addr", "add", f"{address}/24", "dev", "eth0")
            run("ip", *where, "link", "set", "eth0", "up")
        run("ip", "route", "add", "default", "via", OUTSIDE_ADDRESS)
        yield OUTSIDE
    finally:
        with suppress(RuntimeError):
            run("ip", "link", "del", "eth0")
        run("ip", "netns", "del", OUTSIDE)


def on_host(node: RealNode, name: str, qos: str) -> AgentPod:
    pod = replace(node.pod(name, qos, requests={"cpu": "1"}), address=NODE_ADDRESS, is_on_host_network=True)
    node.pods = {**node.pods, pod.uid: pod}
    return pod


def send(port: int) -> None:
    with socket.create_connection((OUTSIDE_ADDRESS, port), timeout=30) as client:
        client.sendall(bytes(SIZE))
        client.shutdown(socket.SHUT_WR)
        client.recv(1)


def received(node: RealNode, outside: str, directory: str) -> int:
    """What a process of that cgroup gets across."""
    with socket_in(outside) as server:
        server.bind((OUTSIDE_ADDRESS, 0))
        server.listen(1)
        server.settimeout(30)
        port: int = server.getsockname()[1]
        with Process(node.cgroups, directory, lambda: send(port)):
            taken, _ = server.accept()
            with taken:
                taken.settimeout(30)
                got = 0
                while chunk := taken.recv(1 << 16):
                    got += len(chunk)
    return got


def sent(name: str) -> int:
    told = run("tc", "-s", "class", "show", "dev", "eth0", "classid", name)
    return next(int(line.split()[1]) for line in told.splitlines() if line.strip().startswith("Sent"))


def test_packets_of_pods_on_the_hosts_network_are_of_their_net_cls(node: RealNode, outside: str) -> None:
    before = run("tc", "qdisc", "show", "dev", "eth0")
    pods = {"1:4": on_host(node, "job", "BE"), "1:3": on_host(node, "web", "LS")}
    done = node.round()
    assert not done.outcome.refused
    assert not done.problems
    for name, pod in pods.items():
        directory = pod.containers[0].directory
        assert node.cgroups.get(NET_CLASS, directory) == 0x10000 + int(name[2:])
        had = {each: sent(each) for each in ("1:2", "1:3", "1:4")}
        assert received(node, outside, directory) == SIZE
        grown = {each for each in had if sent(each) - had[each] >= SIZE}
        assert grown == {name}
    node.start()
    assert not node.agent.executor.restore_all(node.now_s).refused
    assert run("tc", "qdisc", "show", "dev", "eth0") == before
    assert {node.cgroups.get(NET_CLASS, pod.containers[0].directory) for pod in pods.values()} == {0}
