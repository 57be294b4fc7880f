"""The benchmark of scheduling from end to end measures what it says, at a size at which a test may."""

from __future__ import annotations

import pytest

from koord_bench import scheduling
from koord_bench.bursts import PodTimes
from koord_bench.harness import Size

TINY = Size(nodes=5, burst=20, trickle=5, trickle_per_s=50.0, real_nodes=5, real_pods=20)


def test_every_figure_of_the_embedded_server_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "QUICK", TINY)
    monkeypatch.setattr(scheduling, "_side_by_side", lambda *_: None)
    monkeypatch.setattr(scheduling, "_every_plugin", lambda *_: None)
    results = {result.metric: result for result in scheduling.run(quick=True)}
    assert set(results) == {
        "bound pods",
        "writes",
        "plain writes",
        "of what writes allow",
        "writes until all are bound",
        "scheduler's CPU",
        "created to bound, p50",
        "created to bound, p99",
    }
    assert all(result.value > 0 for result in results.values())
    # The pod, its binding and the event of it, and that it runs.
    assert 4 <= results["writes"].value < 12
    assert results["created to bound, p50"].value <= results["created to bound, p99"].value


def test_shares_are_of_those_that_waited() -> None:
    keys = [f"bench/burst-{number}" for number in range(100)]
    times = PodTimes(dict.fromkeys(keys, 1.0), {key: 1.0 + number for number, key in enumerate(keys)})
    assert times.waited_s(0.5) == 50
    assert times.waited_s(0.99) == 99
