"""The four plugins about volumes: examples, promises to pods just placed, and agreement with the plain reading."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from koord.api.machinery.codec import convert
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from koord.scheduler.plugins.volume_binding import VolumeBinding
from koord.scheduler.plugins.volume_restrictions import VolumeRestrictions
from koord.scheduler.plugins.volume_zone import VolumeZone
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.build import node, pod
from tests.scheduler.generate import Scene, random_scene
from tests.scheduler.plugins.against_reference import assert_same, bind, engine_for, verdicts
from tests.scheduler.reference.cluster import Cluster as Plain

SEEDS = st.integers(0, 2**32)
ALL = (VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone)
ZONE = "topology.kubernetes.io/zone"


def claim(
    name: str, *, class_name: str = "local", volume: str = "", modes: tuple[str, ...] = ("ReadWriteOnce",)
) -> Any:
    done = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    spec = {
        "storageClassName": "local",
        "volumeName": volume,
        "accessModes": modes,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    meta = {"name": name, "namespace": "default", "uid": name, "annotations": done}
    return convert(PersistentVolumeClaim, {"metadata": meta, "spec": spec})


def volume(name: str, *, zone: str = "", labels: dict[str, str] | None = None, size: str = "1Gi") -> Any:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]}
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "csi": {"driver": "csi.example.com", "volumeHandle": name},
        "nodeAffinity": {"required": terms} if zone else None,
    }
    meta = {"name": name, "labels": labels or {}}
    return convert(PersistentVolume, {"metadata": meta, "spec": spec, "status": {"phase": "Available"}})


def storage_class(name: str, *, provisioner: str = "kubernetes.io/no-provisioner") -> Any:
    meta = {"name": name}
    return convert(
        StorageClass,
        {"metadata": meta, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"},
    )


def limit(name: str, count: int) -> Any:
    drivers = [{"name": "csi.example.com", "nodeID": name, "allocatable": {"count": count}}]
    return convert(CSINode, {"metadata": {"name": name}, "spec": {"drivers": drivers}})


def using(name: str, *claims: str, on: str = "") -> Pod:
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": claim}} for i, claim in enumerate(claims)]
    return pod(name, on=on, volumes=volumes)


def engine_with(plugin: Plugin, *things: Any) -> Engine:
    """Two nodes, a and b, each in the zone of its name."""
    cluster = Cluster()
    for name in "ab":
        cluster.put_node(node(name, labels={ZONE: name}))
    for thing in things:
        cluster.put_storage(thing)
    return Engine(cluster, Profile("s", (plugin,), {}))


@pytest.mark.parametrize("plugin", ALL)
def test_pods_without_volumes_are_none_of_their_business(plugin: type[Plugin]) -> None:
    engine = engine_with(plugin())
    assert plugin().key(Ask(pod("p")), engine.cluster) is None
    compile = plugin().compile
    assert compile is not None
    assert compile(Ask(pod("p")), engine.cluster) is None


@pytest.mark.parametrize("plugin", [VolumeRestrictions, VolumeBinding, VolumeZone])
def test_a_pod_waits_for_its_claim_to_exist(plugin: type[Plugin]) -> None:
    engine = engine_with(plugin(), storage_class("local"), volume("disk"))
    placement = engine.place(Ask(using("p", "c")))
    assert (placement.node, placement.rejections) == (None, {'persistentvolumeclaim "c" not found': 2})
    engine.cluster.put_storage(claim("c"))
    assert engine.place(Ask(using("p", "c"))).node is not None


def test_a_bound_volume_is_used_where_it_can_be_reached() -> None:
    engine = engine_with(VolumeBinding(), volume("disk", zone="b"), claim("c", volume="disk"))
    unreachable = ("node(s) didn't match PersistentVolume's node affinity",)
    assert verdicts(engine, using("p", "c")) == {"a": unreachable, "b": ()}


def test_a_waiting_claim_finds_a_free_volume_or_none() -> None:
    engine = engine_with(VolumeBinding(), storage_class("local"), volume("disk", zone="b"), claim("c"))
    none = ("node(s) didn't find available persistent volumes to bind",)
    assert verdicts(engine, using("p", "c")) == {"a": none, "b": ()}


def test_a_volume_is_promised_to_one_claim_only() -> None:
    engine = engine_with(VolumeBinding(), storage_class("local"), volume("disk"), claim("c"), claim("d"))
    assert engine.place(Ask(using("p", "c"))).node is not None
    assert engine.place(Ask(using("q", "d"))).node is None
    assert engine.place(Ask(using("r", "c"))).node is not None


def test_a_promise_ends_with_the_job_that_is_undone() -> None:
    engine = engine_with(VolumeBinding(), storage_class("local"), volume("disk"), claim("c"), claim("d"))
    assert [placement.node for placement in engine.place_all([Ask(using("p", "c")), Ask(using("q", "d"))])] == [
        None,
        None,
    ]
    assert engine.place(Ask(using("q", "d"))).node is not None


def test_a_promise_stands_when_the_removal_of_its_pod_is_undone() -> None:
    engine = engine_with(VolumeBinding(), storage_class("local"), volume("disk"), claim("c"), claim("d"))
    engine.place(Ask(using("p", "c")))
    with engine.cluster.transaction() as transaction:
        engine.cluster.remove_pod("default/p")
        assert verdicts(engine, using("q", "d")) == {"a": (), "b": ()}
        transaction.undo()
    assert engine.place(Ask(using("q", "d"))).node is None


def test_two_claims_of_one_pod_need_two_volumes() -> None:
    engine = engine_with(VolumeBinding(), storage_class("local"), volume("disk"), claim("c"), claim("d"))
    assert engine.place(Ask(using("p", "c", "d"))).node is None
    engine.cluster.put_storage(volume("other", zone="b"))
    assert engine.place(Ask(using("p", "c", "d"))).node == "b"


def test_pods_that_share_a_claim_follow_the_first_to_where_its_volume_is_made() -> None:
    made = storage_class("local", provisioner="csi.example.com")
    engine = engine_with(VolumeBinding(), made, claim("c"))
    homes = {engine.place(Ask(using(f"p{i}", "c"))).node for i in range(6)}
    assert len(homes) == 1


def test_a_volume_in_a_zone_keeps_its_pod_there() -> None:
    engine = engine_with(VolumeZone(), volume("disk", labels={ZONE: "b__c"}), claim("c", volume="disk"))
    assert verdicts(engine, using("p", "c")) == {"a": ("node(s) had no available volume zone",), "b": ()}


def test_a_claim_for_one_pod_is_used_by_one_pod() -> None:
    only = claim("c", modes=("ReadWriteOncePod",))
    engine = engine_with(VolumeRestrictions(), only)
    assert engine.place(Ask(using("p", "c"))).node is not None
    in_use = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
    assert engine.place(Ask(using("q", "c"))).rejections == {f"{in_use}another pod": 2}
    engine.cluster.remove_pod("default/p")
    assert engine.place(Ask(using("q", "c"))).node is not None


def test_a_disk_that_is_written_is_on_a_node_once() -> None:
    def with_disk(name: str, *, read_only: bool, on: str = "") -> Pod:
        disk = {"pdName": "disk", "readOnly": read_only}
        return pod(name, on=on, volumes=[{"name": "v", "gcePersistentDisk": disk}])

    engine = engine_with(VolumeRestrictions())
    bind(engine, with_disk("x", read_only=True, on="a"))
    assert verdicts(engine, with_disk("p", read_only=True)) == {"a": (), "b": ()}
    assert verdicts(engine, with_disk("q", read_only=False)) == {"a": ("node(s) had no available disk",), "b": ()}


def test_a_node_attaches_no_more_volumes_than_its_driver_can() -> None:
    disks = [volume(f"disk{i}") for i in range(3)]
    claims = [claim(f"c{i}", volume=f"disk{i}") for i in range(3)]
    engine = engine_with(NodeVolumeLimits(), *disks, *claims, limit("a", 1), limit("b", 2))
    full = ("node(s) exceed max volume count",)
    bind(engine, using("x", "c0", on="a"))
    assert verdicts(engine, using("p", "c1")) == {"a": full, "b": ()}
    assert verdicts(engine, using("p", "c0")) == {"a": (), "b": ()}
    bind(engine, using("y", "c1", on="b"))
    assert verdicts(engine, using("p", "c1", "c2")) == {"a": full, "b": ()}
    assert verdicts(engine, using("p", "c0", "c2")) == {"a": full, "b": full}
    engine.cluster.put_storage(limit("b", 3))
    assert verdicts(engine, using("p", "c0", "c2")) == {"a": full, "b": ()}


def with_storage(seed: int) -> Scene:
    """A scene that has claims: one in five has."""
    return next(scene for i in range(200) if (scene := random_scene(seed + i)).cluster().claims)


@settings(max_examples=15)
@given(SEEDS)
@pytest.mark.parametrize("plugin", ALL)
def test_every_verdict_equals_the_plain_reading_after_any_events(plugin: type[Plugin], seed: int) -> None:
    rng, scene = random.Random(seed), with_storage(seed)
    plain = scene.cluster()
    engine = engine_for(plain, plugin())
    pods = {pod.metadata.key: pod for pod in plain.pods if pod.metadata.key in engine.cluster.pods}
    kept: dict[str, dict[str, Any]] = {
        "claims": {claim.metadata.key: claim for claim in plain.claims},
        "volumes": {volume.metadata.name: volume for volume in plain.volumes},
        "storage_classes": {storage_class.metadata.name: storage_class for storage_class in plain.storage_classes},
        "csi_nodes": {csi_node.metadata.name: csi_node for csi_node in plain.csi_nodes},
    }
    for _ in range(6):
        match rng.randrange(3):
            case 0 if pods:
                key = rng.choice(sorted(pods))
                engine.cluster.remove_pod(key)
                del pods[key]
            case 1 if pods:
                home, moving = rng.choice(plain.nodes).metadata.name, pods[rng.choice(sorted(pods))]
                pods[moving.metadata.key] = replace(moving, spec=replace(moving.spec, node_name=home))
                bind(engine, pods[moving.metadata.key])
            case 2:
                things = kept[rng.choice(sorted(kept))]
                if things:
                    key = rng.choice(sorted(things))
                    if rng.random() < 0.5:
                        engine.cluster.remove_storage(things.pop(key))
                    else:
                        other = things[rng.choice(sorted(things))]
                        things[key] = replace(other, metadata=things[key].metadata)
                        engine.cluster.put_storage(things[key])
        fields: dict[str, Any] = {name: tuple(things.values()) for name, things in kept.items()}
        after = Plain(
            nodes=plain.nodes,
            pods=tuple(pods.values()),
            csi_drivers=plain.csi_drivers,
            storage_capacities=plain.storage_capacities,
            **fields,
        )
        for wanted in scene.pods():
            assert_same(engine, wanted, after)


@settings(max_examples=10)
@given(SEEDS)
@pytest.mark.parametrize("plugin", ALL)
def test_undone_placements_leave_every_verdict_as_it_was(plugin: type[Plugin], seed: int) -> None:
    rng, scene = random.Random(seed), with_storage(seed)
    engine = engine_for(scene.cluster(), plugin())
    before = [verdicts(engine, wanted) for wanted in scene.pods()]
    with engine.cluster.transaction() as transaction:
        for i in range(4):
            wanted = rng.choice(scene.pods())
            engine.place(Ask(replace(wanted, metadata=replace(wanted.metadata, name=f"new-{i}"))))
            if engine.cluster.pods:
                engine.cluster.remove_pod(rng.choice(sorted(engine.cluster.pods)))
        transaction.undo()
    assert [verdicts(engine, wanted) for wanted in scene.pods()] == before
