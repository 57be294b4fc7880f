"""Normalisation, amplification and devices: what a node says of its hardware."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.configuration.slo_config import SloConfig
from koord.manager.node_resource.plugins import PluginError, choose
from koord.manager.node_state import NodeState
from koord.manager.plugin import PluginOutcome
from tests.manager.builders import base, config, config_of, device, node, outcomes, prepared, state, topology

RATIO = "node.koordinator.sh/cpu-normalization-ratio"
AMPLIFIED = "node.koordinator.sh/resource-amplification-ratio"
MODEL = {
    "baseRatio": 1.0,
    "hyperThreadEnabledRatio": 1.1,
    "turboEnabledRatio": 1.3,
    "hyperThreadTurboEnabledRatio": 1.5,
}


def normalising(**given: Any) -> SloConfig:
    return config_of(
        {
            "colocation-config": {"enable": True},
            "cpu-normalization-config": {"enable": True, "ratioModel": {"M1": MODEL, "M2": {}}, **given},
        }
    )


def found(given: NodeState, slo: SloConfig, plugin: str) -> PluginOutcome:
    return next(plugin_outcome for plugin_outcome in outcomes(given, slo) if plugin_outcome.plugin == plugin)


@pytest.mark.parametrize(
    ("info", "given", "ratio"),
    [
        ({"cpuModel": "M1"}, {}, "1.00"),
        ({"cpuModel": "M1", "hyperThreadEnabled": True}, {}, "1.10"),
        ({"cpuModel": "M1", "turboEnabled": True}, {}, "1.30"),
        ({"cpuModel": "M1", "hyperThreadEnabled": True, "turboEnabled": True}, {}, "1.50"),
        ({"cpuModel": "M1", "turboEnabled": True}, {"defaultRatio": 2}, "1.30"),
        ({"cpuModel": "M2"}, {"defaultRatio": 1.25}, "1.25"),
        ({"cpuModel": "M3"}, {"defaultRatio": 1.25}, "1.25"),
        ({"cpuModel": "M1", "turboEnabled": True}, {"enable": False}, "1.00"),
    ],
)
def test_the_ratio_goes_by_model_threads_and_turbo(info: dict[str, Any], given: dict[str, Any], ratio: str) -> None:
    shown = found(state(report=base(), zones=topology(info=info)), normalising(**given), "CPUNormalization")
    assert shown.annotations == {RATIO: ratio}


@pytest.mark.parametrize(
    ("given", "slo"),
    [
        (state(report=base()), normalising()),
        (state(report=base(), zones=topology()), normalising()),
        (state(report=base(), zones=topology(info="nonsense")), normalising()),
        (state(report=base(), zones=topology(info={"cpuModel": "M3"})), normalising()),
        (state(report=base(), zones=topology(info={"cpuModel": "M2"})), normalising()),
        (state(report=base(), zones=topology(info={"cpuModel": "M3"})), normalising(defaultRatio=0.9)),
        (state(report=base(), zones=topology(info={"cpuModel": "M3"})), normalising(defaultRatio=5.1)),
        (
            state(
                node(labels={"node.koordinator.sh/cpu-normalization-enabled": "perhaps"}),
                report=base(),
                zones=topology(info={"cpuModel": "M1"}),
            ),
            normalising(),
        ),
    ],
    ids=["no topology", "no info", "bad info", "unknown model", "empty model", "too small", "too large", "bad label"],
)
def test_where_the_ratio_cannot_be_told_it_is_said_why_and_what_is_there_stays(
    given: NodeState, slo: SloConfig
) -> None:
    outcome = found(given, slo, "CPUNormalization")
    assert outcome.failed
    assert not outcome.annotations
    assert prepared(given, slo).resources["kubernetes.io/batch-cpu"] == 26700


@pytest.mark.parametrize(("label", "ratio"), [("true", "1.30"), ("false", "1.00")])
@pytest.mark.parametrize("enable", [True, False])
def test_a_node_says_by_label_whether_it_is_normalised(label: str, ratio: str, enable: bool) -> None:
    given = state(
        node(labels={"node.koordinator.sh/cpu-normalization-enabled": label}),
        report=base(),
        zones=topology(info={"cpuModel": "M1", "turboEnabled": True}),
    )
    assert found(given, normalising(enable=enable), "CPUNormalization").annotations == {RATIO: ratio}


@pytest.mark.parametrize(
    ("enable", "ratios", "current", "expected"),
    [
        (False, {"cpu": 1.5}, None, None),
        (True, {}, None, None),
        (True, {"cpu": 1.5}, None, '{"cpu":1.50}'),
        (True, {"cpu": 1.5, "memory": 1.2}, None, '{"cpu":1.50,"memory":1.20}'),
        (True, {"cpu": 1.5}, "1.2", '{"cpu":1.80}'),
        (False, {}, "1.2", '{"cpu":1.20}'),
        (False, {}, "1.00", None),
        (True, {"memory": 1.2}, "1.00", '{"memory":1.20}'),
    ],
)
def test_amplification_multiplies_what_is_configured_with_what_cpus_are_worth(
    enable: bool, ratios: dict[str, float], current: str | None, expected: str | None
) -> None:
    slo = config_of(
        {
            "colocation-config": {"enable": True},
            "resource-amplification-config": {"enable": enable, "resourceAmplificationRatio": ratios},
        }
    )
    given = state(node(annotations={RATIO: current} if current else {}), report=base())
    assert found(given, slo, "ResourceAmplification").annotations == {AMPLIFIED: expected}


@pytest.mark.parametrize(("ratios", "current"), [({"memory": 0.9}, None), ({"cpu": 1.5}, "much")])
def test_an_amplification_that_makes_no_sense_goes_away(ratios: dict[str, float], current: str | None) -> None:
    slo = config_of(
        {
            "colocation-config": {"enable": True},
            "resource-amplification-config": {"enable": True, "resourceAmplificationRatio": ratios},
        }
    )
    given = state(node(annotations={RATIO: current} if current else {}), report=base())
    outcome = found(given, slo, "ResourceAmplification")
    assert outcome.failed
    assert prepared(given, slo).annotations[AMPLIFIED] is None


def _gpu(minor: int, health: bool = True, memory: str = "80Gi") -> dict[str, Any]:
    resources = {
        "koordinator.sh/gpu-core": "100",
        "koordinator.sh/gpu-memory": memory,
        "koordinator.sh/gpu-memory-ratio": "100",
    }
    return {"type": "gpu", "minor": minor, "health": health, "resources": resources}


def test_gpus_are_the_sum_of_the_healthy_ones() -> None:
    labels = {"node.koordinator.sh/gpu-model": "H200", "node.koordinator.sh/gpu-driver-version": "1", "other": "x"}
    shown = prepared(state(report=base(), devices=device([_gpu(0), _gpu(1), _gpu(2, health=False)], labels)), config())
    assert {name: amount for name, amount in shown.resources.items() if "gpu" in name} == {
        "koordinator.sh/gpu": 200,
        "koordinator.sh/gpu-core": 200,
        "koordinator.sh/gpu-memory": 160 * 2**30,
        "koordinator.sh/gpu-memory-ratio": 200,
    }
    assert shown.labels == {key: text for key, text in labels.items() if key != "other"}


def test_only_nvidia_has_the_resource_that_stands_for_both() -> None:
    npu = {
        "type": "gpu",
        "health": True,
        "resources": {"huawei.com/npu-core": "20", "koordinator.sh/gpu-memory": "8Gi"},
    }
    shown = prepared(
        state(report=base(), devices=device([npu], {"node.koordinator.sh/gpu-vendor": "huawei"})), config()
    )
    assert "koordinator.sh/gpu" not in shown.resources
    assert shown.resources["huawei.com/npu-core"] == 20


def test_gpu_shared_is_told_by_its_gate() -> None:
    given = state(report=base(), devices=device([_gpu(0), _gpu(1)]))
    plugins = choose(gpu_shared=True)
    (outcome,) = [
        plugin_outcome
        for plugin_outcome in outcomes(given, config(), plugins=plugins)
        if plugin_outcome.plugin == "GPUDeviceResource"
    ]
    assert {figure.resource: figure.amount for figure in outcome.figures}["koordinator.sh/gpu.shared"] == 200


@pytest.mark.parametrize("devices", [None, device([]), device([_gpu(0, health=False)])])
def test_without_a_healthy_gpu_none_is_shown(devices: Any) -> None:
    shown = prepared(state(report=base(), devices=devices), config()).resources
    for name in ("koordinator.sh/gpu", "koordinator.sh/gpu-core", "koordinator.sh/gpu.shared", "huawei.com/npu-dvpp"):
        assert shown[name] is None


def test_each_healthy_rdma_device_is_worth_100() -> None:
    cards: list[dict[str, Any]] = [
        {"type": "rdma", "health": True},
        {"type": "rdma", "health": True},
        {"type": "rdma"},
        _gpu(0),
    ]
    assert prepared(state(report=base(), devices=device(cards)), config()).resources["koordinator.sh/rdma"] == 200
    assert prepared(state(report=base(), devices=device([_gpu(0)])), config()).resources["koordinator.sh/rdma"] is None


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        (("*",), 6),
        (("BatchResource",), 1),
        (("*", "-BatchResource"), 5),
        (("-BatchResource", "*"), 5),
        ((), 0),
    ],
)
def test_plugins_are_chosen_by_name(wanted: tuple[str, ...], chosen: int) -> None:
    assert len(choose(wanted)) == chosen


def test_a_plugin_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(PluginError, match="BatchResource"):
        choose(("*", "-BatchResources"))


def test_what_a_plugin_that_is_not_chosen_writes_is_left_alone() -> None:
    from koord.manager.node_resource.prepare import prepare

    given = state(report=base())
    shown = prepare(given.node, outcomes(given, config(), plugins=choose(("MidResource",))))
    assert set(shown.resources) == {"kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"}
