"""Classes and limits of the network on this machine's kernel, in network namespaces of the test's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from koord.agent.core import Agent, Done
from koord.agent.executor.executor import Executor
from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.network import packets, queues
from koord.agent.host.network.look import PORTS_FOR_S, look
from koord.agent.host.network.netlink import NETFILTER, Netlink
from koord.agent.live import keeping
from koord.agent.qos import network_classes as network
from koord.agent.state import DEFAULT_GATES
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS
from koord.cli.agent import agent as command
from tests.agent.dying import killed_at
from tests.agent.namespaces import OUTSIDE_ADDRESS, POD_ADDRESS, Namespaces, namespaces, path, run, transfer_s
from tests.agent.states import NOW, cpus, node, pod
from tests.agent.trees import Tree

pytestmark = pytest.mark.root

SLO: dict[str, Any] = {
    "resourceQOSStrategy": {
        "lsClass": {"networkQOS": {"enable": True, "egressRequest": 35}},
        "beClass": {"networkQOS": {"enable": True, "egressRequest": "2G", "egressLimit": 40}},
    },
    "systemStrategy": {"totalNetworkBandwidth": "20G"},
}
SIZE = 600_000
LEAST_S = (SIZE - 200_000) / 1_000_000
"""At 8 Mbit/s, bursts of a few segments apart."""


class Host:
    """A composed host whose network, and whose pod's, are real."""

    def __init__(self, root: Path, spaces: Namespaces, qos: str, annotation: dict[str, str]) -> None:
        self.root, self.spaces, self.state_dir = root / "host", spaces, root / "state"
        self.tree = Tree(self.root, Version.V2, CgroupDriver.CGROUPFS)
        self.tree.pod("web", KubeQoS.BURSTABLE, "web-main")
        self.tree.write("sys/fs/cgroup/kubepods/burstable/podweb/web-main/cgroup.procs", "4711\n")
        for pid, space in (("1", spaces.node), ("4711", spaces.pod)):
            ns = self.root / "proc" / pid / "ns"
            ns.mkdir(parents=True)
            (ns / "net").symlink_to(path(space))
        text = {"koordinator.sh/networkQOS": json.dumps(annotation)} if annotation else {}
        web = replace(pod("web", qos, requests={"cpu": "1"}, annotations=text), address=POD_ADDRESS)
        gates = {**dict.fromkeys(DEFAULT_GATES, False), AgentGate.TC_NETWORK_QOS: True}
        self.state = replace(node(web, slo=SLO, topology=cpus(1, 4, 2)), gates=gates)
        self.now_s = NOW
        self.start()

    def start(self) -> None:
        ledger = keeping.whole_ledger(self.state_dir)
        cgroups = self.tree.cgroups
        executor = Executor(cgroups, ledger, lambda text: keeping.write_ledger(self.state_dir, text))
        self.agent = Agent(cgroups, executor)

    def round(self) -> Done:
        self.now_s += 10
        return self.agent.decide(self.state, self.now_s, is_thorough=True)

    def classes(self) -> dict[str, int]:
        """Of addresses, as the kernel has them."""
        with Netlink(NETFILTER, path(self.spaces.node)) as socket:
            return {str(each): of for each, of in packets.classes(socket, 4).items()}

    def restore(self) -> None:
        result = CliRunner().invoke(
            command,
            ["--host-root", str(self.root), "--state-dir", str(self.state_dir), "restore"],
            standalone_mode=False,
        )
        assert result.exception is None, result.exception
        assert result.return_value == 0, result.stderr


@pytest.fixture
def spaces() -> Iterator[Namespaces]:
    with namespaces() as found:
        yield found


def test_classes_are_made_once_and_all_is_put_back(tmp_path: Path, spaces: Namespaces) -> None:
    before = spaces.queues()
    host = Host(tmp_path, spaces, "BE", {"egressLimit": "80M", "ingressLimit": "40M"})
    done = host.round()
    assert not done.outcome.refused
    assert not done.problems
    own = network.own_classes(network.limited(host.state))["web"]
    told = run("tc", "-n", spaces.node, "-d", "class", "show", "dev", "eth0")
    for name, rate, ceil in (
        ("1:1 root", "20Gbit", "20Gbit"),
        ("1:2 parent 1:1 prio 1", "11Gbit", "20Gbit"),
        ("1:3 parent 1:1 prio 2", "7Gbit", "20Gbit"),
        ("1:4 parent 1:1 prio 3", "2Gbit", "8Gbit"),
        (f"{own} parent 1:1 prio 3", "80Mbit", "80Mbit"),
    ):
        (line,) = [line for line in told.splitlines() if line.startswith(f"class htb {name} ")]
        assert f" rate {rate} ceil {ceil} " in line
    assert host.classes() == {POD_ADDRESS: queues.handle_of(own)}
    assert "rate 80Mbit" in run("tc", "-n", spaces.pod, "qdisc", "show", "dev", "eth0")
    assert "rate 40Mbit" in run("tc", "-n", spaces.node, "qdisc", "show", "dev", "pod0")
    assert not host.round().outcome.done, "nothing the second time"
    host.now_s += 100
    assert not host.round().outcome.done, "nor when it is looked at again"
    # Another limit changes the existing one.
    other = {"koordinator.sh/networkQOS": json.dumps({"egressLimit": "8M"})}
    web = replace(pod("web", "BE", requests={"cpu": "1"}, annotations=other), address=POD_ADDRESS)
    host.state = replace(host.state, pods={"web": web})
    assert not host.round().outcome.refused
    assert "rate 8Mbit" in run("tc", "-n", spaces.pod, "qdisc", "show", "dev", "eth0")
    assert "tbf" not in run("tc", "-n", spaces.node, "qdisc", "show", "dev", "pod0")
    # A pod that is gone leaves nothing, whichever pod has its address next.
    host.state = replace(host.state, pods={})
    host.round()
    assert host.classes() == {}
    host.restore()
    assert spaces.queues() == before
    assert host.classes() == {}


def test_a_process_that_went_to_another_network_does_not_take_its_pods_limits_with_it(
    tmp_path: Path, spaces: Namespaces
) -> None:
    """A container may have made itself a namespace with a route of its own. The sandbox's process is the oldest."""
    host = Host(tmp_path, spaces, "BE", {"egressLimit": "80M"})
    web = "sys/fs/cgroup/kubepods/burstable/podweb"
    host.tree.write(f"{web}/web-main/cgroup.procs", "4710\n4709\n")
    (host.root / web / "zz-sandbox").mkdir()
    host.tree.write(f"{web}/zz-sandbox/cgroup.procs", "4711\n")
    for pid, started in ((4709, 902), (4710, 901), (4711, 900)):
        ns = host.root / f"proc/{pid}/ns"
        ns.mkdir(parents=True, exist_ok=True)
        (ns / "net").unlink(missing_ok=True)
        (ns / "net").symlink_to(path(spaces.pod if pid == 4711 else spaces.outside))
        host.tree.write(f"proc/{pid}/stat", f"{pid} (x y) {' '.join(['S', *['0'] * 18, str(started)])} 0\n")
    before = spaces.queues(), run("tc", "-n", spaces.outside, "qdisc", "show")
    assert not host.round().outcome.refused
    assert "rate 80Mbit" in run("tc", "-n", spaces.pod, "qdisc", "show", "dev", "eth0")
    assert run("tc", "-n", spaces.outside, "qdisc", "show") == before[1]
    host.restore()
    assert spaces.queues() == before[0]


def test_a_queue_of_somebody_else_is_left_and_told(tmp_path: Path, spaces: Namespaces) -> None:
    limit = ("tbf", "rate", "1gbit", "burst", "100kb", "latency", "50ms")
    run("tc", "-n", spaces.node, "qdisc", "add", "dev", "eth0", "root", "handle", "1:", "htb", "default", "2")
    run("tc", "-n", spaces.node, "qdisc", "add", "dev", "pod0", "root", "handle", "1:", *limit)
    before = spaces.queues()
    host = Host(tmp_path, spaces, "LS", {"ingressLimit": "40M"})
    done = host.round()
    assert not done.outcome.done
    assert not done.outcome.refused
    assert [
        (problem.pod.key if problem.pod else "", "another program" in problem.why) for problem in done.problems
    ] == [
        ("", True),
        ("ns/web", True),
    ]
    assert spaces.queues() == before
    # It is gone: there is room for the classes, and the agent's own are its own for the next agent too.
    run("tc", "-n", spaces.node, "qdisc", "del", "dev", "eth0", "root")
    assert host.round().outcome.done
    host.start()
    assert not host.round().outcome.done
    # Somebody replaces what the agent made: that is theirs.
    run("tc", "-n", spaces.node, "qdisc", "del", "dev", "eth0", "root")
    run("tc", "-n", spaces.node, "qdisc", "add", "dev", "eth0", "root", "handle", "7:", *limit)
    host.restore()
    assert "tbf 7:" in run("tc", "-n", spaces.node, "qdisc", "show", "dev", "eth0")


@pytest.mark.parametrize("is_after", [False, True])
def test_killed_at_every_write_all_is_put_back(tmp_path: Path, spaces: Namespaces, is_after: bool) -> None:
    before = spaces.queues()
    host = Host(tmp_path, spaces, "BE", {"egressLimit": "80M", "ingressLimit": "40M"})
    step = 0
    while _killed_at(host, step, is_after):
        host.restore()
        assert spaces.queues() == before, f"killed at write {step}"
        assert host.classes() == {}, f"killed at write {step}"
        step += 1
    assert step >= 9, "the root, five classes, an address and two limits"
    host.restore()
    assert spaces.queues() == before


def _killed_at(host: Host, step: int, is_after: bool) -> bool:
    def work(dies: Callable[[Cgroups], None]) -> None:
        host.start()
        dies(host.agent.cgroups)
        host.round()

    return killed_at(work, step, is_after=is_after)


def test_the_ends_of_a_pod_are_looked_at_once_a_minute(tmp_path: Path, spaces: Namespaces) -> None:
    host = Host(tmp_path, spaces, "BE", {"egressLimit": "80M", "ingressLimit": "40M"})
    seen = look(host.agent.cgroups, {"web": "kubepods/burstable/podweb"}, now_s=NOW)
    assert (seen.ports["web"].ingress.queue, seen.ports["web"].egress.queue) == ("none", "none")
    run("tc", "-n", spaces.node, "qdisc", "add", "dev", "pod0", "root", "handle", "5:", "htb")

    def later(after_s: float) -> str:
        pods = {"web": "kubepods/burstable/podweb"}
        return look(host.agent.cgroups, pods, seen.ports, NOW + after_s).ports["web"].ingress.queue

    assert later(PORTS_FOR_S - 1) == "none"
    assert later(PORTS_FOR_S) == "htb 5:0"


def test_a_pods_limits_hold_for_what_it_sends_and_gets(tmp_path: Path, spaces: Namespaces) -> None:
    host = Host(tmp_path, spaces, "LS", {"egressLimit": "8M", "ingressLimit": "8M"})
    assert not host.round().problems
    assert transfer_s(spaces.pod, spaces.outside, OUTSIDE_ADDRESS, SIZE) >= LEAST_S
    assert transfer_s(spaces.outside, spaces.pod, POD_ADDRESS, SIZE) >= LEAST_S


def test_best_effort_sends_no_more_than_its_class_may(tmp_path: Path, spaces: Namespaces) -> None:
    host = Host(tmp_path, spaces, "BE", {})
    slow = {"networkQOS": {"enable": True, "egressLimit": "8M"}}
    spec = {"resourceQOSStrategy": {"beClass": slow}, "systemStrategy": {"totalNetworkBandwidth": "20G"}}
    host.state = replace(node(*host.state.pods.values(), slo=spec, topology=cpus(1, 4, 2)), gates=host.state.gates)
    assert not host.round().outcome.refused
    assert transfer_s(spaces.pod, spaces.outside, OUTSIDE_ADDRESS, SIZE) >= LEAST_S
    told = run("tc", "-n", spaces.node, "-s", "class", "show", "dev", "eth0", "classid", "1:4")
    sent = next(int(line.split()[1]) for line in told.splitlines() if line.strip().startswith("Sent"))
    assert sent >= SIZE, "the pod's packets are of its class"
