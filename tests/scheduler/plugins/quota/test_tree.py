"""Trees of quotas: the worked examples of the specification; and that a tree which changed is as good as a new one."""

from __future__ import annotations

import random

import pytest

from koord.scheduler.plugins.quota.tree import Bounds
from tests.scheduler.plugins.quota.recount import Built, Said, built, recount

CPU, MEMORY = "cpu", "memory"


def cores(parent: str, least: int, most: int, request: int = 0, *, lends: bool = True, used: int = 0) -> Said:
    bounds = Bounds({CPU: least * 1000}, {CPU: most * 1000}, {CPU: most * 1000}, lends)
    return Said(parent, bounds, {CPU: request * 1000}, {CPU: used * 1000})


def cards(least: int, request: int) -> Said:
    return Said("", Bounds({"gpu": least}, {"gpu": 100}, {"gpu": 1}), {"gpu": request})


def test_a_share_is_shared_again_below() -> None:
    tree = built(
        {CPU: 100_000},
        {
            "dev": cores("", 40, 60),
            "prod": cores("", 60, 100),
            "dev-a": cores("dev", 20, 60, 50),
            "dev-b": cores("dev", 10, 60, 30),
            "prod-x": cores("prod", 40, 100, 30),
            "prod-y": cores("prod", 20, 100, 5),
        },
    )
    assert tree.quotas["dev"].child_request == {CPU: 80_000}
    assert tree.quotas["dev"].limit_request == {CPU: 60_000}
    assert tree.runtimes(CPU) == {
        "dev": 60_000,
        "prod": 35_000,
        "dev-a": 35_000,
        "dev-b": 25_000,
        "prod-x": 30_000,
        "prod-y": 5_000,
    }


def test_what_a_child_asks_for_beyond_its_max_is_invisible_above() -> None:
    tree = built({CPU: 100_000}, {"parent": cores("", 0, 100), "leaf": cores("parent", 0, 30, 55)})
    assert tree.quotas["parent"].child_request == {CPU: 30_000}


def test_who_does_not_lend_asks_for_its_min_even_without_pods() -> None:
    tree = built({CPU: 100_000}, {"p": cores("", 20, 100, lends=False), "c": cores("p", 5, 100, 12)})
    assert tree.quotas["p"].child_request == {CPU: 12_000}
    assert tree.quotas["p"].request() == {CPU: 20_000}
    assert tree.tree.root.child_request == {CPU: 20_000}
    idle = built({CPU: 50_000}, {"a": cores("", 20, 50, lends=False), "b": cores("", 10, 50, 50)})
    assert idle.runtimes(CPU) == {"a": 20_000, "b": 30_000}


def test_mins_scale_for_all_siblings_of_one_parent() -> None:
    wants = {"a": cores("", 60, 200, 100), "b": cores("", 30, 200, 100), "c": cores("", 30, 200, 100)}
    assert built({CPU: 90_000}, wants).runtimes(CPU) == {"a": 45_000, "b": 22_500, "c": 22_500}
    gpus = {"a": cards(6, 50), "b": cards(3, 50), "c": cards(3, 50)}
    assert built({"gpu": 9}, gpus).runtimes("gpu") == {"a": 5, "b": 2, "c": 2}
    assert built({"gpu": 11}, gpus).runtimes("gpu") == {"a": 6, "b": 3, "c": 2}


def test_mins_scale_level_by_level() -> None:
    said = {
        "p": cores("", 100, 200),
        "q": cores("", 50, 200, 90),
        "p1": cores("p", 70, 200, 90),
        "p2": cores("p", 30, 200, 90),
    }
    tree = built({CPU: 120_000}, said)
    assert tree.runtimes(CPU) == {"p": 80_000, "q": 40_000, "p1": 56_000, "p2": 24_000}
    tree.tree.add(tree.quotas["q"], {CPU: 80_000}, -1, used=False, fixed=False)
    assert tree.runtimes(CPU) == {"p": 110_000, "q": 10_000, "p1": 75_000, "p2": 35_000}


def test_only_what_is_short_is_scaled() -> None:
    gib = 2**30
    both = {CPU: 100_000, MEMORY: 1000 * gib}
    a = Bounds({CPU: 10_000, MEMORY: 40 * gib}, both, both)
    b = Bounds({CPU: 10_000, MEMORY: 60 * gib}, both, both)
    much = {CPU: 10_000, MEMORY: 500 * gib}
    tree = built({CPU: 100_000, MEMORY: 50 * gib}, {"a": Said("", a, much), "b": Said("", b, much)})
    assert tree.runtimes(MEMORY) == {"a": 20 * gib, "b": 30 * gib}
    assert tree.runtimes(CPU) == {"a": 10_000, "b": 10_000}


def test_without_scaling_mins_stay() -> None:
    wants = {"a": cores("", 60, 200, 100), "b": cores("", 60, 200, 100)}
    assert built({CPU: 90_000}, wants, scales=False).runtimes(CPU) == {"a": 60_000, "b": 60_000}


def test_what_is_used_is_guaranteed_on_demand() -> None:
    said = {"p": cores("", 12, 40), "leaf": cores("p", 10, 40, 14, used=14), "other": cores("p", 5, 40)}
    tree = built({CPU: 40_000}, said, keeps=True)
    guaranteed = {name: quota.least[CPU] for name, quota in tree.quotas.items()}
    assert guaranteed == {"p": 19_000, "leaf": 14_000, "other": 5_000}
    assert tree.quotas["p"].allocated == {CPU: 19_000}


def test_a_resource_that_the_parent_does_not_bound_is_not_bounded_below() -> None:
    both = {CPU: 10_000, "gpu": 4}
    child = Said("p", Bounds({}, both, both), {"gpu": 3})
    tree = built({CPU: 8_000, "gpu": 2}, {"p": cores("", 0, 10), "c": child})
    assert tree.tree.runtime(tree.quotas["c"]) == {CPU: 0}


def test_huge_amounts_stay_exact() -> None:
    huge = 2**63 - 1
    bounds = Bounds({}, {MEMORY: huge}, {MEMORY: huge})
    tree = built({MEMORY: huge}, {name: Said("", bounds, {MEMORY: huge}) for name in "abc"})
    assert sum(runtime or 0 for runtime in tree.runtimes(MEMORY).values()) == huge


def _bounds(dice: random.Random) -> Bounds:
    keys = [CPU, MEMORY] if dice.random() < 0.8 else [CPU]
    most = {key: dice.randrange(0, 60) for key in keys}
    least = {key: dice.randrange(0, amount + 1) for key, amount in most.items() if dice.random() < 0.8}
    weight = {key: dice.choice((amount, 1, 0)) for key, amount in most.items()}
    return Bounds(least, most, weight, dice.random() < 0.7)


def _amounts(dice: random.Random) -> dict[str, int]:
    return {key: dice.randrange(0, 15) for key in (CPU, MEMORY, "fpga") if dice.random() < 0.8}


def _check(tree: Built, total: dict[str, int], said: dict[str, Said], *, scales: bool, keeps: bool) -> None:
    expected = recount(total, said, scales=scales, keeps=keeps)
    for name, quota in tree.quotas.items():
        quota_figures = expected[name]
        got = tree.tree.runtime(quota)
        assert got == quota_figures.runtime, name
        assert _without_zeros(quota.child_request) == _without_zeros(quota_figures.request), name
        assert _without_zeros(quota.used) == _without_zeros(quota_figures.used), name
        assert _without_zeros(quota.limit_request) == _without_zeros(quota_figures.limit_request), name
    if scales and not keeps:
        _check_promises(tree, total, said)


def _check_promises(tree: Built, total: dict[str, int], said: dict[str, Said]) -> None:
    for parent in ("", *said):
        children = [name for name, each in said.items() if each.parent == parent]
        has = total if not parent else tree.tree.runtime(tree.quotas[parent])
        for key in (CPU, MEMORY) if children else ():
            if parent and key not in has:
                continue
            given = {name: tree.tree.runtime(tree.quotas[name]).get(key) for name in children}
            assert sum(each or 0 for each in given.values()) <= has.get(key, 0)
            mins = sum(said[name].bounds.min.get(key, 0) for name in children)
            for name, amount in given.items():
                bounds = said[name].bounds
                if amount is None:
                    continue
                assert amount <= bounds.max[key]
                if mins <= has.get(key, 0):
                    assert amount >= min(tree.quotas[name].limit_request.get(key, 0), bounds.min.get(key, 0))


def _without_zeros(amounts: dict[str, int]) -> dict[str, int]:
    return {key: amount for key, amount in amounts.items() if amount}


@pytest.mark.parametrize("seed", range(24))
def test_a_tree_after_any_history_equals_one_from_scratch(seed: int) -> None:
    dice = random.Random(seed)
    scales, keeps = seed % 3 != 1, seed % 4 == 3
    total: dict[str, int] = {CPU: 60, MEMORY: 80}
    said: dict[str, Said] = {}
    tree = built(total, said, scales=scales, keeps=keeps)
    for step in range(120):
        name = dice.choice([f"q{i}" for i in range(10)])
        what = dice.random()
        if name not in said:
            said[name] = Said(dice.choice(["", *said]), _bounds(dice), _amounts(dice), _amounts(dice))
            tree.put(name, said[name])
        elif what < 0.15:
            gone = [quota.name for quota in tree.quotas[name].below()]
            tree.tree.detach(tree.quotas[name])
            for each in gone:
                del said[each], tree.quotas[each]
        elif what < 0.35:
            said[name].bounds = _bounds(dice)
            tree.tree.bind(tree.quotas[name], said[name].bounds)
        elif what < 0.45:
            total = {CPU: dice.randrange(0, 100), MEMORY: dice.randrange(0, 100)}
            tree.tree.has(total)
        else:
            used, sign, amounts = dice.random() < 0.5, dice.choice((1, 1, -1)), _amounts(dice)
            part = said[name].used if used else said[name].request
            amounts = {key: min(amount, part.get(key, 0)) if sign < 0 else amount for key, amount in amounts.items()}
            for key, amount in amounts.items():
                part[key] = part.get(key, 0) + sign * amount
            tree.tree.add(tree.quotas[name], amounts, sign, used=used, fixed=dice.random() < 0.3)
        if step % 3 == 0:
            _check(tree, total, said, scales=scales, keeps=keeps)
    _check(tree, total, said, scales=scales, keeps=keeps)


def test_what_hangs_below_a_quota_that_leaves_forms_no_tree() -> None:
    tree = built({CPU: 10_000}, {"a": cores("", 0, 9, 1), "b": cores("a", 0, 9, 2), "c": cores("b", 0, 9, 4, used=4)})
    tree.tree.detach(tree.quotas["a"])
    assert all(quota.parent is None and not quota.children for quota in tree.quotas.values())
    assert tree.tree.root.child_request == {CPU: 0}
    tree.tree.attach(tree.quotas["c"], tree.tree.root)
    assert tree.tree.runtime(tree.quotas["c"]) == {CPU: 4000}
