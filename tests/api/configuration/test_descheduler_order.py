"""Descheduler, scheduler and agents do not fight: marks that could loop are refused with both numbers."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.configuration.descheduler_config import DeschedulerConfiguration, parse
from koord.api.configuration.descheduler_order import of_descheduler
from koord.api.configuration.layer import Layer
from koord.api.configuration.thresholds import LoadLimits
from koord.api.protocol.crd.node_slo import ResourceThresholdStrategy


def marks(**args: Any) -> DeschedulerConfiguration:
    plugins = {"balance": {"enabled": [{"name": "LowNodeLoad"}]}}
    return parse({"profiles": [{"plugins": plugins, "pluginConfig": [{"name": "LowNodeLoad", "args": args}]}]})


def fills(**percents: int) -> list[LoadLimits]:
    return [LoadLimits("args", usage=percents)]


@pytest.mark.parametrize(
    ("args", "load", "refused"),
    [
        ({"highThresholds": {"cpu": 75}}, fills(cpu=75), ""),
        ({"highThresholds": {"cpu": 75}}, fills(cpu=76), "args.usageThresholds.cpu"),
        ({"highThresholds": {"memory": 80}}, fills(cpu=99, memory=80), ""),
        ({"highThresholds": {"cpu": 75}}, [LoadLimits("args", usage={"cpu": 60}, prod={"cpu": 80})], "prodUsage"),
        (
            {"highThresholds": {"cpu": 75}, "prodHighThresholds": {"cpu": 55}},
            [LoadLimits("args", usage={"cpu": 60}, prod={"cpu": 56})],
            "args.prodUsageThresholds.cpu: must not be above LowNodeLoadArgs of profile koord-descheduler."
            "prodHighThresholds.cpu (55), not 56",
        ),
        ({"highThresholds": {"cpu": 20}, "useDeviationThresholds": True}, fills(cpu=95), ""),
        ({"highThresholds": {"cpu": 20}, "dryRun": True}, fills(cpu=95), ""),
        (
            {
                "highThresholds": {"cpu": 75},
                "nodePools": [
                    {"name": "gpu", "nodeSelector": {"matchLabels": {"a": "b"}}, "highThresholds": {"cpu": 50}}
                ],
            },
            fills(cpu=65),
            "nodePools[0].highThresholds.cpu (50)",
        ),
    ],
)
def test_the_scheduler_does_not_fill_what_the_descheduler_empties(
    args: dict[str, Any], load: list[LoadLimits], refused: str
) -> None:
    faults = [str(fault) for fault in of_descheduler(marks(**args), load).faults]
    assert any(refused in fault for fault in faults) if refused else faults == []


def test_a_default_is_told_of_and_not_refused() -> None:
    findings = of_descheduler(marks(highThresholds={"memory": 80}), [LoadLimits("args")])
    assert findings.faults == ()
    (warning,) = findings.warnings
    assert "args.usageThresholds.memory (95, the default)" in warning
    assert "highThresholds.memory (80)" in warning


@pytest.mark.parametrize(("high", "refused"), [(84, False), (85, True)])
def test_agents_do_not_evict_from_what_the_descheduler_fills(high: int, refused: bool) -> None:
    strategy = ResourceThresholdStrategy(enable=True, memory_evict_threshold_percent=85)
    layers = [Layer("resource-threshold-config.clusterStrategy", strategy)]
    findings = of_descheduler(marks(highThresholds={"memory": high}), (), [layers])
    assert bool(findings.faults) is refused
    for fault in findings.faults:
        assert "must be below resource-threshold-config.clusterStrategy.memoryEvictThresholdPercent (85)" in str(fault)
