"""Counts of pods: what they remember, and that they end with their last user."""

from __future__ import annotations

import gc
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from koord.api.text.selector import EVERYTHING, parse_labels
from koord.scheduler.framework.ask import Ask
from koord.scheduler.state import counts
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.counts import FEW_ROWS, Tally
from tests.scheduler.build import node, pod

DEFAULT = frozenset({"default"})


def cluster(nodes: int = 3) -> Cluster:
    found = Cluster()
    for i in range(nodes):
        found.put_node(node(f"n{i}"))
    return found


def put(where: Cluster, name: str, row: int, **more: Any) -> None:
    where.place(Ask(pod(name, **more)).record(), row)


def numbers(tally: Tally) -> list[int]:
    return [tally.at(row) for row in range(3)]


def test_a_selection_counts_the_pods_that_are_there_and_those_that_come_and_go() -> None:
    state = cluster()
    put(state, "old", 0, labels={"app": "web"})
    web = state.counts.selection(DEFAULT, parse_labels("app=web"))
    put(state, "new", 1, labels={"app": "web"})
    put(state, "other", 1, labels={"app": "db"})
    put(state, "elsewhere", 1, labels={"app": "web"}, namespace="x")
    assert numbers(web) == [1, 1, 0]
    state.remove_pod("default/old")
    assert numbers(web) == [0, 1, 0]
    assert web.total == 1


def test_the_same_question_is_counted_once_while_someone_asks_it() -> None:
    state = cluster()
    first = state.counts.selection(DEFAULT, parse_labels("app=web"))
    assert state.counts.selection(DEFAULT, parse_labels("app=web")) is first
    assert state.counts.selection(None, parse_labels("app=web")) is not first
    gc.collect()
    assert len(state.counts._selections) == 1
    del first
    assert len(state.counts._selections) == 0
    put(state, "p", 0, labels={"app": "web"})
    assert state.counts.selection(DEFAULT, parse_labels("app=web")).total == 1


def test_pods_whose_labels_change_are_counted_by_the_new_ones() -> None:
    state = cluster()
    web = state.counts.selection(DEFAULT, parse_labels("app=web"))
    put(state, "p", 0, labels={"app": "web"})
    put(state, "p", 0, labels={"app": "db"})
    assert web.total == 0


def test_a_log_tells_what_changed_until_that_is_too_long_ago(monkeypatch: Any) -> None:
    monkeypatch.setattr(counts, "LONGEST_LOG", 4)
    tally = counts.Tally()
    tally.move(5, +1)
    seen = tally.version
    tally.move(2, +1)
    tally.move(5, -1)
    assert list(tally.since(seen) or []) == [2, ~5]
    for _ in range(10):
        tally.move(0, +1)
    assert tally.since(seen) is None
    assert list(tally.since(tally.version - 2) or []) == [0, 0]
    assert len(tally._log) <= 2 * counts.LONGEST_LOG


def test_only_labels_that_a_selector_names_make_a_difference() -> None:
    state = cluster()
    web = state.counts.selection(DEFAULT, parse_labels("app=web"))
    one = state.counts.face("default", {"app": "web", "pod-name": "a"})
    two = state.counts.face("default", {"app": "web", "pod-name": "b"})
    assert one is two
    named = state.counts.selection(DEFAULT, parse_labels("pod-name"))
    assert state.counts.face("default", {"app": "web", "pod-name": "a"}) is not state.counts.face(
        "default", {"app": "web", "pod-name": "b"}
    )
    put(state, "p", 0, labels={"app": "web", "pod-name": "a"})
    assert (web.total, named.total) == (1, 1)


def test_selectors_of_every_kind_find_their_pods() -> None:
    state = cluster()
    texts = ["app=web", "app in (web,db)", "app notin (db)", "app", "!tier", "app!=db", "rev>1", "app=web,tier!=x"]
    selections = {text: state.counts.selection(DEFAULT, parse_labels(text)) for text in texts}
    everything = state.counts.selection(None, EVERYTHING)
    put(state, "p", 0, labels={"app": "web", "rev": "2"})
    put(state, "q", 1, labels={"app": "db", "tier": "x", "rev": "1"})
    put(state, "r", 2)
    totals = {text: numbers(selection) for text, selection in selections.items()}
    assert totals == {
        "app=web": [1, 0, 0],
        "app in (web,db)": [1, 1, 0],
        "app notin (db)": [1, 0, 1],
        "app": [1, 1, 0],
        "!tier": [1, 0, 1],
        "app!=db": [1, 0, 1],
        "rev>1": [1, 0, 0],
        "app=web,tier!=x": [1, 0, 0],
    }
    assert everything.total == 3


def test_terms_are_found_while_a_pod_holds_them() -> None:
    state = cluster()
    selector = {"matchLabels": {"app": "web"}}
    terms = [{"topologyKey": "zone", "labelSelector": selector}]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}

    def held() -> list[int]:
        face = state.counts.face("default", {"app": "web"})
        return [tally.total for tally in state.counts.held(face)]

    assert held() == []
    put(state, "p", 0, affinity=affinity)
    put(state, "q", 1, affinity=affinity)
    assert held() == [2]
    assert state.counts.held(state.counts.face("default", {"app": "db"})) == ()
    state.remove_pod("default/p")
    state.remove_pod("default/q")
    assert held() == []
    gc.collect()
    assert state.counts.terms_held == 0


def test_counts_follow_a_table_that_grows() -> None:
    state = cluster(1)
    web = state.counts.selection(DEFAULT, parse_labels("app=web"))
    rows = [state.put_node(node(f"more-{i}")) for i in range(200)]
    put(state, "p", rows[-1], labels={"app": "web"})
    assert web.at(rows[-1]) == 1


TEXTS = ("a=1", "a in (1,2)", "a,b!=1", "!c", "d=1,a=2", "e", "c notin (1)", "b=2,e=1")


def affine(key: str) -> dict[str, Any]:
    """Anti-affinity to pods that have a label."""
    terms = [{"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}]
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 30))
def test_whoever_asks_and_whenever_the_numbers_are_those_of_the_pods(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Selectors come and go, and with them labels that count; pods come, go, change, end, and return by undo."""
    monkeypatch.setattr(counts, "UNUSED_KEYS", seed % 3)
    monkeypatch.setattr(counts, "REMEMBERED", 4)
    dice = random.Random(seed)
    state = cluster(4)
    kept: dict[tuple[str, bool], counts.Selection] = {}

    def act() -> None:
        chance = dice.random()
        if chance < 0.5:
            labels = {key: dice.choice("12") for key in "abcde" if dice.random() < 0.4}
            more = {"affinity": affine(dice.choice("abcde"))} if dice.random() < 0.2 else {}
            put(state, f"p{dice.randrange(12)}", dice.randrange(4), labels=labels, deleted=chance < 0.1, **more)
        elif chance < 0.7 and state.pods:
            state.remove_pod(dice.choice(sorted(state.pods)))
        elif chance < 0.85:
            text, live_only = dice.choice(TEXTS), dice.random() < 0.5
            kept[text, live_only] = state.counts.selection(DEFAULT, parse_labels(text), live_only=live_only)
        elif kept:
            del kept[dice.choice(sorted(kept))]

    for _ in range(40):
        if dice.random() < 0.2:
            with state.transaction() as transaction:
                for _ in range(4):
                    act()
                transaction.undo()
        act()
        for (text, live_only), selection in kept.items():
            wanted = parse_labels(text)
            for row, pods in state.pods_on.items():
                those = [pod for pod in pods.values() if wanted.matches(pod.labels)]
                assert selection.at(row) == sum(1 for record in those if not (live_only and record.terminating))
        label = {dice.choice("abcde"): "1"}
        held = state.counts.held(state.counts.face("default", label))
        holders = [each for each, _ in state.pods.values() for term in each.held if term.term.matcher.matches(label)]
        assert sum(tally.total for tally in held) == len(holders)


def test_a_tally_of_many_rows_tells_the_same_as_one_of_few() -> None:
    few, many = Tally(), Tally()
    dice = random.Random(1)
    for row in range(4 * FEW_ROWS):
        many.move(row, +1)
    for row in range(4 * FEW_ROWS):
        many.move(row, -1)
    there: list[int] = []
    for _ in range(FEW_ROWS):
        if there and dice.random() < 0.4:
            row, sign = there.pop(dice.randrange(len(there))), -1
        else:
            row, sign = dice.randrange(3 * FEW_ROWS), +1
            there.append(row)
        few.move(row, sign)
        many.move(row, sign)
    sums = np.zeros(5 * FEW_ROWS, np.int64)
    few.add_to(sums, 3)
    many.add_to(sums, -2)
    assert sums.tolist() == [few.at(row) for row in range(5 * FEW_ROWS)]
    assert sums.tolist() == [many.at(row) for row in range(5 * FEW_ROWS)]
    assert few.total == many.total == len(there)
