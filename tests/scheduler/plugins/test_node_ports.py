"""NodePorts: which ports conflict, and agreement with the plain reading."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.kubernetes.pod import Pod
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.plugins.node_ports import NodePorts
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.build import node, pod
from tests.scheduler.generate import random_scene
from tests.scheduler.plugins.against_reference import assert_same, bind, engine_for, verdicts
from tests.scheduler.reference.cluster import Cluster as Plain

SEEDS = st.integers(0, 2**32)
TAKEN = ("node(s) didn't have free ports for the requested pod ports",)


def with_port(name: str, number: int, *, ip: str = "", protocol: str = "TCP", on: str = "") -> Pod:
    return pod(name, on=on, ports=[{"containerPort": 1, "hostPort": number, "hostIP": ip, "protocol": protocol}])


def one_node() -> Engine:
    cluster = Cluster()
    cluster.put_node(node("n"))
    return Engine(cluster, Profile("s", (NodePorts(),), {}))


@pytest.mark.parametrize(
    ("wanted", "conflicts"),
    [
        (with_port("p", 80), True),
        (with_port("p", 81), False),
        (with_port("p", 80, protocol="UDP"), False),
        (with_port("p", 80, ip="10.0.0.1"), True),
        (with_port("p", 80, ip="10.0.0.2"), False),
        (with_port("p", 80, ip="0.0.0.0"), True),
    ],
)
def test_a_port_on_one_address_conflicts_with_itself_and_with_every_address(wanted: Pod, conflicts: bool) -> None:
    engine = one_node()
    bind(engine, with_port("a", 80, ip="10.0.0.1", on="n"))
    assert verdicts(engine, wanted)["n"] == (TAKEN if conflicts else ())


def test_a_port_on_every_address_conflicts_with_each_address() -> None:
    engine = one_node()
    bind(engine, with_port("a", 80, on="n"))
    assert verdicts(engine, with_port("p", 80, ip="10.0.0.9"))["n"] == TAKEN


def test_a_port_is_free_again_when_its_last_user_has_gone() -> None:
    engine = one_node()
    assert engine.place(Ask(with_port("a", 80))).node == "n"
    assert engine.place(Ask(with_port("b", 80))).node is None
    engine.cluster.remove_pod("default/a")
    assert engine.place(Ask(with_port("c", 80))).node == "n"


def test_ports_of_a_job_that_is_undone_are_free() -> None:
    engine = one_node()
    assert [placement.node for placement in engine.place_all([Ask(with_port("a", 80)), Ask(with_port("b", 80))])] == [
        None,
        None,
    ]
    assert engine.place(Ask(with_port("c", 80))).node == "n"


@settings(max_examples=25)
@given(SEEDS)
def test_every_verdict_equals_the_plain_reading_after_any_events(seed: int) -> None:
    rng, scene = random.Random(seed), random_scene(seed)
    plain = scene.cluster()
    engine = engine_for(plain, NodePorts())
    pods = {pod.metadata.key: pod for pod in plain.pods}
    for step in range(8):
        if rng.random() < 0.6:
            wanted = with_port(f"new-{step}", rng.choice([80, 8080]), ip=rng.choice(["", "10.0.0.1"]))
            home = engine.place(Ask(wanted)).node
            if home is not None:
                pods[wanted.metadata.key] = replace(wanted, spec=replace(wanted.spec, node_name=home))
        elif engine.cluster.pods:
            key = rng.choice(sorted(engine.cluster.pods))
            engine.cluster.remove_pod(key)
            del pods[key]
        after = Plain(nodes=plain.nodes, pods=tuple(pods.values()))
        for wanted in (*scene.pods(), with_port("x", 80), with_port("y", 8080, ip="10.0.0.1")):
            assert_same(engine, wanted, after)
