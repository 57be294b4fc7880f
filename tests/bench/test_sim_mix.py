"""The benchmark of batch work beside the oracle."""

from __future__ import annotations

from pathlib import Path

from koord_bench.sim_mix import measure


def test_no_policy_that_keeps_the_mark_does_more_than_the_fluid_bound() -> None:
    own, oracle = (measure(policy, "quick", Path()) for policy in ("adaptive", "oracle"))
    assert own["nodes"] == oracle["nodes"] == 4
    assert own["bound"] == oracle["bound"]
    assert 0 < own["work"] < oracle["work"] <= oracle["bound"]
