"""What volume and load plugins propose for a node that they turn away: it helps, and is taken back without trace."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.storage import CSIDriver, CSIStorageCapacity, StorageClass
from koord.api.machinery.codec import convert
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.plugins.load_aware_scheduling import LoadAwareScheduling
from koord.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from koord.scheduler.plugins.volume_binding import VolumeBinding
from koord.scheduler.plugins.volume_restrictions import VolumeRestrictions
from koord.scheduler.plugins.volume_zone import VolumeZone
from koord.scheduler.smallest import of_the_cluster, of_the_pod, the_smallest, way_to, ways
from tests.scheduler.build import metric, pod
from tests.scheduler.generate import random_scene
from tests.scheduler.plugins.against_reference import bind, engine_for, verdicts
from tests.scheduler.plugins.test_load_aware_scheduling import THRESHOLDS, args, asks, one_node
from tests.scheduler.plugins.test_volumes import (
    ZONE,
    claim,
    engine_with,
    limit,
    storage_class,
    using,
    volume,
    with_storage,
)

SEEDS = st.integers(0, 2**32)


def texts(engine: Engine, wanted: Pod, node: str) -> set[str]:
    """What is proposed for a node, by one step."""
    found = ways(engine, Ask(wanted), most=20)
    return {way.steps[0].change.text for way in found if node in way.nodes and len(way.steps) == 1}


def made_by(driver: str, *, zones: tuple[str, ...] = ()) -> StorageClass:
    data: dict[str, Any] = {"metadata": {"name": "local"}, "provisioner": driver}
    data["volumeBindingMode"] = "WaitForFirstConsumer"
    if zones:
        data["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}]
    return convert(StorageClass, data)


def published(driver: str, zone: str, size: str) -> list[Any]:
    """A driver that says what it has left in a zone."""
    topology = {"matchLabels": {ZONE: zone}}
    left = {"metadata": {"name": zone}, "storageClassName": "local", "nodeTopology": topology, "capacity": size}
    says = {"metadata": {"name": driver}, "spec": {"storageCapacity": True}}
    return [convert(CSIStorageCapacity, left), convert(CSIDriver, says)]


def test_a_driver_without_room_for_more_volumes() -> None:
    things = [storage_class("local"), limit("a", 2), limit("b", 0)]
    for name in ("c0", "c1", "c2"):
        things += [claim(name, volume=f"v-{name}"), volume(f"v-{name}")]
    engine = engine_with(NodeVolumeLimits(), *things)
    bind(engine, using("x", "c0", on="a"))
    bind(engine, using("y", "c1", on="a"))
    found = texts(engine, using("p", "c2"), "a")
    assert found == {
        "room for 1 more volume of csi.example.com there",
        "default/x gone, to make room for 1 more volume of csi.example.com",
    }
    # There is no pod whose leaving would help.
    assert texts(engine, using("p", "c2"), "b") == {"room for 1 more volume of csi.example.com there"}


def test_a_volume_that_two_pods_use_is_detached_when_both_are_gone() -> None:
    things = [storage_class("local"), limit("a", 1), limit("b", 0)]
    for name in ("c0", "c2"):
        things += [claim(name, volume=f"v-{name}"), volume(f"v-{name}")]
    engine = engine_with(NodeVolumeLimits(), *things)
    bind(engine, using("x", "c0", on="a"))
    bind(engine, using("y", "c0", on="a"))
    assert texts(engine, using("p", "c2"), "a") == {"room for 1 more volume of csi.example.com there"}


@pytest.mark.parametrize(
    ("things", "found"),
    [
        (
            [claim("c", volume="v"), volume("v", zone="b")],
            {"the volume v of the claim c within its reach"},
        ),
        (
            [claim("c", volume="v")],
            {"the volume v back, which the claim c is bound to"},
        ),
        (
            [claim("c"), storage_class("local")],
            {"a free volume of 1Gi of class local within its reach, for the claim c"},
        ),
        (
            [claim("c"), made_by("csi.example.com", zones=("c",))],
            {"local volumes made there too (allowedTopologies of the class)"},
        ),
        (
            [claim("c"), made_by("csi.example.com"), *published("csi.example.com", "a", "512Mi")],
            {"1Gi of free local storage there, for the claim c", "a claim c of 512Mi instead of 1Gi"},
        ),
        (
            [claim("c"), made_by("csi.example.com"), *published("csi.example.com", "c", "512Mi")],
            {"1Gi of free local storage there, for the claim c"},
        ),
    ],
)
def test_a_claim_in_the_way(things: list[Any], found: set[str]) -> None:
    engine = engine_with(VolumeBinding(), *things)
    if "b" in verdicts(engine, using("p", "c")) and not verdicts(engine, using("p", "c"))["b"]:
        # Otherwise it would fit there, and nothing need change.
        engine.cluster.remove_node("b")
    assert texts(engine, using("p", "c"), "a") == found


def test_a_volume_in_another_zone() -> None:
    engine = engine_with(VolumeZone(), claim("c", volume="v"), volume("v", labels={ZONE: "c__d"}))
    assert texts(engine, using("p", "c"), "a") == {"the volume v of the claim c in its zone instead of c__d"}


def test_a_node_that_is_busy() -> None:
    plugin = LoadAwareScheduling(args(usageThresholds={"cpu": 65}))
    engine = one_node(plugin, metric("n", usage={"cpu": "40"}))
    # 65% and a bit of 64 cpu are 41.919: that leaves 1.919 for a pod that would use 85% of its request.
    assert texts(engine, pod("p", requests={"cpu": "4"}), "n") == {
        "a limit of 68% cpu usage instead of 65% there, or that much less usage",
        "requests and limits of 2257m cpu instead of 4",
    }
    assert texts(engine, pod("p", requests={"cpu": "40"}), "n") == {"requests and limits of 2257m cpu instead of 40"}


@pytest.mark.parametrize(
    ("given", "own", "written"),
    [
        ({"usageThresholds": {"cpu": 65}}, {}, {"usageThresholds": {"cpu": 79}}),
        ({}, {"usageThresholds": {"cpu": 50}}, {"usageThresholds": {"cpu": 79}}),
        ({"usageThresholds": {"cpu": 65, "memory": 70}}, {}, {"usageThresholds": {"cpu": 79, "memory": 70}}),
        (
            {"aggregated": {"usageThresholds": {"cpu": 65}, "usageAggregationType": "p95"}},
            {},
            {
                "aggregatedUsage": {
                    "usageThresholds": {"cpu": 79},
                    "usageAggregationType": "p95",
                    "usageAggregatedDuration": "0s",
                }
            },
        ),
    ],
)
def test_the_limit_that_counts_is_the_one_to_raise(
    given: dict[str, Any], own: dict[str, Any], written: dict[str, Any]
) -> None:
    plugin = LoadAwareScheduling(args(**{"usageThresholds": {}, **given}))
    annotations = {THRESHOLDS: json.dumps(own)} if own else {}
    engine = one_node(plugin, metric("n", usage={"cpu": "50"}), annotations=annotations)
    way = way_to(engine, Ask(asks(1000)), engine.cluster.table.row_of["n"], of_the_cluster)
    assert way is not None
    changed = way.steps[0].change.node
    assert changed is not None
    assert json.loads(changed.metadata.annotations[THRESHOLDS]) == written


def test_a_report_that_is_too_old() -> None:
    plugin = LoadAwareScheduling(args(usageThresholds={"cpu": 65}, filterExpiredNodeMetrics=True))
    engine = one_node(plugin, metric("n", usage={"cpu": "10"}, age_s=500))
    assert texts(engine, asks(1000), "n") == {"a new report of its usage (the last is 500 s old)"}
    assert verdicts(engine, asks(1000))["n"] == ("node(s) nodeMetric expired",)


@settings(max_examples=25)
@given(SEEDS)
@pytest.mark.parametrize("plugin", [NodeVolumeLimits, VolumeBinding, VolumeZone, VolumeRestrictions])
def test_for_every_node_there_is_a_way_and_none_leaves_a_trace(plugin: type[Plugin], seed: int) -> None:
    scene = with_storage(seed)
    engine = engine_for(scene.cluster(), plugin())
    for wanted in scene.pods():
        _every_way_helps(engine, wanted)


@settings(max_examples=25)
@given(SEEDS)
def test_for_busy_nodes_neither_does(seed: int) -> None:
    scene = random_scene(seed)
    engine = engine_for(scene.cluster(), LoadAwareScheduling(scene.load_args))
    for wanted in scene.pods():
        # Where all of a node is in use no limit helps.
        _every_way_helps(engine, wanted, always=False)


def _every_way_helps(engine: Engine, wanted: Pod, *, always: bool = True) -> None:
    asked = Ask(wanted)
    before, storage = verdicts(engine, wanted), engine.cluster.storage
    with engine.cluster.transaction() as transaction:
        refused = engine.place(asked).refusal
        transaction.undo()
    versions = storage.version, storage.limits_version
    for name, reasons in before.items():
        if not reasons or refused:
            continue
        row = engine.cluster.table.row_of[name]
        found = [way_to(engine, asked, row, preference) for preference in (the_smallest, of_the_pod, of_the_cluster)]
        assert any(found) or not always, (name, reasons)
    assert verdicts(engine, wanted) == before
    assert (storage.version, storage.limits_version) == versions
