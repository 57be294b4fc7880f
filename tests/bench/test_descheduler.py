"""The benchmark of the descheduler runs, and its round does what a round is for."""

from __future__ import annotations

from koord_bench import descheduler


def test_a_quick_run_moves_pods_and_measures_every_figure() -> None:
    found = {(result.case, result.metric): result.value for result in descheduler.run(True, lambda text: None)}
    assert found["100 nodes, 3000 pods", "pods moved"] > 0
    assert found["50 moves under way", "a step, p99"] > 0
    assert {metric for _, metric in found} == {
        "a round",
        "memory above the state",
        "pods moved",
        "twice the nodes take",
        "a step, p99",
        "arbitration, each",
    }
