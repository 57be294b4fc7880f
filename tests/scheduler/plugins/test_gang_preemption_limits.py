"""Job-level preemption within quotas, and for jobs that must be gathered in the network: no pod goes in vain."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.configuration.component_config import PluginConfig
from koord.api.configuration.scheduler_args import CoschedulingArgs
from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import CLUSTER_NETWORK_TOPOLOGIES, ELASTIC_QUOTAS, NODES
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from koord.api.protocol.crd.network_topology import ClusterNetworkTopology
from koord.scheduler.core.decision import Bind, Nowhere
from koord.scheduler.plugins.quota.quotas import Quotas
from tests.scheduler.builders import node
from tests.scheduler.gangs import World, member
from tests.scheduler.quotas import quota

ARGS = CoschedulingArgs(enable_preemption=True, aware_network_topology=True)
CONFIG = replace(SHIPPED, profiles=(replace(SHIPPED.profiles[0], plugin_config=(PluginConfig("Coscheduling", ARGS),)),))
QUOTA = "quota.scheduling.koordinator.sh/name"


def of_team(pod: Pod, team: str) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, labels={**pod.metadata.labels, QUOTA: team}))


def running(name: str, on: str, team: str = "", cpu: str = "1", priority: int = 0) -> Pod:
    pod = member(name, on=on, cpu=cpu, priority=priority, phase="Running")
    pod = replace(pod, metadata=replace(pod.metadata, annotations={}))
    return of_team(pod, team) if team else pod


def urgent(name: str, least: int, cpu: str, network: str = "") -> Pod:
    if not network:
        return member(name, "urgent", least=least, cpu=cpu, priority=10)
    return member(name, "urgent", least=least, cpu=cpu, priority=10, network_topology_spec=network)


def gang(number: int, team: str = "", cpu: str = "1", network: str = "") -> list[Pod]:
    pods = [urgent(f"m{i}", number, cpu, network) for i in range(number)]
    return [of_team(pod, team) for pod in pods] if team else pods


def world(*cpus: int, quotas: tuple[ElasticQuota, ...] = ()) -> World:
    found = World(*cpus, config=CONFIG)
    for each in quotas:
        found.core.put(ELASTIC_QUOTAS, each)
    return found


def decision(world: World) -> Nowhere:
    [found] = world.decide()
    assert isinstance(found, Nowhere)
    return found


def victims(found: Nowhere) -> set[str]:
    return {key.partition("/")[2] for move in found.moves for key in move.victims}


def make_again(world: World, name: str) -> None:
    """A pod is gone, and its owner has made another one in its place."""
    pod = world.pods[f"shop/{name}"]
    world.delete(pod)
    meta = replace(pod.metadata, name=f"{name}-again", uid=f"{name}-again")
    status = replace(pod.status, phase="Pending")
    world.put(replace(pod, metadata=meta, spec=replace(pod.spec, node_name=""), status=status))


def test_pods_of_its_own_quota_go_for_a_gang_that_has_nodes_and_no_quota() -> None:
    teams = world(8, 8, quotas=(quota("ours", "4", "4"), quota("theirs", "0", "16")))
    teams.put(*(running(f"ours{i}", f"n{i % 2}", "ours") for i in range(4)), running("theirs0", "n0", "theirs"))
    teams.put(*gang(3, "ours"))
    found = decision(teams)
    assert len(victims(found)) == 3
    assert all(name.startswith("ours") for name in victims(found))
    for name in sorted(victims(found)):
        make_again(teams, name)
    teams.wait(5)
    assert {"m0", "m1", "m2"} <= set(teams.settle())


def test_victims_of_different_nodes_together_make_room_in_the_quota_for_one_large_member() -> None:
    teams = world(4, 4, 4, quotas=(quota("ours", "3", "3"),))
    teams.put(*(running(f"ours{i}", f"n{i}", "ours") for i in range(3)))
    teams.put(*gang(1, "ours", cpu="3"))
    assert victims(decision(teams)) == {"ours0", "ours1", "ours2"}


def test_nobody_goes_for_a_gang_that_is_larger_than_its_quota() -> None:
    teams = world(8, quotas=(quota("ours", "4", "4"),))
    teams.put(running("ours0", "n0", "ours"), *gang(5, "ours"))
    assert victims(decision(teams)) == set()


def test_nobody_of_another_quota_goes_for_a_share_that_it_takes_back_by_asking_again() -> None:
    # Each has a share of 4 while both ask for all; were the others' pods gone for good, ours would have 8.
    teams = world(8, quotas=(quota("ours", "0", "8"), quota("theirs", "0", "8")))
    teams.put(*(running(f"theirs{i}", "n0", "theirs") for i in range(8)))
    teams.put(*gang(6, "ours"))
    assert victims(decision(teams)) == set()


def test_pods_of_another_quota_go_for_the_node_while_the_gang_is_within_its_own_share() -> None:
    teams = world(8, quotas=(quota("ours", "4", "8"), quota("theirs", "0", "8")))
    teams.put(*(running(f"theirs{i}", "n0", "theirs") for i in range(8)))
    teams.put(*gang(4, "ours"))
    found = decision(teams)
    assert len(victims(found)) == 4
    for name in sorted(victims(found)):
        make_again(teams, name)
    teams.wait(5)
    assert set(teams.settle()) == {"m0", "m1", "m2", "m3"}


def test_a_pod_made_again_does_not_take_the_quota_before_the_last_victim_is_gone() -> None:
    teams = world(8, quotas=(quota("ours", "4", "4"),))
    teams.put(*(running(f"ours{i}", "n0", "ours") for i in range(4)), *gang(3, "ours"))
    going = sorted(victims(decision(teams)))
    for name in going:
        make_again(teams, name)
        teams.wait(2)
        placed = set(teams.settle())
        assert not any(each.endswith("again") for each in placed)
    teams.wait(5)
    assert {pod.metadata.name for pod in teams.pods.values() if pod.spec.node_name} >= {"m0", "m1", "m2"}


def test_what_a_promise_held_of_a_quota_goes_to_others_when_the_promise_is_void() -> None:
    teams = world(8, quotas=(quota("ours", "4", "4"),))
    teams.put(*(running(f"ours{i}", "n0", "ours") for i in range(4)), *gang(3, "ours"))
    going = sorted(victims(decision(teams)))
    make_again(teams, going[0])
    assert not teams.settle()
    teams.delete(*[pod for pod in list(teams.pods.values()) if pod.metadata.name.startswith("m")])
    teams.wait(30)
    assert teams.settle() == {f"{going[0]}-again": "n0"}


LAYERS = {
    "metadata": {"name": "default", "uid": "net"},
    "spec": {
        "networkTopologySpec": [
            {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "block"},
            {"topologyLayer": "block", "parentTopologyLayer": "ClusterTopologyLayer", "labelKey": ["net/block"]},
        ]
    },
}


def network(blocks: dict[str, int]) -> World:
    """Nodes of N cores, each in the block that its name begins with."""
    found = World(config=CONFIG)
    for name, cpu in blocks.items():
        found.core.put(NODES, node(name, cpu=str(cpu), labels={"net/block": name[0]}))
    found.core.put(CLUSTER_NETWORK_TOPOLOGIES, convert(ClusterNetworkTopology, LAYERS))
    return found


def gathered(number: int, strategy: str = "MustGather", multiple: int = 0) -> list[Pod]:
    rule = {"layer": "block", "strategy": strategy, **({"podCountMultiple": multiple} if multiple else {})}
    return gang(number, network=json.dumps({"gatherStrategy": [rule]}))


def test_a_gang_that_must_be_gathered_has_one_block_cleared_where_the_fewest_go() -> None:
    net = network({"a0": 2, "a1": 2, "b0": 2, "b1": 2})
    net.put(*(running(f"a{i}", f"a{i % 2}") for i in range(3)), *(running(f"b{i}", f"b{i % 2}") for i in range(2)))
    net.put(*gathered(3))
    found = decision(net)
    assert len(victims(found)) == 1
    assert all(name.startswith("b") for name in victims(found))
    assert {move.node[0] for move in found.moves} == {"b"}
    net.delete(*[net.pods[f"shop/{name}"] for name in victims(found)])
    net.wait(5)
    assert {where[0] for where in net.settle().values()} == {"b"}


@pytest.mark.parametrize(("strategy", "multiple"), [("MustGather", 0), ("MustGather", 2)])
def test_nobody_goes_where_no_block_could_take_the_whole_gang(strategy: str, multiple: int) -> None:
    net = network({"a0": 2, "b0": 2})
    net.put(running("low-a", "a0"), running("low-b", "b0"), *gathered(3, strategy, multiple))
    assert victims(decision(net)) == set()


def test_important_pods_in_a_block_leave_the_other_one_to_be_cleared() -> None:
    net = network({"a0": 2, "b0": 2})
    net.put(running("top", "a0", priority=99), *(running(f"b{i}", "b0") for i in range(2)), *gathered(2))
    found = decision(net)
    assert victims(found) == {"b0", "b1"}


def test_a_gang_that_would_rather_be_gathered_takes_places_anywhere() -> None:
    net = network({"a0": 2, "b0": 2})
    net.put(running("low-a", "a0"), running("low-b", "b0"), *gathered(4, "PreferGather"))
    found = decision(net)
    assert victims(found) == {"low-a", "low-b"}
    net.delete(*[net.pods[f"shop/{name}"] for name in victims(found)])
    net.wait(5)
    assert len(net.settle()) == 4


@settings(max_examples=30)
@given(
    st.lists(st.integers(1, 3), min_size=2, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 2), st.integers(0, 1), st.integers(0, 11)), max_size=8),
    st.lists(st.integers(1, 2), min_size=1, max_size=4),
    st.integers(1, 6),
    st.booleans(),
)
def test_with_quotas_and_a_network_all_comes_to_rest_and_nobody_goes_in_vain(
    cpus: list[int], pods: list[tuple[int, int, int, int]], members: list[int], most: int, must: bool
) -> None:
    net = network({f"{'ab'[i % 2]}{i}": cpu for i, cpu in enumerate(cpus)})
    for each in (quota("ours", "1", str(most)), quota("theirs", "1", "12")):
        net.core.put(ELASTIC_QUOTAS, each)
    free = dict(enumerate(cpus))
    for i, (on, cpu, team, priority) in enumerate(pods):
        on %= len(cpus)
        if free[on] >= cpu:
            free[on] -= cpu
            net.put(running(f"low{i}", f"{'ab'[on % 2]}{on}", ("ours", "theirs")[team], str(cpu), priority))
    rule = {"layer": "block", "strategy": "MustGather" if must else "PreferGather"}
    said = json.dumps({"gatherStrategy": [rule]})
    net.put(*(of_team(urgent(f"m{i}", len(members), str(cpu), said), "ours") for i, cpu in enumerate(members)))
    wanted = {f"m{i}" for i in range(len(members))}
    for_job: set[str] = set()
    for _ in range(8):
        for found in net.decide():
            if isinstance(found, Bind):
                net.bind(found)
            elif isinstance(found, Nowhere):
                going = victims(found)
                if found.attempt.entity.is_job and found.ask.meta.name in wanted:
                    assert not going or not for_job, "one round of victims is enough"
                    for_job |= going
                for name in sorted(going):
                    make_again(net, name)
                    net.wait(1)
        net.wait(5)
    bound = {pod.metadata.name: pod.spec.node_name for pod in net.pods.values() if pod.spec.node_name}
    assert wanted & bound.keys() in (set(), wanted)
    if for_job:
        assert wanted <= bound.keys(), "they went for a job that then did not fit"
        if must:
            assert len({bound[name][0] for name in wanted}) == 1
    used = net.core.cluster.notes(Quotas).forest.quotas["ours"].used.get("cpu", 0)
    assert used <= max(most * 1000, sum(1000 * cpu for _, cpu, team, _ in pods if not team))
