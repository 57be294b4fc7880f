"""The policies of other systems on a real kernel: each holds best effort in its box, and leaves nothing behind."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from koord.agent.lending.peers.policy import PeerNode, result
from koord.agent.lending.peers.registry import PEERS
from tests.agent.loads import Level, Process, burn, cores
from tests.agent.real_node import RealNode, batch, real_node, suppressed

pytestmark = pytest.mark.root

NEAR = 0.15
"Of the node: between two looks, a service's use wavers."


def box(policy: str, service: float) -> float:
    """What the policy gives batch on one core, before its first minute."""
    peer = PEERS[policy]
    return result(peer.box(peer.memory_type(), service * 1000, PeerNode(1000, 1 << 30))) / 1000


def test_each_policy_holds_batch_in_its_box_and_switching_leaves_nothing_behind(tmp_path: Path) -> None:
    with real_node(tmp_path, cores=1) as node, ExitStack() as running:
        web, job, demand = node.pod("web", "LS", requests={"cpu": "400m"}), node.pod("job", **batch()), Level(0.1)
        before = node.settings()
        running.enter_context(Process(node.cgroups, web.containers[0].directory, cores(demand)))
        running.enter_context(Process(node.cgroups, job.containers[0].directory, burn))
        for policy in PEERS:
            node.slo = {**suppressed("cfsQuota"), "lendingStrategy": {"policy": policy}}
            assert_held(node, policy, demand)
        node.slo = {"resourceUsedThresholdWithBE": {"enable": False}}
        node.reconciled()
        assert node.settings() == before


def assert_held(node: RealNode, policy: str, demand: Level) -> None:
    for service in (0.1, 0.35):
        demand.set(service)
        wanted = box(policy, service)
        said = f"{policy} gives {wanted:.2f} cores beside a service that uses {service}"
        assert node.until(partial(is_near, node, wanted), most=30), said


def is_near(node: RealNode, cores: float) -> bool:
    return abs(node.best_effort_cores - cores) < NEAR
