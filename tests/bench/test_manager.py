"""The benchmark of the manager measures what it says, at a size at which a test may."""

from __future__ import annotations

import pytest

from koord_bench import manager
from koord_bench.harness import Size


def test_every_case_gives_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "QUICK", Size(nodes=20, noisy_nodes=2, hours=1, up_nodes=2, pods=8))
    results = manager.run(quick=True)
    assert len(results) == 17
    assert all(result.value > 0 for result in results)
    noise = [result for result in results if "in 300 s" in result.metric]
    assert len(noise) == 4
    assert all(result.goal == 1 for result in noise)
