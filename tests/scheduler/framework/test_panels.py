"""Judges that are asked together say what each of them says alone, whatever changes, and however much is kept."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.configuration.scheduler_args import FitScoringStrategy, NodeResourcesFitArgs, ResourceWeight
from koord.api.kubernetes.node import Node
from koord.scheduler.framework import panels, pod_class
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Many, One
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.judged import Judged
from koord.scheduler.framework.panels import Panel
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from koord.scheduler.plugins.node_resources_fit import NodeResourcesFit
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array, Changes, Reason
from tests.scheduler.builders import ROW_LOCAL, ask, engine, node
from tests.scheduler.framework.reserved import Reserved

NODES = 40


class Scene:
    """A cluster whose nodes and pods change, and pods of many classes that come in turn."""

    def __init__(self, seed: int, plugins: tuple[Plugin, ...] = ROW_LOCAL) -> None:
        self.rng = random.Random(seed)
        self.number = 0
        self.engine = engine(*(self.node(i) for i in range(NODES)), plugins=plugins)
        self.placed: list[tuple[str, str | None]] = []

    def node(self, i: int) -> Node:
        rng = self.rng
        taints = [{"key": "batch", "effect": "NoSchedule"}] if rng.random() < 0.1 else []
        extended = {"example.com/gpu": str(rng.randrange(4))} if rng.random() < 0.3 else {}
        return node(
            f"n{i}", cpu=rng.choice(["2", "8"]), memory=rng.choice(["0", "32Gi"]), pods=rng.choice(["4", "110"]),
            labels={"pool": rng.choice("ab")}, taints=taints, extended=extended,
        )  # fmt: skip

    def pod(self) -> Ask:
        rng, kind = self.rng, self.rng.randrange(12)
        self.number += 1
        tolerations = [{"key": "batch", "operator": "Exists"}] if kind % 4 == 0 else []
        selector = {"pool": "a"} if kind % 3 == 0 else {}
        cpu, memory = f"{100 + 50 * kind}m" if kind else "0", rng.choice(["0", "1Gi"])
        return ask(f"p{self.number}", cpu=cpu, memory=memory, tolerations=tolerations, nodeSelector=selector)

    def step(self) -> None:
        rng, cluster = self.rng, self.engine.cluster
        dice = rng.random()
        if dice < 0.75:
            placement = self.engine.place(self.pod())
            self.placed.append((placement.pod, placement.node))
        elif dice < 0.9 and cluster.pods:
            cluster.remove_pod(rng.choice(sorted(cluster.pods)))
        elif dice < 0.94:
            cluster.put_node(self.node(rng.randrange(NODES + 5)))
        elif dice < 0.97:
            known = rng.choice(sorted(cluster.nodes))
            meta = replace(cluster.nodes[known].metadata, labels={"pool": rng.choice("ab")})
            self.engine.class_of(self.pod()).best()
            cluster.put_node(replace(cluster.nodes[known], metadata=meta))
        else:
            with cluster.transaction() as attempt:
                self.engine.place(self.pod())
                attempt.undo()


PROFILES = pytest.mark.parametrize(
    "plugins",
    [pytest.param(ROW_LOCAL, id="candidates count"), pytest.param((NodeResourcesFit(),), id="the best row counts")],
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (pod_class, "FEW", 3),
        (panels, "WINDOW", 64),
        (panels, "FEW_CHANGES", 2),
        (panels, "MOST_CHANGES", 24),
        (panels, "MOST_ANSWERS", 200),
        (panels, "FIRST_SEATS", 2),
        (panels, "PATIENCE", 3),
        (panels, "FEW_PARTS", 1),
    ):
        monkeypatch.setattr(module, name, value)


@PROFILES
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_together_they_place_pods_as_alone(small: None, plugins: tuple[Plugin, ...], seed: int) -> None:
    together, alone = Scene(seed, plugins), Scene(seed, plugins)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Judged, "join", lambda self, behind: None)
        for _ in range(250):
            alone.step()
    for _ in range(250):
        together.step()
    assert together.placed == alone.placed


@PROFILES
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_what_is_kept_is_what_judging_everything_anew_gives(
    small: None, plugins: tuple[Plugin, ...], seed: int
) -> None:
    scene = Scene(seed, plugins)
    for _ in range(200):
        scene.step()
        if scene.rng.random() < 0.1:
            pod = scene.pod()
            kept = scene.engine.class_of(pod)
            fresh = Engine(scene.engine.cluster, scene.engine.profile).class_of(pod)
            assert kept.best() == fresh.best()
            assert kept.feasible_rows().tolist() == fresh.feasible_rows().tolist()
            assert kept.why_not() == fresh.why_not()


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_owners_of_reservations_are_placed_together_with_others_as_alone(small: None, seed: int) -> None:
    together, alone = Reserved(seed), Reserved(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Judged, "join", lambda self, behind: None)
        for _ in range(180):
            alone.step()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pod_class, "lead_of", lambda facets, parts: None)
        for _ in range(180):
            together.step()
    assert together.placed == alone.placed


def test_classes_whose_pods_come_in_turn_are_asked_together(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0
    take_over = Judged._take_over

    def counted(self: Judged, changed: Changes, first: int, apart: Sequence[int]) -> object:
        nonlocal taken
        taken += 1
        return take_over(self, changed, first, apart)

    monkeypatch.setattr(Judged, "_take_over", counted)
    found = engine(*(node(f"n{i}", cpu="64") for i in range(200)))
    for i in range(600):
        assert found.place(ask(f"p{i}", cpu=f"{100 + i % 40}m")).node is not None
    assert taken > 400


def test_of_a_row_that_changed_often_they_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[int]] = []
    judge = Panel._judge

    def counted(self: Panel, rows: Array, places: Array, first: int = 0) -> None:
        asked.append(rows.tolist())
        judge(self, rows, places, first)

    monkeypatch.setattr(Panel, "_judge", counted)
    found = engine(*(node(f"n{i}", cpu="64") for i in range(20)))
    for i in range(400):
        found.place(ask(f"p{i}", cpu=f"{100 + i % 40}m"))
        # What pods take is rewritten: changes come faster than rows differ.
        for _ in range(3):
            found.cluster.table.add(("requested", "memory"), i % 3, 1)
            found.cluster.table.read()
    assert len(asked) > 5
    assert all(len(set(rows)) == len(rows) for rows in asked)


def test_a_panel_is_not_asked_for_pods_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Panel] = []
    catch_up = Panel.catch_up

    def counted(self: Panel) -> bool:
        asked.append(self)
        return catch_up(self)

    found = engine(*(node(f"n{i}", cpu="64", extended={"example.com/gpu": "100"}) for i in range(50)))

    def place(kind: str, rounds: int) -> None:
        for i in range(rounds):
            requests = {"cpu": f"{100 + i % 20}m", **({"example.com/gpu": "1"} if kind == "gpu" else {})}
            containers = [{"name": "c", "resources": {"requests": requests}}]
            assert found.place(ask(f"p{len(found.cluster.pods)}", containers=containers)).node is not None

    place("gpu", 150)
    place("plain", 150)
    monkeypatch.setattr(Panel, "catch_up", counted)
    place("plain", 40)
    assert len({id(panel) for panel in asked}) == 1
    place("gpu", 40)
    assert len({id(panel) for panel in asked}) == 2


def test_a_node_that_filled_up_while_it_was_in_another_pool_takes_no_pod_when_it_is_in_this_one() -> None:
    found = engine(*(node(f"n{i}", cpu="8", labels={"pool": "a" if i else "b"}) for i in range(30)))
    number = 0

    def place(cpu: str, pool: str | None = None) -> None:
        nonlocal number
        number += 1
        selector = {} if pool is None else {"pool": pool}
        assert found.place(ask(f"p{number}", cpu=cpu, nodeSelector=selector)).node is not None

    for _ in range(6):
        place("1050m", "a")
        for kind in range(12):
            place(f"{100 + kind}m")
    large = found.class_of(ask("large", cpu="1050m", nodeSelector={"pool": "a"}))
    for kind in range(10):
        place("700m", "b")
        place(f"{100 + kind}m")
    row = found.cluster.table.row_of["n0"]
    assert large.best() is not None
    assert found.cluster.table.columns["requested", "cpu"].item(row) > 8000 - 1050
    found.cluster.put_node(node("n0", cpu="8", labels={"pool": "a"}))
    assert not large.is_feasible(row)


def test_classes_that_lost_their_seats_are_asked_alone_though_nobody_has_one(small: None) -> None:
    found = engine(*(node(f"n{i}", cpu="64") for i in range(80)))
    cluster, number = found.cluster, 0

    def decide(kind: int) -> None:
        nonlocal number
        number += 1
        assert found.place(ask(f"p{number}", cpu=f"{100 + kind}m")).node is not None

    def much_happens(rows: int) -> None:
        for row in range(rows):
            cluster.table.touch(row, int(Reason.REQUESTED))

    for _ in range(10):
        for kind in range(3):
            decide(kind)
            much_happens(5)
    for kind in (0, 1, 2):
        much_happens(80)
        decide(kind)
        much_happens(10)
    decide(0)


AMOUNTS = st.sampled_from([0, 1, 7, 99, 100, 101, 3333, 32000, (1 << 35) + 1, (1 << 46) - 1, 1 << 46, (1 << 52) + 1])


@pytest.mark.parametrize("strategy", ["LeastAllocated", "MostAllocated"])
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(
    cells=st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS), min_size=1, max_size=6),
    requests=st.lists(st.integers(1, 40_000), min_size=2, max_size=5),
    weights=st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
def test_judges_of_amounts_say_together_what_each_says_of_one_row(
    strategy: Literal["LeastAllocated", "MostAllocated"],
    cells: list[tuple[int, int, int, int]],
    requests: list[int],
    weights: tuple[int, int],
) -> None:
    resources = (ResourceWeight("cpu", weights[0]), ResourceWeight("memory", weights[1]))
    fit = NodeResourcesFit(NodeResourcesFitArgs(scoring_strategy=FitScoringStrategy(strategy, resources)))
    cluster = Cluster()
    for i in range(len(cells)):
        cluster.put_node(node(f"n{i}"))
    for row, (cpu, cpu_taken, memory, memory_taken) in enumerate(cells):
        for name, there, taken in (("cpu", cpu, cpu_taken), ("memory", memory, memory_taken)):
            cluster.table.set(("allocatable", name), row, there)
            cluster.table.set(("requested", name), row, taken)
            cluster.table.set(f"non-zero {name}", row, taken)
    columns, rows = cluster.table.columns, range(len(cells))
    for plugin in (fit, NodeResourcesBalancedAllocation()):
        pods = [ask(f"p{i}", cpu=f"{milli}m", memory=str(milli << i * 9)) for i, milli in enumerate(requests)]
        judges = [judge for pod in pods if (judge := plugin.compile(pod, cluster)) is not None]
        forms = [judge.shortcuts.fast for judge in judges if judge.shortcuts.fast is not None]
        numbers = [form.numbers for form in forms]
        joint, many = forms[0].together(numbers), Many(columns, np.array(rows)[:, np.newaxis])
        alone = [[judge.score(One(columns, row)) for judge in judges] for row in rows]
        assert np.broadcast_to(joint.score(many), (len(rows), len(judges))).tolist() == alone
        feasible, score = forms[-1].of_row(columns)
        assert [[score(row, number) for number in numbers] for row in rows] == alone
        if plugin is fit:
            alone = [[judge.feasible(One(columns, row)) for judge in judges] for row in rows]
            assert np.broadcast_to(joint.feasible(many), (len(rows), len(judges))).tolist() == alone
            assert [[feasible(row, number) for number in numbers] for row in rows] == alone
