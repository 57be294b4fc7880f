"""Network by Terway: what its files say, and that they are as found afterwards."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from koord.agent.executor.executor import Executor
from koord.agent.executor.ledger import Ledger
from koord.agent.host.cgroups import Version
from koord.agent.qos import terway
from koord.agent.state import NodeState
from koord.api.kubernetes.cgroup import CgroupDriver
from tests.agent.states import NOW, delivered, node, pod
from tests.agent.trees import Tree


def state(total: str = "20G", policy: str = "terway-qos", **be: Any) -> NodeState:
    limits = {"koordinator.sh/networkQOS": '{"ingressLimit": "40M", "egressLimit": "80M"}'}
    slo = {
        "resourceQOSStrategy": {
            "policies": {"netQOSPolicy": policy},
            "lsClass": {"networkQOS": {"enable": True, "egressRequest": 35, "ingressLimit": 50}},
            "beClass": {"networkQOS": {"enable": True, "egressRequest": "2G", "egressLimit": 40, **be}},
        },
        "systemStrategy": {"totalNetworkBandwidth": total},
    }
    return node(pod("web", "LS", annotations=limits), pod("plain", requests={"cpu": "1"}), pod("idle"), slo=slo)


def test_all_figures_are_bytes_a_second() -> None:
    # 20 Gbit/s are 2.5 GB/s; percentages are of that as well.
    told = [line.split() for line in terway.node_text(state()).splitlines()]
    assert {name: int(value) for name, value in told} == {
        "hw_tx_bps_max": 2_500_000_000,
        "hw_rx_bps_max": 2_500_000_000,
        "offline_l1_tx_bps_min": 875_000_000,
        "offline_l1_tx_bps_max": 0,
        "offline_l1_rx_bps_min": 0,
        "offline_l1_rx_bps_max": 1_250_000_000,
        "offline_l2_tx_bps_min": 250_000_000,
        "offline_l2_tx_bps_max": 1_000_000_000,
        "offline_l2_rx_bps_min": 0,
        "offline_l2_rx_bps_max": 0,
    }
    pods = json.loads(terway.pods_text(state()))
    assert pods["web"] == {
        "podName": "web",
        "podNamespace": "ns",
        "podUID": "web",
        "prio": 1,
        "cgroupDir": "/sys/fs/cgroup/net_cls/kubepods/besteffort/podweb",
        "qosConfig": {"ingressBandwidth": 5_000_000, "egressBandwidth": 10_000_000},
    }
    assert [pods[name]["prio"] for name in ("plain", "idle")] == [1, 2]


def test_bandwidth_that_cannot_be_given_and_a_node_without_terway_are_told() -> None:
    for node_state, is_installed, why in (
        (state(egressLimit="21G"), True, "beClass.networkQOS.egressLimit is 21G"),
        (state(egressLimit=5), True, "beClass.networkQOS.egressLimit is 5, below egressRequest (2G)"),
        (state(ingressRequest=5, ingressLimit=4), True, "beClass.networkQOS.ingressLimit is 4, below ingressRequest"),
        (state(), False, "Terway is not installed"),
    ):
        decision = terway.decide(node_state, is_installed)
        assert decision is not None
        assert not decision.wishes
        (problem,) = decision.problems
        assert why in problem.why


def test_files_are_written_once_and_are_as_found_afterwards(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Version.V1, CgroupDriver.CGROUPFS)
    tree.write("var/lib/terway/qos/pod.json", '{"of": "another"}')
    node_state, saved = state(), list[bytes]()
    executor = Executor(tree.cgroups, Ledger(), saved.append)
    decision = terway.decide(node_state, True)
    assert decision is not None
    writes = delivered(node_state, decision.wishes)
    assert len(executor.apply(writes, {terway.NAME}, NOW).done) == 2
    assert json.loads(tree.read("var/lib/terway/qos/pod.json"))["web"]["prio"] == 1
    assert not executor.apply(writes, {terway.NAME}, NOW + 100).done, "nothing the second time"
    # Another agent, after this one was killed.
    Executor(tree.cgroups, Ledger.parse(saved[0])).restore_all(NOW)
    assert tree.read("var/lib/terway/qos/pod.json") == '{"of": "another"}'
    assert sorted(each.name for each in (tmp_path / "var/lib/terway/qos").iterdir()) == ["pod.json"]


def test_without_the_policy_nothing_is_wanted() -> None:
    for node_state in (state(policy="tc"), replace(state(), is_colocation_off=True)):
        decision = terway.decide(node_state, True)
        assert decision is not None
        assert not decision.wishes
    assert terway.decide(node(), True) is None
