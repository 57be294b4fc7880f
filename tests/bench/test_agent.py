"""The benchmark of the agent measures what it says, at a size at which a test may."""

from __future__ import annotations

import pytest

from koord_bench import agent
from koord_bench.harness import Size


def test_every_case_gives_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "QUICK", Size(pods=4, many_pods=8, warm_s=0.5, part_s=1, parts=2))
    results = agent.run(quick=True)
    assert len(results) == 6
    assert all(result.value > 0 for result in results if "growth" not in result.metric)
    assert {result.goal for result in results} == {None}, "goals are for the full size"
