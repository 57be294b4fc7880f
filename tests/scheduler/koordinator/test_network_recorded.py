"""Gangs are gathered in the network where Koordinator's solver gathers them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from koord.api.protocol.annotations.gang import GatherRule, NetworkTopologySpec
from koord.api.protocol.crd.network_topology import ClusterNetworkTopologySpec
from koord.api.protocol.crd.network_topology import NetworkTopologySpec as Layer
from koord.scheduler.plugins.network.gather import gathered, offers_of
from koord.scheduler.plugins.network.tree import NODE, ROOT, Tree, tree_of
from tests.scheduler.koordinator.recording import Answer, Question, read, unexplained


def network(question: Question) -> Tree:
    chain = [ROOT, *question["layers"], NODE]
    layers = tuple(
        Layer(topology_layer=low, parent_topology_layer=high, label_key=(low,)) for high, low in pairwise(chain)
    )
    labels = {
        name: dict(zip(question["layers"], node["path"], strict=True)) for name, node in question["nodes"].items()
    }
    return tree_of(ClusterNetworkTopologySpec(layers), labels)


def wish_of(question: Question) -> NetworkTopologySpec:
    multiples, must = question.get("multiple", {}), question.get("must")
    layers = dict.fromkeys([*multiples, *([must] if must else [])])
    return NetworkTopologySpec(
        tuple(
            GatherRule(layer, "MustGather" if layer == must else "PreferGather", multiples.get(layer, 0))
            for layer in layers
        )
    )


def placed(question: Question) -> list[list[object]]:
    tree, wish, number = network(question), wish_of(question), question["number"]
    names = tree.levels[-1].names
    offer, exist, score = (
        np.array([question["nodes"][name].get(what, 0) for name in names], np.int64)
        for what in ("offer", "exist", "score")
    )
    found = gathered(tree, wish, number, offers_of(tree, wish, number, offer, exist, score))
    return [] if isinstance(found, str) else [[names[node], members] for node, members in found]


def differences(question: Question, answer: Answer) -> list[str]:
    ours, theirs = placed(question), answer.get("placed", [])
    return [] if ours == theirs else [f"{ours}, not {theirs}"]


def test_gangs_go_where_koordinator_would_gather_them() -> None:
    assert unexplained("network", differences) == []


def test_the_recording_is_of_many_networks() -> None:
    cases = read("network").cases
    numbers = [len(case.answers[0].get("placed", ())) for case in cases]
    assert min(numbers.count(0), sum(1 for number in numbers if number > 1)) >= 25
    assert sum(1 for case in cases if "must" in case.question) >= 50
    assert sum(1 for case in cases if "multiple" in case.question) >= 40
