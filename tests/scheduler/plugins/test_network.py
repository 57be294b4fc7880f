"""Gangs in the network: the tree of the labels, and which nodes a gang gets."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from koord.api.configuration.component_config import PluginConfig
from koord.api.configuration.scheduler_args import CoschedulingArgs
from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import CLUSTER_NETWORK_TOPOLOGIES, ELASTIC_QUOTAS, NODES
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.annotations.gang import NetworkTopologySpec
from koord.api.protocol.crd.network_topology import ClusterNetworkTopology, ClusterNetworkTopologySpec
from koord.scheduler.core.decision import Nowhere
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.writes import Patch
from koord.scheduler.plugins.network.gather import gathered, offers_of
from koord.scheduler.plugins.network.tree import BadLayers, Tree, status_of, tree_of
from tests.scheduler.builders import node
from tests.scheduler.gangs import World, member
from tests.scheduler.quotas import PREFIX as QUOTA
from tests.scheduler.quotas import quota, team_pod

CAPACITY = {"n1": 4, "n2": 2, "n3": 3, "n4": 3, "n5": 4, "n6": 4, "n7": 1}
BLOCKS = {"n1": "b1", "n2": "b1", "n3": "b2", "n4": "b2", "n5": "b3", "n6": "b3", "n7": "b4"}
SPINES = {"b1": "s1", "b2": "s1", "b3": "s2", "b4": "s2"}
LAYERS: list[dict[str, Any]] = [
    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "block"},
    {"topologyLayer": "block", "parentTopologyLayer": "spine", "labelKey": ["net/block", "old/block"]},
    {"topologyLayer": "spine", "parentTopologyLayer": "ClusterTopologyLayer", "labelKey": ["net/spine"]},
]


def spec(*layers: dict[str, Any]) -> ClusterNetworkTopologySpec:
    return convert(ClusterNetworkTopologySpec, {"networkTopologySpec": list(layers or LAYERS)})


def labels(node: str) -> dict[str, str]:
    return {"net/block": BLOCKS[node], "net/spine": SPINES[BLOCKS[node]]}


def tree() -> Tree:
    return tree_of(spec(), {node: labels(node) for node in CAPACITY})


def wish(*rules: tuple[str, str, int]) -> NetworkTopologySpec:
    found = [{"layer": layer, "strategy": strategy, "podCountMultiple": n} for layer, strategy, n in rules]
    return convert(NetworkTopologySpec, {"gatherStrategy": found})


def goes(number: int, *rules: tuple[str, str, int], near: str = "") -> dict[str, int] | str:
    of = tree()
    names = of.levels[-1].names
    offer = np.array([CAPACITY[name] for name in names])
    exist = np.array([int(name == near) for name in names])
    asked = wish(*rules)
    offers = offers_of(of, asked, number, offer, exist, np.zeros(len(names), np.int64))
    found = gathered(of, asked, number, offers)
    return found if isinstance(found, str) else {names[node]: count for node, count in found}


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (4, {"n1": 4}),
        (2, {"n5": 2}),
        (6, {"n1": 4, "n2": 2}),
        (8, {"n5": 4, "n6": 4}),
        (9, {"n5": 4, "n6": 4, "n7": 1}),
        (13, {"n1": 4, "n2": 2, "n3": 3, "n4": 3, "n5": 1}),
    ],
)
def test_a_gang_goes_as_deep_as_one_domain_takes_all_and_fills_the_fuller_one(
    number: int, expected: dict[str, int]
) -> None:
    assert goes(number) == expected


@pytest.mark.parametrize(("number", "layer"), [(9, "block"), (13, "spine")])
def test_a_gang_that_must_gather_where_nobody_takes_all_goes_nowhere_and_is_told_the_offers(
    number: int, layer: str
) -> None:
    found = goes(number, (layer, "MustGather", 0))
    assert isinstance(found, str)
    assert found.startswith(f"no domain of {layer} takes all {number} pods")
    assert ("b1 6, b2 6, b3 8, b4 1" if layer == "block" else "s1 12, s2 9") in found


def test_members_are_handed_out_in_multiples() -> None:
    pairs = ("NodeTopologyLayer", "PreferGather", 2)
    assert goes(6, pairs) == {"n1": 4, "n2": 2}
    assert goes(10, pairs) == {"n1": 4, "n2": 2, "n3": 2, "n4": 2}
    assert isinstance(goes(7, pairs), str)


def test_a_gang_goes_where_pods_are_that_it_wants_to_be_near() -> None:
    assert goes(5) == {"n1": 4, "n2": 1}
    assert goes(5, near="n3") == {"n3": 3, "n4": 2}


def test_a_layer_that_the_network_does_not_have_is_named() -> None:
    assert goes(2, ("rack", "MustGather", 0)) == "the network has no layer rack, which the gang asks for"


def test_a_node_without_a_block_is_its_own_and_one_without_a_spine_is_outside() -> None:
    nodes = {"a": {"net/spine": "s1"}, "b": {"net/block": "b1"}, "c": {"old/block": "b2", "net/spine": "s1"}}
    found = tree_of(spec(), nodes)
    assert found.outside == ("b",)
    assert found.levels[2].names == ("a", "b2")


def test_the_status_lists_every_domain_above_the_nodes() -> None:
    told = status_of(tree()).detail_status
    details = {(each.topology_info.topology_layer, each.topology_info.topology_name): each for each in told}
    root = details["ClusterTopologyLayer", ""]
    assert (root.node_num, root.child_topology_layer, root.child_topology_names) == (7, "spine", ("s1", "s2"))
    block = details["block", "b1"]
    assert (block.node_num, block.child_topology_layer, block.child_topology_names) == (2, "NodeTopologyLayer", ())
    assert block.parent_topology_info is not None
    assert block.parent_topology_info.topology_name == "s1"
    assert len(details) == 7


@pytest.mark.parametrize(
    ("layers", "why"),
    [
        (LAYERS[1:], "has no layer NodeTopologyLayer"),
        (LAYERS[:2], "has no layer spine"),
        ([*LAYERS, LAYERS[1]], "names a layer twice"),
        ([LAYERS[0], {**LAYERS[1], "parentTopologyLayer": "block"}], "is above itself"),
    ],
)
def test_layers_that_make_no_chain_are_refused(layers: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(BadLayers, match=why):
        tree_of(spec(*layers), {})


CONFIG = replace(
    SHIPPED,
    profiles=(
        replace(
            SHIPPED.profiles[0],
            plugin_config=(PluginConfig("Coscheduling", CoschedulingArgs(aware_network_topology=True)),),
        ),
    ),
)


def world(*, layers: bool = True) -> World:
    """The nodes of the worked examples: a core for each member."""
    found = World(config=CONFIG)
    for name, cpu in CAPACITY.items():
        found.core.put(NODES, node(name, cpu=str(cpu), labels=labels(name)))
    if layers:
        data = {"metadata": {"name": "default", "uid": "u"}, "spec": {"networkTopologySpec": LAYERS}}
        found.core.put(CLUSTER_NETWORK_TOPOLOGIES, convert(ClusterNetworkTopology, data))
    return found


def gang(number: int, layer: str = "", *, least: int = 0, **more: str) -> list[Pod]:
    rules = [{"layer": layer or "block", "strategy": "MustGather" if layer else "PreferGather"}]
    said: dict[str, Any] = {"network_topology_spec": json.dumps({"gatherStrategy": rules}), **more}
    return [member(f"m{i:02}", least=least or number, **said) for i in range(number)]


def test_the_scheduler_puts_a_gang_where_the_network_takes_it_together() -> None:
    cluster = world()
    cluster.put(*gang(8))
    assert Counter(cluster.settle().values()) == {"n5": 4, "n6": 4}


def test_a_gang_that_cannot_be_gathered_waits_and_goes_when_there_is_room() -> None:
    cluster = world()
    cluster.put(*gang(9, "block"))
    [found] = cluster.decide()
    assert isinstance(found, Nowhere)
    assert "no domain of block takes all 9 pods; what each could take: b1 6, b2 6, b3 8, b4 1" in found.message
    cluster.core.put(NODES, node("n8", cpu="1", labels={"net/block": "b3", "net/spine": "s2"}))
    cluster.wait(5)
    assert Counter(cluster.settle().values()) == {"n5": 4, "n6": 4, "n8": 1}


def test_a_replacement_goes_where_the_others_of_its_gang_are() -> None:
    cluster = world()
    cluster.put(*gang(5, "block"))
    where = cluster.settle()
    [block] = {BLOCKS[name] for name in where.values()}
    cluster.delete(cluster.pods["shop/m03"])
    cluster.put(gang(5, "block")[3])
    assert BLOCKS[cluster.settle()["m03"]] == block


def test_members_go_in_the_order_of_their_index() -> None:
    cluster = world()
    pods = [gang(5, network_topology_index=str(4 - i))[i] for i in range(5)]
    cluster.put(*pods)
    where = cluster.settle()
    # Of two blocks that offer as much, the one whose nodes score higher.
    assert [where[f"m0{i}"] for i in range(5)] == ["n4", "n4", "n3", "n3", "n3"]


def test_more_members_than_fit_together_are_left_for_later() -> None:
    cluster = world()
    cluster.put(*gang(9, "block", least=8))
    assert Counter(cluster.settle().values()) == {"n5": 4, "n6": 4}


def test_without_the_object_such_gangs_wait_and_others_go() -> None:
    cluster = world(layers=False)
    cluster.put(*gang(2), member("plain", "other", least=1))
    decisions = cluster.decide()
    assert {type(decision).__name__ for decision in decisions} == {"Nowhere", "Bind"}
    [nowhere] = [decision for decision in decisions if isinstance(decision, Nowhere)]
    assert "there is no ClusterNetworkTopology default" in nowhere.message


def test_the_object_is_told_its_tree_once() -> None:
    cluster = world()

    def told() -> list[Patch]:
        writes = (each for each in cluster.core.take_writes() if isinstance(each, Patch))
        return [write for write in writes if write.kind is CLUSTER_NETWORK_TOPOLOGIES]

    [write] = told()
    assert len(write.body["status"]["detailStatus"]) == 7
    assert told() == []


def near(name: str, selector: str, *, on: str = "") -> Pod:
    """A pod of no gang that wants to be near to others."""
    data: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": name,
            "annotations": {"scheduling.koordinator.sh/network-topology-selector": selector},
        },
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    }
    return convert(Pod, data)


def scored(cluster: World, pod: Pod) -> dict[str, int]:
    """What nearness adds to the score of each node."""
    engine = next(iter(cluster.core.engines.values()))
    table = engine.cluster.table
    plugin = next(plugin for plugin in engine.profile.plugins if plugin.name == "Coscheduling")
    assert plugin.compile is not None
    judge = plugin.compile(Ask(pod), engine.cluster)
    assert judge is not None
    (facet,) = judge.facets
    facet.refresh(None)
    worth = facet.table(np.bincount(facet.groups[list(table.row_of.values())], minlength=facet.size))
    return {name: int(worth[facet.groups[row]]) for name, row in table.row_of.items()}


def test_a_pod_alone_goes_near_to_the_pods_that_it_names() -> None:
    cluster = world()
    cluster.put(near("first", "db", on="n3"))
    # On the node itself, beside it in the block, elsewhere in the spine, and in another one.
    assert scored(cluster, near("p", "db")) == {
        "n3": 100, "n4": 66, "n1": 33, "n2": 33, "n5": 0, "n6": 0, "n7": 0,
    }  # fmt: skip
    assert set(scored(cluster, near("p", "other")).values()) == {0}
    cluster.put(near("p", "db"))
    # It is one score among others: n4 is as good as n3, with less on it.
    assert BLOCKS[cluster.settle()["p"]] == "b2"


def test_nearness_follows_pods_that_come_and_go_and_nodes_that_move() -> None:
    cluster = world()
    first = near("first", "db", on="n3")
    cluster.put(first, near("second", "db", on="n1"), near("third", "db", on="n1"))
    assert scored(cluster, near("p", "db"))["n1"] == 100
    cluster.put(near("p", "db"))
    assert cluster.settle() == {"p": "n1"}
    cluster.delete(*(cluster.pods[f"shop/{name}"] for name in ("p", "second", "third")))
    cluster.put(near("q", "db"))
    assert BLOCKS[cluster.settle()["q"]] == "b2"
    cluster.delete(cluster.pods["shop/q"])
    cluster.core.put(NODES, node("n3", cpu="3", labels={"net/block": "b3", "net/spine": "s2"}))
    assert scored(cluster, near("r", "db"))["n5"] > scored(cluster, near("r", "db"))["n4"]


def test_a_gang_that_the_network_takes_and_its_quota_does_not_goes_when_that_has_room() -> None:
    cluster = world()
    team = {f"{QUOTA}name": "a"}
    runs = team_pod("runs", "a", on="n7")
    cluster.core.put(ELASTIC_QUOTAS, quota("a", "2", "2"))
    cluster.put(runs, *(replace(pod, metadata=replace(pod.metadata, labels=team)) for pod in gang(2)))
    [found] = cluster.decide()
    assert isinstance(found, Nowhere)
    assert "Insufficient quotas" in found.message
    cluster.wait(20)
    cluster.delete(runs)
    assert cluster.settle().keys() == {"m00", "m01"}
