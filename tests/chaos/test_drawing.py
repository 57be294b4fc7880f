"""Which faults happen when: by a seed, within the bounds of their kinds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.machinery.faults import BadInput
from koord_chaos.faults.drawing import Fault, check_targets, draw, read, write
from koord_chaos.faults.kinds import BY_NAME, KINDS, Scope, Target
from koord_chaos.faults.live.injectors import ANYWHERE, LOCALLY, ON_OWN
from koord_chaos.faults.recovery import Recovery, Row, quantile, rows
from koord_chaos.halving import halves

TARGETS = {
    Target.PROCESS: ["apiserver", "scheduler-a"],
    Target.CLIENT: ["scheduler-a"],
    Target.SERVER: ["apiserver"],
    Target.LEADER: ["scheduler"],
    Target.NODE: ["hollow-0001"],
}


@given(st.integers(), st.integers(0, 1000), st.integers(1, 8))
@settings(max_examples=40)
def test_a_round_is_the_same_for_its_seed_and_within_the_bounds_of_its_kinds(seed: int, number: int, most: int) -> None:
    faults = draw(seed, number, KINDS, TARGETS, most)
    assert faults == draw(seed, number, KINDS, TARGETS, most)
    assert 1 <= len(faults) <= most
    assert len({fault.target for fault in faults}) == len(faults), "no target has two faults at a time"
    for fault in faults:
        kind = BY_NAME[fault.kind]
        assert fault.target in TARGETS[kind.target]
        assert kind.shortest_s <= fault.for_s <= kind.longest_s
        assert kind.amounts[0] <= fault.amount <= kind.amounts[1]


def test_kinds_without_a_target_here_are_not_drawn() -> None:
    only = {Target.NODE: ["n1"], Target.PROCESS: []}
    drawn = {fault.kind for number in range(50) for fault in draw(1, number, KINDS, only)}
    assert drawn == {"silent-node", "lying-node"}


@pytest.mark.parametrize(("scope", "injectors"), [(Scope.ANY, ANYWHERE), (Scope.LOCAL, LOCALLY), (Scope.OWN, ON_OWN)])
def test_each_kind_has_an_injector_on_the_clusters_that_can_have_it(scope: Scope, injectors: dict[str, object]) -> None:
    wider = {Scope.ANY: [Scope.ANY], Scope.LOCAL: [Scope.ANY, Scope.LOCAL], Scope.OWN: list(Scope)}[scope]
    assert {kind.name for kind in KINDS if kind.scope in wider} <= injectors.keys()
    assert injectors.keys() <= BY_NAME.keys()


def test_rounds_are_written_and_read(tmp_path: Path) -> None:
    rounds = [draw(3, number, KINDS, TARGETS) for number in range(5)]
    write(tmp_path / "rounds.json", rounds)
    assert read(tmp_path / "rounds.json") == rounds


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "not a list of rounds"),
        ("[[{}]]", "not a list of rounds"),
        ('[[{"kind": "flood", "target": "x"}]]', "round 0: kind 'flood' must be one of kill, pause"),
    ],
)
def test_a_file_that_has_no_rounds_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "rounds.json"
    file.write_text(text)
    with pytest.raises(BadInput, match=reason):
        read(file)


def test_a_target_that_a_cluster_does_not_have_is_refused() -> None:
    check_targets([(Fault("kill", "apiserver"),)], TARGETS)
    with pytest.raises(BadInput, match=r"round 0: kill of 'etcd': the target can be apiserver, scheduler-a"):
        check_targets([(Fault("kill", "etcd"),)], TARGETS)


@given(st.sets(st.integers(0, 30), min_size=1, max_size=4))
@settings(max_examples=40)
async def test_halving_finds_what_is_needed_to_fail(needed: set[int]) -> None:
    tries = 0

    async def fails(some: Sequence[int]) -> bool:
        nonlocal tries
        tries += 1
        return needed <= set(some)

    assert set(await halves(range(31), fails)) == needed
    assert tries <= 31 * 5


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([1.0], 0.5, 1.0), ([1.0, 2.0], 0.5, 1.0), ([1.0, 2.0, 3.0], 0.5, 2.0), (list(range(1, 101)), 0.99, 99)],
)
def test_quantiles(values: list[float], share: float, expected: float) -> None:
    assert quantile(values, share) == expected


def test_recoveries_are_counted_by_kind_in_the_order_of_the_kinds() -> None:
    recoveries = [Recovery("pause", "a", None), Recovery("kill", "a", 3.0), Recovery("kill", "b", 1.0)]
    first, second = rows(recoveries)
    assert first == Row("kill", 2, 1.0, 3.0, 0)
    assert (second.kind, second.times, second.never) == ("pause", 1, 1)
    assert math.isnan(second.p50_s)
