"""ImageLocality: the specification's example, names, and agreement with the plain reading."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.plugins.image_locality import ImageLocality, full_name
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.build import node, pod
from tests.scheduler.generate import random_scene
from tests.scheduler.plugins.against_reference import assert_same, engine_for, scores
from tests.scheduler.reference.cluster import Cluster as Plain

MIB = 1024**2


def engine_of(*sizes: int | None) -> Engine:
    """Nodes, each with `app:latest` of this size, or without."""
    cluster = Cluster()
    for i, size in enumerate(sizes):
        cluster.put_node(node(f"n{i}", images={} if size is None else {"app:latest": size}))
    plugin = ImageLocality()
    return Engine(cluster, Profile("s", (plugin,), {plugin.name: 1}))


def test_500_mebibytes_on_3_of_10_nodes_score_12() -> None:
    """150Mi of 1000Mi: 100 * (150 - 23) / (1000 - 23) = 12.9."""
    engine = engine_of(*[500 * MIB] * 3, *[None] * 7)
    assert scores(engine, pod("p", image="app")) == {f"n{i}": 12 if i < 3 else 0 for i in range(10)}


def test_a_node_more_makes_every_image_rarer() -> None:
    engine = engine_of(500 * MIB, None)
    assert scores(engine, pod("p", image="app"))["n0"] == 23
    engine.cluster.put_node(node("n2"))
    assert scores(engine, pod("p", image="app"))["n0"] == 14


def test_pods_whose_images_are_nowhere_are_one_class() -> None:
    engine = engine_of(500 * MIB, None)
    classes = [engine.class_of(Ask(pod("p", image=image))) for image in ("one", "other", "app")]
    assert classes[0] is classes[1] is not classes[2]


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("app", "app:latest"),
        ("app:1", "app:1"),
        ("registry.local:5000/app", "registry.local:5000/app:latest"),
        ("registry.local:5000/app:1", "registry.local:5000/app:1"),
    ],
)
def test_an_image_without_a_tag_is_the_latest(image: str, name: str) -> None:
    assert full_name(image) == name


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_every_score_equals_the_plain_reading_after_any_events(seed: int) -> None:
    rng, scene = random.Random(seed), random_scene(seed)
    plain = scene.cluster()
    engine = engine_for(plain, ImageLocality())
    nodes = {node.metadata.name: node for node in plain.nodes}
    for step in range(6):
        source = nodes[rng.choice(sorted(nodes))]
        match rng.randrange(3):
            case 0:
                name = rng.choice(sorted(nodes))
                nodes[name] = replace(source, metadata=replace(source.metadata, name=name))
                engine.cluster.put_node(nodes[name])
            case 1 if len(nodes) > 1:
                engine.cluster.remove_node(source.metadata.name)
                del nodes[source.metadata.name]
            case 2:
                name = f"new-{step}"
                nodes[name] = replace(source, metadata=replace(source.metadata, name=name))
                engine.cluster.put_node(nodes[name])
        after = Plain(nodes=tuple(nodes.values()))
        for wanted in scene.pods():
            assert_same(engine, wanted, after)
