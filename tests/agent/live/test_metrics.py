"""What Prometheus hears of an agent that does not know its node yet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from koord.agent.live.metrics import AgentCollector
from koord.agent.series.samples import Samples
from tests.agent import states


def test_an_agent_that_waits_for_kubelet_still_says_that_it_cannot_report() -> None:
    agent = cast("Any", SimpleNamespace(samples=Samples()))
    collector = AgentCollector(agent, lambda: None, {}, lambda: states.NOW, failing_s=lambda: {"usage": 40}, node="n1")
    samples = [sample for family in collector.collect() for sample in family.samples]
    assert [(sample.name, sample.labels, sample.value) for sample in samples] == [
        ("koordlet_report_failing_seconds", {"node": "n1", "report": "usage"}, 40)
    ]
