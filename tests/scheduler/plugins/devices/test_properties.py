"""Devices after any history: counts are what annotations say, nothing is given beyond 100 %, and choices are exact."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kubernetes.pod import Pod
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Many, One
from koord.scheduler.framework.judge import FastForms
from koord.scheduler.plugins.devices.grants import Granted, read, render
from koord.scheduler.plugins.devices.judge import DeviceJudge, ShareJudge
from koord.scheduler.plugins.devices.ledger import Usage
from tests.scheduler.build import node, pod
from tests.scheduler.plugins.devices.machines import (
    ALLOCATED,
    HINT,
    JOINT,
    Got,
    K,
    Scene,
    device,
    eight,
    gpu,
    rdma,
    resource,
)

REQUESTS: list[dict[str, int]] = [
    {"gpu": 20},
    {"gpu": 70},
    {"gpu": 100},
    {"gpu": 200},
    {"gpu_core": 10, "gpu_memory": 30 << 30},
    {"gpu_memory": 7 << 30},
    {"shared": 2, "gpu_core": 60, "gpu_memory_ratio": 60},
    {"nvidia": 1},
    {"rdma": 30},
    {"gpu": 100, "rdma": 1},
]


def devices(healthy: int) -> list[dict[str, Any]]:
    return [
        *(gpu(i, pcie=i // 2, numa=i // 2, health=bool(healthy >> i & 1)) for i in range(4)),
        *(rdma(i, pcie=i, numa=i) for i in range(2)),
    ]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("place"), st.integers(0, len(REQUESTS) - 1)),
        st.tuples(st.just("leave"), st.integers(0, 9)),
        st.tuples(st.just("health"), st.integers(0, 15)),
        st.tuples(st.just("gone"), st.just(0)),
        st.tuples(st.just("missing"), st.integers(0, 3)),
        st.tuples(st.just("flap"), st.just(0)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("trial"), st.integers(0, len(REQUESTS) - 1)),
    ),
    min_size=5,
    max_size=40,
)


class History:
    """A scheduler that is told things, killed and started again; what pods say stays."""

    def __init__(self) -> None:
        self.bound: dict[str, Pod] = {}
        self.healthy = 15
        self.number = 0
        self.start()

    def start(self) -> None:
        self.scene = Scene()
        self.scene.node(devices=devices(self.healthy))
        for each in self.bound.values():
            self.scene.put(each)

    def do(self, what: str, number: int) -> None:
        if what == "place":
            self.number += 1
            got = self.scene.place(f"p{self.number}", None, **REQUESTS[number])
            if got.node is not None:
                self.bound[f"default/p{self.number}"] = self.said(got, REQUESTS[number])
        elif what == "leave" and self.bound:
            key = sorted(self.bound)[number % len(self.bound)]
            del self.bound[key]
            self.scene.cluster.remove_pod(key)
        elif what == "health":
            self.healthy = number
            self.scene.devices.put_device(device("n", devices(number)))
        elif what == "gone":
            self.scene.devices.remove_device(device("n", devices(self.healthy)))
            self.scene.devices.put_device(device("n", devices(self.healthy)))
        elif what == "missing":
            rest = [each for each in devices(self.healthy) if (each["type"], each["minor"]) != ("gpu", number)]
            self.scene.devices.put_device(device("n", rest))
            self.scene.place("gone", None, gpu=100)
            self.scene.cluster.remove_pod("default/gone") if "default/gone" in self.scene.cluster.pods else None
            self.scene.devices.put_device(device("n", devices(self.healthy)))
        elif what == "flap":
            self.scene.cluster.remove_node("n")
            self.scene.cluster.put_node(node("n"))
            for each in self.bound.values():
                self.scene.put(each)
        elif what == "restart":
            self.start()
        elif what == "trial":
            with self.scene.cluster.transaction() as trial:
                self.scene.place("trial", None, **REQUESTS[number])
                for key in list(self.bound)[:2]:
                    self.scene.cluster.remove_pod(key)
                trial.undo()

    def said(self, got: Got, requests: dict[str, int]) -> Pod:
        """The pod as the API server has it once it is bound."""
        name, asked = got.placement.pod.partition("/")[2], {resource(key): request for key, request in requests.items()}
        return pod(name, on="n", requests=asked, annotations=got.patch.get("metadata", {}).get("annotations", {}))


def columns(scene: Scene) -> dict[object, int]:
    row = scene.cluster.table.row_of["n"]
    own = ("device left", "device total", "device taken", "devices")
    return {
        name: int(column[row])
        for name, column in scene.cluster.table.columns.items()
        if isinstance(name, tuple) and name[0] in own
    }


@settings(max_examples=40, deadline=None)
@given(steps)
def test_counts_are_what_annotations_say_and_no_device_is_over_100_percent(history: list[tuple[str, int]]) -> None:
    world = History()
    for what, number in history:
        world.do(what, number)
        sums = Usage()
        for key, each in world.bound.items():
            said = read(each.metadata)
            if said is not None:
                sums.count(said, key, +1)
        scene = world.scene
        counted = scene.devices.usage(scene.cluster.table.row_of["n"]) or Usage()
        assert (counted.amounts, counted.holders) == (sums.amounts, sums.holders)
        for amounts in sums.amounts.values():
            assert all(amount <= 100 for name, amount in amounts.items() if not name.endswith("gpu-memory"))
            assert amounts.get(f"{K}/gpu-memory", 0) <= 80 << 30
    fresh = History.__new__(History)
    fresh.bound, fresh.healthy, fresh.number = world.bound, world.healthy, 0
    fresh.start()
    assert columns(world.scene) == columns(fresh.scene)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([0, 0, 10, 30, 50, 60, 100]), min_size=4, max_size=4),
    st.integers(1, 4),
    st.sampled_from([10, 40, 50, 70, 100]),
)
def test_a_pod_fits_where_any_set_of_devices_would_do(used: list[int], count: int, percent: int) -> None:
    """Brute force: some `count` devices each have enough left."""
    scene = Scene().node(devices=devices(15))
    for minor, part in enumerate(used):
        if part:
            scene.busy(minor, percent=part)
    possible = [
        chosen for chosen in combinations(range(4), count) if all(100 - used[minor] >= percent for minor in chosen)
    ]
    got = scene.place(shared=count, gpu_core=count * percent, gpu_memory_ratio=count * percent)
    assert (tuple(got.minors()) in possible) if possible else got.node is None


@settings(max_examples=60, deadline=None)
@given(st.sets(st.integers(0, 7)), st.integers(1, 8), st.sampled_from(["", "PCIe", "NUMANode"]))
def test_whole_gpus_are_as_close_together_as_any_that_are_free(busy: set[int], count: int, scope: str) -> None:
    """Brute force over all sets of free GPUs: none lies in a deeper scope."""
    scene = Scene().node(devices=eight())
    for minor in busy:
        scene.busy(minor)

    def depth(minors: tuple[int, ...]) -> int:
        return 2 if len({m // 2 for m in minors}) == 1 else 1 if len({m // 4 for m in minors}) == 1 else 0

    free = [minor for minor in range(8) if minor not in busy]
    deepest = max((depth(chosen) for chosen in combinations(free, count)), default=-1)
    required = {"": 0, "NUMANode": 1, "PCIe": 2}[scope]
    hint = {HINT: json.dumps({"gpu": {"requiredTopologyScope": scope}})} if scope else {}
    got = scene.place(nvidia=count, annotations=hint)
    assert (depth(tuple(got.minors())) == deepest) if deepest >= required else got.node is None


PAIRS = [{0, 1}, {2, 3}, {4, 5}, {6, 7}]
QUADS = [{0, 1, 2, 3}, {4, 5, 6, 7}]
TABLE = {1: [{minor} for minor in range(8)], 2: PAIRS, 4: QUADS, 8: [set(range(8))]}


@settings(max_examples=40, deadline=None)
@given(st.sets(st.integers(0, 7)), st.sampled_from([1, 2, 3, 4, 8]))
def test_linked_gpus_are_a_set_of_the_table_that_leaves_most_of_the_larger_ones_whole(
    busy: set[int], count: int
) -> None:
    """Brute force over the built-in table."""
    labels = {"node.koordinator.sh/gpu-model": "H100", "node.koordinator.sh/gpu-partition-policy": "Honor"}
    scene = Scene().node(devices=eight(), labels=labels)
    for minor in busy:
        scene.busy(minor)

    def whole(taken: set[int]) -> int:
        left = set(range(8)) - busy - taken
        sizes = ((8, 10000), (4, 100), (2, 1))
        return sum(points for size, points in sizes if size >= count for each in TABLE[size] if each <= left)

    free = [each for each in TABLE.get(count, []) if not each & busy]
    got = set(scene.place(nvidia=count).minors())
    assert got in free if free else not got
    assert not free or whole(got) == max(map(whole, free))


@settings(max_examples=40, deadline=None)
@given(st.sets(st.integers(0, 3)), st.sets(st.integers(0, 1)), st.integers(1, 4), st.booleans())
def test_joint_devices_are_free_and_on_the_same_switches_where_they_must_be(
    busy: set[int], full: set[int], count: int, must: bool
) -> None:
    """Brute force: network cards on all switches of the GPUs are needed, or taken where there are any."""
    scene = Scene().node(devices=devices(15))
    for minor in busy:
        scene.busy(minor)
    if full:
        scene.holds(rdma={minor: {"rdma": 100} for minor in full})
    said = {"deviceTypes": ["gpu", "rdma"], **({"requiredScope": "SamePCIe"} if must else {})}
    got = scene.place(nvidia=count, rdma=1, annotations={JOINT: json.dumps(said)})
    gpus, cards = set(got.minors()), set(got.minors("rdma"))
    free = [set(combination) for combination in combinations(sorted(set(range(4)) - busy), count)]
    good = [each for each in free if not must or not {minor // 2 for minor in each} & full]
    if not free or full == {0, 1} or not good:
        assert got.node is None
        return
    assert gpus in free
    assert not cards & full
    switches = {minor // 2 for minor in gpus}
    assert cards == switches if must else cards >= switches - full


@settings(max_examples=20, deadline=None)
@given(steps)
def test_what_is_written_on_a_pod_is_read_back_as_it_was(history: list[tuple[str, int]]) -> None:
    world = History()
    for what, number in history:
        world.do(what, number)
    for record, _ in world.scene.cluster.pods.values():
        for _, note in record.notes:
            assert isinstance(note, Granted)
            assert read(pod("p", annotations={ALLOCATED: render(note)}).metadata) == note
    assert sorted(world.bound) == sorted(world.scene.cluster.pods)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([0, 10, 30, 50, 60, 99, 100]), min_size=8, max_size=8), st.data())
def test_the_quick_forms_of_a_verdict_agree_with_the_plain_one(used: list[int], data: st.DataObject) -> None:
    """Four nodes: one without a Device object, one without GPUs, two with four GPUs each."""
    scene = Scene().node("unknown").node("none", devices=[rdma(0)])
    for i, name in enumerate("ab"):
        scene.node(name, devices=devices(data.draw(st.integers(0, 15))))
        for minor, percent in enumerate(used[4 * i : 4 * i + 4]):
            if percent:
                scene.busy(minor, on=name, percent=percent)
    columns, rows = scene.cluster.table.columns, np.arange(4)
    asks = [pod(f"p{n}", requests={f"{K}/gpu": n}) for n in (10, 40, 70, 100, 200, 300)]
    quick = [scene.plugin.compile(Ask(ask), scene.cluster) for ask in asks]
    together: dict[object, list[tuple[FastForms, list[bool]]]] = {}
    for judge in quick:
        assert isinstance(judge, ShareJudge)
        plain = [DeviceJudge.feasible(judge, One(columns, row)) != 0 for row in rows.tolist()]
        assert (DeviceJudge.feasible(judge, Many(columns, rows)) != 0).tolist() == plain
        assert [judge.feasible(One(columns, row)) != 0 for row in rows.tolist()] == plain
        assert (judge.feasible(Many(columns, rows)) != 0).tolist() == plain
        assert judge.shortcuts.fast is not None
        by_row, _ = judge.shortcuts.fast.of_row(columns)
        assert [by_row(row, judge.shortcuts.fast.numbers) != 0 for row in rows.tolist()] == plain
        together.setdefault(judge.shortcuts.fast.key, []).append((judge.shortcuts.fast, plain))
    for alike in together.values():
        cells = Many({name: column[:, np.newaxis] for name, column in columns.items()}, rows)
        joint = alike[0][0].together([each.numbers for each, _ in alike]).feasible(cells)
        assert (joint != 0).T.tolist() == [plain for _, plain in alike]
