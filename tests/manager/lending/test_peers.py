"""The policies of other systems: the node's own calculation is what is published and explained."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from koord.api.configuration.lending_policies import PEERS
from koord.api.configuration.slo_config_check import judge
from koord.api.machinery.codec import convert
from koord.api.protocol import names
from koord.api.protocol.crd.node_metric import NodeMetric, PolicyMetric
from koord.manager.colocation_switch import SwitchError
from koord.manager.node_resource.explain import explain
from koord.manager.node_resource.plugins import choose
from koord.manager.policy_switch import PolicyChoice
from tests.manager.builders import NOW_S, WEB, batch, config, metric, state

CASTER = config(cpuCalculatePolicy="caster", memoryCalculatePolicy="caster")
LINES = {
    "policy": "caster",
    "cpu": [
        {"op": "start", "name": "watermark", "amount": "44800m", "why": "70% of 64000, the policy's own"},
        {"op": "minus", "name": "online", "amount": "20", "why": "used outside of the box"},
        {"op": "atLeast", "name": "nothing", "amount": "0"},
    ],
    "memory": [{"op": "start", "name": "watermark", "amount": "10Gi"}],
}


def report(lines: dict[str, Any]) -> NodeMetric:
    of_node = metric({"web": ("6.2", "20Gi")})
    return replace(of_node, status=replace(of_node.status, policy_metric=convert(PolicyMetric, lines)))


def test_what_the_node_worked_out_is_published_and_explained_line_by_line() -> None:
    node_state = state(pods=(WEB,), report=report(LINES))
    assert batch(node_state, CASTER) == (24_800, 10 << 30)
    explained = explain(node_state, CASTER, CASTER.for_node({}, {}), choose(), NOW_S)
    cpu = next(of for of in explained.resources if of.resource == names.RESOURCE_BATCH_CPU)
    assert cpu.policy == "caster"
    assert [(line.op, line.name, line.amount) for line in cpu.lines] == [
        ("start", "watermark", 44_800),
        ("minus", "online", 20_000),
        ("atLeast", "nothing", 0),
    ]


@pytest.mark.parametrize(
    "lines", [{"policy": "crane", "cpu": LINES["cpu"]}, {}, {**LINES, "cpu": [{"op": "fancy", "amount": "1"}]}]
)
def test_a_node_without_figures_of_its_policy_lends_by_usage_and_says_so(lines: dict[str, Any]) -> None:
    node_state = state(pods=(WEB,), report=report(lines))
    by_usage = batch(node_state, config(cpuCalculatePolicy="usage", memoryCalculatePolicy="usage"))
    assert batch(node_state, CASTER) == by_usage
    explained = explain(node_state, CASTER, CASTER.for_node({}, {}), choose(), NOW_S)
    assert "the node reports no figures of caster: by usage" in [line.why for line in explained.resources[0].lines]


@pytest.mark.parametrize("policy", PEERS)
def test_the_agent_is_told_the_policy_and_only_what_somebody_wrote(policy: str) -> None:
    plain = config(cpuCalculatePolicy=policy, memoryCalculatePolicy=policy).for_node({}, {}).node_slo
    assert plain.lending_strategy is not None
    assert plain.lending_strategy.policy == policy
    assert plain.lending_strategy.cpu_reclaim_threshold_percent is None
    assert plain.resource_used_threshold_with_be is not None
    assert plain.resource_used_threshold_with_be.enable
    own = config(cpuCalculatePolicy=policy, cpuReclaimThresholdPercent=55).for_node({}, {}).node_slo
    assert own.lending_strategy is not None
    assert own.lending_strategy.cpu_reclaim_threshold_percent == 55


def test_one_policy_owns_a_node() -> None:
    faults = judge({"colocation-config": '{"cpuCalculatePolicy": "crane", "memoryCalculatePolicy": "lar"}'}).faults
    assert [str(fault) for fault in faults] == [
        "colocation-config.memoryCalculatePolicy: must not be lar beside cpuCalculatePolicy crane:"
        " one policy owns a node"
    ]
    settings = config(cpuCalculatePolicy="crane", memoryCalculatePolicy="lar").for_node({}, {}).colocation
    assert (settings.cpu_calculate_policy, settings.memory_calculate_policy) == ("crane", "usage")
    with pytest.raises(SwitchError, match="lar owns a node"):
        PolicyChoice("lar", ("memory",))
