"""The benchmark of batch work beside the oracle."""

from __future__ import annotations

from koord_bench.sim_mix import measure


def test_the_default_policy_does_less_than_the_fluid_bound_and_more_than_nothing() -> None:
    figures = measure("adaptive", "quick")
    assert 0 < figures["work"] <= figures["bound"]
    assert figures["nodes"] == 4
