"""Learnt pairs: how a weight rises, fades and is forgotten, and what no tenant can do to it."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.machinery.codec import convert
from koord.api.protocol.crd.interference_pair import InterferencePairStatus, PairedWorkload
from koord.api.protocol.crd.node_metric import PodMetricInfo
from koord.api.protocol.slowed_by import SLOWED_BY, Blame, Verdict, blames_in
from koord.api.text.timestamp import from_seconds
from koord.manager.pairs.learning import (
    FORGOTTEN_BELOW,
    HALF_LIFE_S,
    MOST_OF_A_NAMESPACE,
    MOST_PAIRS,
    NAMED_AGAIN_S,
    OLDEST_S,
    Heard,
    Key,
    Known,
    known_of,
    learn,
    name_of,
    object_of,
)

NOW_S = 1_800_000_000.0
WEB = PairedWorkload("shop", "Deployment", "web")
BUILD = PairedWorkload("batch", "Job", "build")
PAIR = (WEB, BUILD)


def heard(
    at_s: float, verdict: str = "named", victim: PairedWorkload = WEB, culprit: PairedWorkload = BUILD, node: str = "n1"
) -> Heard:
    return Heard(node, Blame(from_seconds(at_s), Verdict(verdict), victim, culprit, "runQueueDelay"))


def after(known: Known, learnt_from: list[Heard], now_s: float) -> dict[Key, InterferencePairStatus]:
    """What is stored once the manager has written."""
    learnt = learn(known, learnt_from, now_s)
    return {key: each for key, each in {**known, **learnt.put}.items() if key not in learnt.gone}


@pytest.mark.parametrize(
    ("verdicts", "weight", "seen"),
    [
        (["named"], 20, 1),
        (["named", "helped"], 44, 1),  # 20 + 30% of 80
        (["named", "named"], 36, 2),  # 20 + 20% of 80
        (
            ["named", "helped", "named", "helped"],
            69,
            2,
        ),  # 44 -> 55.2 -> 55; 55 + 30% of 45
        (["named", "helped", "cleared"], 22, 1),
        (["cleared"], None, 0),
    ],
)
def test_each_blame_moves_the_weight_by_its_rule(verdicts: list[str], weight: int | None, seen: int) -> None:
    known: Known = {}
    now_s = NOW_S
    for verdict in verdicts:
        now_s += NAMED_AGAIN_S
        known = after(known, [heard(now_s, verdict)], now_s)
    if weight is None:
        assert known == {}
    else:
        assert (abs(known[PAIR].weight - weight) <= 1, known[PAIR].seen) == (True, seen)


def test_a_pair_halves_in_three_days_and_is_forgotten_in_the_end() -> None:
    known = after({}, [heard(NOW_S), heard(NOW_S + 10, "helped")], NOW_S + 10)
    assert known[PAIR].weight == 44
    assert after(known, [], NOW_S + 10 + HALF_LIFE_S)[PAIR].weight == 22
    days, weights = 0, [44]
    while known and days < 60:
        days += 1
        known = after(known, [], NOW_S + days * 86400)
        weights += [each.weight for each in known.values()]
    assert not known
    assert all(earlier >= later >= FORGOTTEN_BELOW for earlier, later in pairwise(weights))
    # However often it is looked at, it fades from what it was when seen: 44 x 2^-(d/3) < 5 (rounded) from day 10 on.
    assert days == math.ceil(3 * math.log2(44 / 4.5))


def test_a_weight_that_fades_a_little_is_not_written() -> None:
    known = after({}, [heard(NOW_S)], NOW_S)
    assert learn(known, [], NOW_S + 3600) == learn({}, [], NOW_S)


def test_a_report_that_is_heard_again_teaches_nothing() -> None:
    told = [heard(NOW_S), heard(NOW_S + 20, "helped"), heard(NOW_S + 5, node="n2")]
    known = after({}, told, NOW_S + 30)
    assert learn(known, told, NOW_S + 30).put == {}
    assert learn(known, [heard(NOW_S + 20, "helped", node="n9")], NOW_S + 31).put == {}


@pytest.mark.parametrize("at_s", [NOW_S - OLDEST_S - 1, NOW_S + 3600])
def test_a_blame_from_long_ago_or_from_the_future_says_nothing(at_s: float) -> None:
    assert learn({}, [heard(at_s)], NOW_S).put == {}


def test_a_time_in_the_future_cannot_keep_a_pair_for_ever() -> None:
    status = InterferencePairStatus(80, 80, 9, last_seen=from_seconds(NOW_S + 10**9))
    known = after({PAIR: status}, [], NOW_S)
    assert after(known, [], NOW_S + HALF_LIFE_S)[PAIR].weight == 40


def test_a_pair_that_somebody_made_by_hand_stays_as_it_is() -> None:
    known = {PAIR: InterferencePairStatus(70)}
    learnt = learn(known, [heard(NOW_S), heard(NOW_S + 9, "cleared")], NOW_S + 30 * 86400)
    assert (learnt.put, learnt.gone) == ({}, ())


def test_a_tenant_cannot_crowd_others_out() -> None:
    known = after({}, [heard(NOW_S)], NOW_S)
    theirs = [PairedWorkload("evil", "Job", f"noise-{number}") for number in range(3 * MOST_PAIRS)]
    told = [heard(NOW_S + 400, culprit=each) for each in theirs]
    told += [heard(NOW_S + 400, victim=each, culprit=BUILD) for each in theirs]
    found = after(known, told, NOW_S + 400)
    assert PAIR in found
    assert sum(culprit.namespace == "evil" for _, culprit in found) <= MOST_OF_A_NAMESPACE
    assert sum(victim.namespace == "evil" for victim, _ in found) <= MOST_OF_A_NAMESPACE


def test_of_too_many_pairs_the_strongest_are_kept() -> None:
    many = [PairedWorkload(f"team-{number // 40}", "Job", f"j{number}") for number in range(MOST_PAIRS + 20)]
    others = [PairedWorkload(f"shop-{number // 40}", "Job", f"v{number}") for number in range(MOST_PAIRS + 20)]
    told = [heard(NOW_S, victim=v, culprit=c) for v, c in zip(others, many, strict=True)]
    told += [heard(NOW_S + 5, "helped", victim=others[-1], culprit=many[-1])]
    found = after({}, told, NOW_S + 5)
    assert len(found) == MOST_PAIRS
    assert (others[-1], many[-1]) in found


VERDICTS = st.sampled_from(list(Verdict))
TOLD = st.tuples(st.integers(0, 90000), VERDICTS, st.integers(0, 3), st.sampled_from(["n1", "n2"]))
STORY = st.lists(TOLD, max_size=12)


@settings(max_examples=25)
@given(STORY, st.integers(0, 100000))
def test_whatever_is_told_weights_stay_in_bounds_and_go_to_nothing(
    story: list[tuple[int, Verdict, int, str]], later_s: int
) -> None:
    known: Known = {}
    told: list[Heard] = []
    for at_s, verdict, number, node in sorted(story, key=lambda each: each[0]):
        culprit = PairedWorkload("batch", "Job", f"b{number}")
        told.append(heard(NOW_S + at_s, str(verdict), culprit=culprit, node=node))
        known = after(known, told, NOW_S + at_s)
        again = learn(known, told, NOW_S + at_s)
        assert (again.put, again.gone) == ({}, ())
        assert all(FORGOTTEN_BELOW <= each.weight <= 100 for each in known.values())
    faded = after(known, [], NOW_S + 90000 + later_s)
    assert all(faded[key].weight <= known[key].weight + 1 for key in faded)
    assert after(known, [], NOW_S + 90000 + 60 * 86400) == {}


def test_an_object_is_found_again_by_its_pair_whatever_its_name() -> None:
    stored = object_of(PAIR, InterferencePairStatus(30))
    assert stored.metadata.name == name_of(PAIR) != name_of((BUILD, WEB))
    assert known_of([stored])[PAIR][1].weight == 30
    odd = PairedWorkload("shop", "Deployment", "Not_A_Name." * 20)
    assert len(name_of((odd, odd))) < 253


def blamed(told: object, namespace: str = "shop") -> list[Blame]:
    pod = {"name": "p", "namespace": namespace, "extensions": {SLOWED_BY: told}}
    return list(blames_in(convert(PodMetricInfo, pod)))


GOOD = {
    "at": "2026-11-16T08:00:00Z",
    "verdict": "named",
    "victim": {"namespace": "shop", "kind": "Deployment", "name": "web"},
    "culprit": {"namespace": "batch", "kind": "Job", "name": "build"},
}


@pytest.mark.parametrize(
    "told",
    [
        "named",
        [1, None, {}],
        [{**GOOD, "at": "yesterday"}],
        [{**GOOD, "verdict": "guilty"}],
        [{**GOOD, "culprit": {"namespace": "batch", "kind": "Job", "name": "x" * 300}}],
        [{**GOOD, "culprit": GOOD["victim"]}],
        [{**GOOD, "victim": {"namespace": "bank", "kind": "Deployment", "name": "web"}}],
    ],
)
def test_a_blame_that_makes_no_sense_is_passed_over(told: object) -> None:
    assert blamed(told) == []


def test_a_blame_is_read_and_one_pod_cannot_tell_many() -> None:
    assert [(str(blame.victim), str(blame.culprit)) for blame in blamed([GOOD])] == [
        ("shop/deployment/web", "batch/job/build")
    ]
    assert len(blamed([GOOD] * 100)) == 8
