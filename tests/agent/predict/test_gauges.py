"""Predictions as Prometheus sees them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from koord.agent.live.metrics import AgentCollector
from koord.agent.predict.forecast import Forecast
from koord.agent.predict.misses import HourMisses
from koord.agent.predict.reclaim import Amounts, PodPeak, by_predictor, careful
from koord.agent.series.samples import Samples
from tests.agent import states

GIB = 1 << 30


def gauges(forecast: Forecast | None) -> dict[tuple[str, ...], float]:
    agent = cast("Any", SimpleNamespace(samples=Samples()))
    state = states.node()
    collector = AgentCollector(agent, lambda: state, {}, lambda: states.NOW, None, lambda: forecast)
    return {
        (family.name.removeprefix("koordlet_node_predicted_resource_"), *(sample.labels[name] for name in LABELS)): (
            sample.value
        )
        for family in collector.collect()
        if "predicted" in family.name
        for sample in family.samples
    }


LABELS = ("predictor", "resource", "unit")


def test_each_predictor_and_the_one_that_counts_are_gauges() -> None:
    # A pod asks for 10 cores and peaks at 4; the bands together peak at 5 with the system: 10-4 and 10-5 can be lent.
    pods = [PodPeak(Amounts(10_000, 8 * GIB), Amounts(4000, 2 * GIB))]
    found = by_predictor(Amounts(32_000, 64 * GIB), pods, Amounts(5000, 3 * GIB))
    told = gauges(Forecast(careful(found.values()), HourMisses(), states.NOW - 60, found))
    assert told["reclaimable", "podReclaimablePredictor", "cpu", "core"] == 6
    assert told["reclaimable", "priorityReclaimablePredictor", "cpu", "core"] == 5
    assert told["reclaimable", "minPredictor", "cpu", "core"] == 5
    assert told["peak", "minPredictor", "cpu", "core"] == 5
    assert told["reclaimable", "minPredictor", "memory", "byte"] == 5 * GIB
    assert len(told) == 12


def test_an_old_forecast_is_not_told() -> None:
    found = by_predictor(Amounts(1000, GIB), [], Amounts(0, 0))
    assert gauges(Forecast(careful(found.values()), HourMisses(), states.NOW - 600, found)) == {}
    assert gauges(None) == {}
