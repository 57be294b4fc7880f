"""Shards of a cluster: each node and each pod is in one, and a pod without a place sees them all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import NODES, PODS
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol import names
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Bind, Nowhere
from koord.scheduler.profiles import profiles_of
from koord.scheduler.shards import InvalidShard, Shard, is_otherwise, parse

POOL = "pool"
words = st.text("abcdefgh-0123456789", min_size=1, max_size=12)
sizes = st.integers(1, 9)


def shards(of: int, label: str = POOL) -> list[Shard]:
    return [Shard(number, of, label) for number in range(1, of + 1)]


def node(name: str, pool: str = "", cpu: str = "4") -> Node:
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    labels = {POOL: pool} if pool else {}
    return convert(Node, {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": amounts}})


def pod(name: str, *, note: str = "", cpu: str = "1", labels: dict[str, str] | None = None, **spec: Any) -> Pod:
    annotations = {names.OWN_ANNOTATION_SHARDS: note} if note else {}
    container = {"name": "app", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "ns", "uid": name, "annotations": annotations, "labels": labels or {}}
    return convert(Pod, {"metadata": metadata, "spec": {"containers": [container], **spec}})


@given(sizes, words, words, st.sampled_from(["", "1", "2,1", "99", "x", "1,2,3,4,5,6,7,8,9,1", "0", "-1", "²"]))
def test_each_node_and_each_pod_is_in_one_shard(of: int, name: str, pool: str, note: str) -> None:
    for thing in (node(name), node(name, pool)):
        assert sum(shard.has_node(thing) for shard in shards(of)) == 1
    for waiting in (pod(name, note=note), pod(name, note=note, nodeSelector={POOL: pool})):
        assert sum(shard.has_pod(waiting) for shard in shards(of)) == 1


@given(sizes, words, words)
def test_a_pod_that_selects_a_pool_begins_where_its_nodes_are(of: int, name: str, pool: str) -> None:
    for shard in shards(of):
        assert shard.has_node(node(name, pool)) == shard.has_pod(pod("p", nodeSelector={POOL: pool}))


@given(sizes, st.lists(words, min_size=1, max_size=5, unique=True), words)
def test_members_of_a_gang_and_pods_of_a_quota_are_together(of: int, members: list[str], name: str) -> None:
    for key in (names.LABEL_POD_GROUP, names.LABEL_QUOTA_NAME):
        homes = {
            shard.number for shard in shards(of) for member in members if shard.has_pod(pod(member, labels={key: name}))
        }
        assert len(homes) == 1


@given(sizes, words)
def test_handed_around_it_is_in_every_shard_once_and_then_back(of: int, name: str) -> None:
    all_shards, visited, note = shards(of), [], ""
    for _ in range(of + 1):
        (shard,) = [shard for shard in all_shards if shard.has_pod(pod(name, note=note))]
        visited.append(shard.number)
        following = shard.handed_over(pod(name, note=note), again=False)
        if following is None:
            break
        note = following
    assert sorted(visited[:of]) == list(range(1, of + 1))
    assert visited[-1] == visited[0]
    (home,) = [shard for shard in all_shards if shard.has_pod(pod(name, note=note))]
    assert home.handed_over(pod(name, note=note), again=False) is None
    again = home.handed_over(pod(name, note=note), again=True)
    assert (again is None) == (of == 1)


@pytest.mark.parametrize(
    ("lease", "shard", "expected"),
    [
        ("koord-scheduler", None, False),
        ("koord-scheduler", Shard(1, 2), True),
        ("koord-scheduler-2-of-2", Shard(1, 2), False),
        ("koord-scheduler-2-of-3", Shard(1, 2), True),
        ("koord-scheduler-2-of-3", None, True),
        ("koord-scheduler-profile", Shard(1, 2), False),
        ("koord-manager", Shard(1, 2), False),
    ],
)
def test_which_leases_are_of_another_division(lease: str, shard: Shard | None, expected: bool) -> None:
    assert is_otherwise(lease, "koord-scheduler", shard) is expected


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "1/65", "a/b", "1/2/3", "-1/2", "01/2"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(InvalidShard, match="must be K/N"):
        parse(text)


def test_a_scheduler_places_pods_on_nodes_of_its_shard_alone_and_follows_a_node_that_moves() -> None:
    mine, theirs = (next(f"p{i}" for i in range(99) if Shard(1, 2, POOL).has_node(node("n", f"p{i}")) is own)
                    for own in (True, False))  # fmt: skip
    core = Core(profiles_of(SHIPPED), alone=True, shard=Shard(1, 2, POOL))
    core.put(NODES, node("n1", mine))
    core.put(NODES, node("n2", theirs, cpu="64"))
    core.put(PODS, pod("big", note="1", cpu="8"))
    core.put(PODS, pod("other", note="2"))
    assert isinstance(core.decide(), Nowhere)
    assert core.decide() is None, "the pod of the other shard is not decided here"
    core.put(NODES, node("n2", mine, cpu="64"), node("n2", theirs, cpu="64"))
    core.put(NODES, node("n1", theirs), node("n1", mine))
    core.put(PODS, pod("next", note="1"))
    bind = core.decide()
    assert isinstance(bind, Bind)
    assert {placed.node for placed in bind.members} == {"n2"}
