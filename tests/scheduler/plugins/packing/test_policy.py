"""Packing as a policy of DeviceShare: what pods teach it, what it says of itself, and that what it keeps is true."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from koord.api.configuration.scheduler_args import DeviceShareArgs, NodeNUMAResourceArgs
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import DecodeError, convert
from koord.api.protocol.crd.device import Device
from koord.cli.main import run as koord
from koord.scheduler.explain import explain
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Many, One
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.plugins.devices.ledger import Devices
from koord.scheduler.plugins.devices.plugin import DeviceShare
from koord.scheduler.plugins.node_resources_fit import NodeResourcesFit
from koord.scheduler.plugins.packing import demand as demand_module
from koord.scheduler.plugins.packing.demand import HALF_LIFE_S, STANDING, Demand
from koord.scheduler.plugins.packing.pod_shapes import models_of
from koord.scheduler.plugins.packing.policy import ByPacking, rows_of
from koord.scheduler.plugins.packing.rows import FEWEST_PODS, RENEW_S, PackingRows
from koord.scheduler.plugins.packing.shapes import PodShape
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.view import View

K = "koordinator.sh"
MODEL = "node.koordinator.sh/gpu-model"
SHARE = PodShape(2000, 2048, 1, 500)


def a_pod(name: str, *, gpu: int = 0, cpu: str = "2", memory: str = "2Gi", **spec: Any) -> Pod:
    asked = {
        "cpu": cpu,
        "memory": memory,
        **({f"{K}/gpu-core": str(gpu), f"{K}/gpu-memory-ratio": str(gpu)} if gpu else {}),
    }
    container = {"name": "main", "image": "a", "resources": {"requests": asked}}
    return convert(
        Pod, {"metadata": {"name": name, "namespace": "a", "uid": name}, "spec": {"containers": [container], **spec}}
    )


def add_node(cluster: Cluster, name: str, *, gpus: int = 2, cpu: str = "16", model: str = "T4") -> None:
    percent = str(100 * gpus)
    room = {"cpu": cpu, "memory": "64Gi", "pods": "110", f"{K}/gpu-core": percent, f"{K}/gpu-memory-ratio": percent}
    cluster.put_node(
        convert(Node, {"metadata": {"name": name, "labels": {MODEL: model}}, "status": {"allocatable": room}})
    )
    offers = {f"{K}/gpu-core": "100", f"{K}/gpu-memory-ratio": "100", f"{K}/gpu-memory": "16Gi"}
    devices = [{"type": "gpu", "minor": i, "health": True, "resources": offers} for i in range(gpus)]
    cluster.notes(Devices).put_device(convert(Device, {"metadata": {"name": name}, "spec": {"devices": devices}}))


def engine(*nodes: str, policy: str = "ShadowPrices", known: int = 400) -> Engine:
    cluster = Cluster(seed=0)
    args = convert(DeviceShareArgs, {"scoringStrategy": {"type": policy}})
    plugins = (NodeResourcesFit(), DeviceShare(args))
    made = Engine(cluster, Profile("packing", plugins, {"DeviceShare": 1}))
    for i, name in enumerate(nodes):
        add_node(cluster, name, gpus=2 + 2 * (i % 2), model="T4" if i % 2 else "A100")
    mix = [SHARE, PodShape(4000, 4096, 1, 1000), PodShape(1000, 1024), PodShape(8000, 8192, 2, 1000)]
    for i in range(known):
        cluster.notes(Demand).see(f"known/{i}", mix[i % 4], 0.0)
    return made


def test_every_pod_counts_once_and_half_as_much_after_a_half_life() -> None:
    made = engine("n1", known=0)
    demand = made.cluster.notes(Demand)
    made.cluster.now_s = 1000.0
    assert made.place(Ask(a_pod("p", gpu=50))).node == "n1"
    with made.cluster.transaction() as trial:
        made.cluster.remove_pod("a/p")
        trial.undo()
    made.cluster.remove_pod("a/p")
    assert demand.mix(1000.0) == {SHARE: 1.0}
    assert demand.mix(1000.0 + HALF_LIFE_S) == {SHARE: 0.5}


def test_what_stands_is_what_stays_and_a_little_what_comes() -> None:
    made = engine("n1", "n2", known=0)
    demand = made.cluster.notes(Demand)
    whole = PodShape(2000, 2048, 1, 1000)
    made.place(Ask(a_pod("stays", gpu=100)))
    assert demand.standing(0.0) == {whole: 1.0}
    for i in range(3):
        made.cluster.now_s = 100.0 * i
        made.place(Ask(a_pod(f"short-{i}", gpu=50)))
        made.cluster.now_s += 10.0
        made.cluster.remove_pod(f"a/short-{i}")
    made.cluster.now_s = 270.0
    assert demand.mix(270.0)[SHARE] == pytest.approx(3.0, rel=1e-2)
    # Three of four came, and were there for 30 seconds in all, beside one that counts an hour.
    stands = 30 / (3600 + 30)
    assert demand.standing(270.0)[SHARE] == pytest.approx((1 - STANDING) * 0.75 + STANDING * stands, rel=1e-2)
    assert sum(demand.standing(270.0).values()) == pytest.approx(1.0)


def test_pods_that_are_there_are_remembered_and_those_that_left_first_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demand_module, "MOST_PODS", 3)
    made = engine("n1", "n2", known=0)
    demand = made.cluster.notes(Demand)
    made.place(Ask(a_pod("stays", gpu=100)))
    for i in range(4):
        made.place(Ask(a_pod(f"short-{i}", gpu=50)))
        made.cluster.remove_pod(f"a/short-{i}")
    assert demand.mix(0.0) == {PodShape(2000, 2048, 1, 1000): 1.0, SHARE: 2.0}
    assert demand.gpu_pods == 3


def test_a_restart_knows_the_same_pods() -> None:
    again = Cluster(seed=0)
    demand = again.notes(Demand)
    add_node(again, "n1")
    bound = a_pod("p", gpu=50, nodeName="n1")
    for _ in range(2):
        record = msgspec.structs.replace(Ask(bound).record(), notes=again.noted(bound))
        again.place(record, again.table.row_of["n1"])
    assert demand.mix(0.0) == {SHARE: 1.0}


@pytest.mark.parametrize(
    ("spec", "models"),
    [
        ({}, set()),
        ({"nodeSelector": {MODEL: "A100"}}, {"A100"}),
        ({"affinity": [["A100", "T4"]]}, {"A100", "T4"}),
        ({"affinity": [["A100"], ["T4"]]}, {"A100", "T4"}),
        ({"affinity": [["A100"], []]}, set()),
    ],
)
def test_models_are_those_that_the_spec_allows(spec: dict[str, Any], models: set[str]) -> None:
    terms = [
        {"matchExpressions": [{"key": MODEL, "operator": "In", "values": values}] if values else []}
        for values in spec.pop("affinity", [])
    ]
    if terms:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec = {"affinity": {"nodeAffinity": required}}
    assert models_of(a_pod("p", **spec).spec) == models


def test_with_few_pods_known_it_says_by_what_it_scores() -> None:
    why = ": of fewer, the usual mix cannot be told"
    for known, words in (
        (0, f"least GPU left for now; ShadowPrices begins when 300 GPU pods are known, 0 are{why}"),
        (40, f"FGD for now; ShadowPrices begins when 300 GPU pods are known, 30 are{why}"),
        (400, "ShadowPrices, from the shapes of 300 GPU pods"),
    ):
        explanation = explain(engine("n1", "n2", known=known), Ask(a_pod("p", gpu=50)))
        assert explanation.remarks == (f"GPU packing: {words}",)


def test_a_running_scheduler_tells_what_it_packs_by() -> None:
    made = engine("n1", "n2")
    made.place(Ask(a_pod("p", gpu=50)))
    controller = made.profile.plugins[1].controller
    assert controller is not None
    told = controller.services["packing"]("")
    assert isinstance(told, dict)
    assert (told["policy"], told["inForce"], told["gpuPods"]) == ("ShadowPrices", "ShadowPrices", 301)
    assert [group["gpus"] for group in told["groups"]] == [2, 4]
    assert json.loads(json.dumps(told)) == told


def test_prices_are_made_between_decisions_once_enough_pods_are_known() -> None:
    made = engine("n1", "n2", known=100)
    cluster, controller = made.cluster, made.profile.plugins[1].controller
    rows = rows_of(cluster, "ShadowPrices")
    made.place(Ask(a_pod("p1", gpu=50)))
    assert rows.in_force == "FGD"
    for i in range(FEWEST_PODS):
        cluster.notes(Demand).see(f"more/{i}", SHARE, 0.0)
    assert controller is not None
    assert list(controller.writes()) == []
    assert rows.in_force == "FGD"  # not so soon
    cluster.now_s = RENEW_S
    assert list(controller.writes()) == []
    assert (rows.in_force, rows.epoch) == ("ShadowPrices", 2)
    ask = Ask(a_pod("p2", gpu=50))
    fresh = ByPacking("ShadowPrices", SHARE, cluster, None)
    row = cluster.table.row_of["n1"]
    assert made.class_of(ask).scores(row)["DeviceShare"] == fresh.score(One(cluster.table.columns, row))
    assert list(controller.writes()) == []
    assert rows.epoch == 2


@pytest.mark.parametrize(("policy", "sizes"), [("FGD", 1), ("ShadowPrices", 1), ("ShadowPrices", 4)])
def test_scores_that_were_kept_equal_scores_from_scratch(policy: Any, sizes: int) -> None:
    rng = random.Random(7)
    made = engine(*(f"n{i}" for i in range(6 * sizes)), policy=policy)
    cluster, placed = made.cluster, list[str]()
    # Of many classes, those that are asked again and again are asked together.
    shapes = [
        (gpu, f"{cpu}{size}00m") for size in range(sizes) for gpu, cpu in ((50, 2), (30, 1), (100, 4), (200, 8), (0, 1))
    ]
    for i in range(80 * sizes):
        gpu, cpu = rng.choice(shapes)
        if made.place(Ask(a_pod(f"p{i}", gpu=gpu, cpu=cpu))).node is not None:
            placed.append(f"a/p{i}")
        if placed and rng.random() < 0.8:
            cluster.remove_pod(placed.pop(rng.randrange(len(placed))))
        if i == 40 * sizes:
            add_node(cluster, "late", gpus=8, cpu="96")
    compared = 0
    for gpu, cpu in shapes:
        ask = Ask(a_pod("next", gpu=gpu, cpu=cpu))
        pod_class = made.class_of(ask)
        kept = {row: pod_class.points().item(row) for row in pod_class.feasible_rows().tolist()}
        rows, shape = rows_of(cluster, policy), cluster.notes(Demand).of(ask.pod)
        assert shape is not None
        alive = np.flatnonzero(cluster.table.alive)
        anew = rows.seen_through(Many(cluster.table.columns, alive)).score(shape, np.arange(len(alive)))
        by_row = dict(zip(alive.tolist(), zip(anew.score.tolist(), anew.device.tolist(), strict=True), strict=True))
        compared += len(kept)
        assert kept == {row: by_row[row][0] for row in kept}
        assert {row: rows.score_one(shape, row) for row in kept} == {row: by_row[row] for row in kept}
    assert compared > 10


def test_a_pod_that_asks_for_bytes_is_noted_anew_when_devices_are_larger() -> None:
    cluster = Cluster()
    demand = cluster.notes(Demand)
    container = {"name": "main", "image": "a", "resources": {"requests": {"cpu": "2", f"{K}/gpu-memory": "8Gi"}}}
    pod = convert(Pod, {"metadata": {"name": "p", "namespace": "a"}, "spec": {"containers": [container]}})
    noted = []
    for gib in (16, 32):
        demand.measure_by(gib << 30)
        ((_, shape),) = cluster.noted(pod)
        assert isinstance(shape, PodShape)
        noted.append(shape.gpu_milli)
    assert noted == [500, 250]


def test_rows_are_scored_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = engine(*(f"n{i}" for i in range(7))).cluster
    rows = rows_of(cluster, "ShadowPrices")
    rows.follow()
    alive = np.flatnonzero(cluster.table.alive)
    at_once = rows.score(SHARE, alive)
    for module in ("rows", "shadow_prices"):
        monkeypatch.setattr(f"koord.scheduler.plugins.packing.{module}.ROWS_AT_ONCE", 3)
    again = rows.seen_through(Many(cluster.table.columns, alive)).score(SHARE, np.arange(len(alive)))
    assert [each.tolist() for each in again] == [each.tolist() for each in at_once]


def test_pods_with_a_view_see_what_it_adds() -> None:
    made = engine("n1", "n2")
    cluster, view = made.cluster, View(made.cluster)
    shape = PodShape(16_000, 1024)
    row = cluster.table.row_of["n1"]
    plain = ByPacking("ShadowPrices", shape, cluster, None).score(One(cluster.table.columns, row))
    seen = ByPacking("ShadowPrices", shape, cluster, view)
    assert seen.score(One(view.columns, row)) == plain
    view.add(("allocatable", "cpu"), row, 64_000)
    assert seen.score(One(view.columns, row)) > plain


def test_a_pod_without_gpus_leaves_the_cpu_that_gpus_need() -> None:
    made = engine(known=400)
    add_node(made.cluster, "tight", gpus=4, cpu="16")
    add_node(made.cluster, "roomy", gpus=2, cpu="64")
    assert [made.place(Ask(a_pod(f"p{i}", cpu="4"))).node for i in range(4)] == ["roomy"] * 4


def test_a_node_whose_devices_nobody_tells_is_no_choice() -> None:
    made = engine("n1")
    room = {"cpu": "64", "memory": "64Gi", "pods": "110", f"{K}/gpu-core": "800", f"{K}/gpu-memory-ratio": "800"}
    made.cluster.put_node(convert(Node, {"metadata": {"name": "untold"}, "status": {"allocatable": room}}))
    assert [made.place(Ask(a_pod(f"p{i}", gpu=100))).node for i in range(3)] == ["n1", "n1", None]


def test_a_share_is_put_beside_the_share_that_it_completes() -> None:
    made = engine("n1", "n2", "n3")
    first = made.place(Ask(a_pod("p1", gpu=50)))
    second = made.place(Ask(a_pod("p2", gpu=50)))
    assert first.node == second.node
    grants = [dict(made.cluster.pods[f"a/{name}"][0].notes)["DeviceShare"] for name in ("p1", "p2")]
    assert grants[0] == grants[1]  # the same device


def test_the_example_packs_and_still_hands_out_devices(capsys: pytest.CaptureFixture[str]) -> None:
    examples = Path(__file__).parents[4] / "examples"
    command = ["-f", str(examples / "devices"), "--config", str(examples / "packing" / "config.yaml")]
    assert koord(["plan", *command, "-o", "json"]) in (0, 1)
    told = json.loads(capsys.readouterr().out)["pods"]
    assert told["default/train"]["outcome"] == "scheduled"
    assert told["default/odd"]["outcome"] == "unschedulable"


def test_only_devices_are_packed() -> None:
    with pytest.raises(DecodeError, match="ShadowPrices"):
        convert(NodeNUMAResourceArgs, {"scoringStrategy": {"type": "ShadowPrices"}})


def test_rows_that_come_and_go_are_followed() -> None:
    made = engine("n1", "n2")
    assert made.place(Ask(a_pod("p1", gpu=100))).node is not None
    for i in range(100):
        add_node(made.cluster, f"more-{i}", gpus=8, cpu="128", model="H100")
    made.cluster.remove_pod("a/p1")
    made.cluster.remove_node("n1")
    assert made.place(Ask(a_pod("p2", gpu=800, cpu="64"))).node is not None
    assert isinstance(made.cluster.shared[PackingRows, "ShadowPrices"], PackingRows)
