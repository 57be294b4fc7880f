"""PodTopologySpread by examples, with the arithmetic shown."""

from __future__ import annotations

import gc
import random
from math import log
from typing import Any

import pytest
from msgspec.structs import replace

from koord.api.kubernetes.core import Service
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.workloads import ReplicaSet
from koord.api.machinery.codec import convert
from koord.scheduler.framework import classes
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.facet import FewGroups
from koord.scheduler.plugins.pod_topology_spread import NO_LABEL, SKEWED, PodTopologySpread
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.build import node, pod
from tests.scheduler.plugins.neighbours import alone

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
WEB = {"matchLabels": {"app": "web"}}


def constraint(key: str = ZONE, *, skew: int = 1, hard: bool = True, **more: Any) -> dict[str, Any]:
    action = "DoNotSchedule" if hard else "ScheduleAnyway"
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": action, "labelSelector": WEB, **more}


def zoned(*zones: str | None, **more: Any) -> list[Node]:
    """Nodes n0, n1, ..., each in its zone, or in none."""
    return [node(f"n{i}", labels={ZONE: zone} if zone else {}, **more.get(f"n{i}", {})) for i, zone in enumerate(zones)]


def spreading(nodes: list[Node], *on: str, **labels: str) -> Engine:
    """An engine with that plugin alone, and a web pod on each of the named nodes."""
    cluster = Cluster()
    for each in nodes:
        cluster.put_node(each)
    for i, name in enumerate(on):
        put(cluster, f"web-{i}", name, **labels)
    return alone(cluster, PodTopologySpread())


def put(cluster: Cluster, name: str, on: str, **labels: str) -> None:
    placed = Ask(pod(name, on=on, labels={"app": "web", **labels}))
    cluster.place(placed.record(), cluster.table.row_of[on])


def web(*constraints: dict[str, Any], name: str = "next", **more: Any) -> Ask:
    return Ask(
        pod(name, labels={"app": "web", **more.pop("labels", {})}, topologySpreadConstraints=constraints, **more)
    )


def feasible(engine: Engine, ask: Ask) -> set[str]:
    return {engine.cluster.table.names[row] for row in engine.class_of(ask).feasible_rows()}


def scores(engine: Engine, ask: Ask) -> dict[str, int]:
    pod_class = engine.class_of(ask)
    names = engine.cluster.table.names
    return {names[row]: pod_class.scores(int(row))["PodTopologySpread"] for row in pod_class.feasible_rows()}


def test_a_zone_that_is_ahead_takes_no_more() -> None:
    """Two pods in a, one in b: in a 2 + 1 - 1 = 2 > 1; in b 1 + 1 - 1 = 1."""
    engine = spreading(zoned("a", "a", "b"), "n0", "n1", "n2")
    assert feasible(engine, web(constraint())) == {"n2"}
    assert feasible(engine, web(constraint(skew=2))) == {"n0", "n1", "n2"}


def test_a_pod_that_its_own_selector_does_not_choose_adds_nothing() -> None:
    engine = spreading(zoned("a", "b"), "n0")
    other = Ask(pod("next", labels={"app": "other"}, topologySpreadConstraints=[constraint()]))
    assert feasible(engine, other) == {"n0", "n1"}
    assert feasible(engine, web(constraint())) == {"n1"}


def test_reasons_tell_missing_labels_from_skew() -> None:
    engine = spreading(zoned("a", "b", None), "n0")
    pod_class = engine.class_of(web(constraint()))
    reasons = {engine.cluster.table.names[row]: why for row, (_, why) in pod_class.rejections().items()}
    assert reasons == {"n0": [SKEWED], "n2": [NO_LABEL]}


def test_nodes_without_all_labels_are_no_domains() -> None:
    engine = spreading(zoned("a", "b"), "n0")
    pod_class = engine.class_of(web(constraint(), constraint("rack")))
    reasons = {engine.cluster.table.names[row]: why for row, (_, why) in pod_class.rejections().items()}
    # No node has a rack, so none is eligible: pods in zones are not counted, and only the missing label refuses.
    assert reasons == {"n0": [NO_LABEL], "n1": [NO_LABEL]}


def test_fewer_domains_than_wanted_make_the_least_zero() -> None:
    """One pod in each of two zones: 1 + 1 - 1 <= 1, but with three domains wanted 1 + 1 - 0 > 1."""
    engine = spreading(zoned("a", "b"), "n0", "n1")
    assert feasible(engine, web(constraint())) == {"n0", "n1"}
    assert feasible(engine, web(constraint(minDomains=3))) == set()


def test_nodes_that_the_pod_cannot_have_are_no_domains_unless_told_to_ignore_that() -> None:
    nodes = [node("n0", labels={ZONE: "a", "disk": "ssd"}), node("n1", labels={ZONE: "b"})]
    engine = spreading(nodes, "n0")
    assert "n0" in feasible(engine, web(constraint(), nodeSelector={"disk": "ssd"}))
    ignoring = constraint(nodeAffinityPolicy="Ignore")
    assert "n0" not in feasible(engine, web(ignoring, nodeSelector={"disk": "ssd"}))


def test_tainted_nodes_are_domains_unless_taints_are_honored() -> None:
    taint = [{"key": "k", "effect": "NoSchedule"}]
    engine = spreading([node("n0", labels={ZONE: "a"}), node("n1", labels={ZONE: "b"}, taints=taint)], "n0")
    assert "n0" not in feasible(engine, web(constraint()))
    honoring = constraint(nodeTaintsPolicy="Honor")
    assert "n0" in feasible(engine, web(honoring))
    assert "n0" not in feasible(engine, web(honoring, tolerations=[{"key": "k", "operator": "Exists"}]))


def test_hosts_are_domains_of_their_own() -> None:
    engine = spreading([node("n0"), node("n1"), node("n2")], "n0", "n1")
    assert feasible(engine, web(constraint(HOST))) == {"n2"}
    put(engine.cluster, "more", "n2")
    assert feasible(engine, web(constraint(HOST))) == {"n0", "n1", "n2"}


def test_match_label_keys_count_only_pods_of_the_same_revision() -> None:
    engine = spreading(zoned("a", "b"), "n0", rev="1")
    keyed = constraint(matchLabelKeys=["rev"])
    assert feasible(engine, web(keyed, labels={"rev": "1"})) == {"n1"}
    assert feasible(engine, web(keyed, labels={"rev": "2"})) == {"n0", "n1"}


def test_pods_that_are_being_deleted_or_elsewhere_do_not_count() -> None:
    engine = spreading(zoned("a", "b"))
    cluster = engine.cluster
    cluster.place(Ask(pod("going", on="n0", labels={"app": "web"}, deleted=True)).record(), cluster.table.row_of["n0"])
    cluster.place(Ask(pod("x", on="n0", labels={"app": "web"}, namespace="y")).record(), cluster.table.row_of["n0"])
    assert feasible(engine, web(constraint())) == {"n0", "n1"}


def test_scores_of_two_zones_with_three_pods_and_one() -> None:
    """ln(2 + 2) = 1.386: raw 3 * 1.386 = 4.16 and 1.386, rounded 4 and 1; 100 * (4 + 1 - 4) / 4 = 25, and 100."""
    assert (round(3 * log(4)), round(log(4))) == (4, 1)
    engine = spreading(zoned("a", "b"), "n0", "n0", "n0", "n1")
    assert scores(engine, web(constraint(hard=False))) == {"n0": 25, "n1": 100}


def test_nodes_without_the_label_score_nothing() -> None:
    engine = spreading(zoned("a", "b", None), "n0")
    assert scores(engine, web(constraint(hard=False))) == {"n0": 0, "n1": 100, "n2": 0}


def test_all_score_alike_where_there_is_nothing_to_spread() -> None:
    assert scores(spreading(zoned("a", "b")), web(constraint(hard=False))) == {"n0": 100, "n1": 100}


def service(namespace: str = "default", **selector: str) -> Service:
    return convert(Service, {"metadata": {"name": "s", "namespace": namespace}, "spec": {"selector": selector}})


def test_pods_of_a_service_are_spread_by_default_over_hosts_and_zones() -> None:
    """n0 has two pods, its zone three; n1 one and three; n2 none and none, and is in no zone.

    host: ln(3 + 2), maxSkew 3; zone: two domains (no zone is one), ln(2 + 2), maxSkew 5.
    """
    engine = spreading(zoned("a", "a", None), "n0", "n0", "n1")
    plain = Ask(pod("next", labels={"app": "web"}))
    assert engine.class_of(plain).parts == ()
    engine.cluster.put_service(service(app="web"))
    raws = [round(2 * log(5) + 2 + 3 * log(4) + 4), round(log(5) + 2 + 3 * log(4) + 4), 2]
    assert raws == [13, 12, 2]
    assert scores(engine, plain) == {f"n{i}": 100 * (13 + 2 - raw) // 13 for i, raw in enumerate(raws)}


@pytest.mark.parametrize("selects", [{"app": "other"}, {}])
def test_a_pod_without_owners_is_not_spread(selects: dict[str, str]) -> None:
    engine = spreading(zoned("a", "b"), "n0")
    engine.cluster.put_service(service(**selects))
    engine.cluster.put_service(service("elsewhere", app="web"))
    assert engine.class_of(Ask(pod("next", labels={"app": "web"}))).parts == ()


def owned(name: str, by: str, **labels: str) -> Ask:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": by, "uid": by, "controller": True}
    return Ask(pod(name, labels={"app": "web", **labels}, owners=[owner]))


def replica_set(name: str, **selector: str) -> ReplicaSet:
    meta = {"name": name, "namespace": "default"}
    return convert(ReplicaSet, {"metadata": meta, "spec": {"selector": {"matchLabels": selector}}})


def test_the_controllers_selector_counts_too() -> None:
    engine = spreading(zoned("a", "b"), "n0", rev="1")
    engine.cluster.put_workload(replica_set("web-1", app="web", rev="1"))
    engine.cluster.put_workload(replica_set("web-2", app="web", rev="2"))
    assert scores(engine, owned("next", "web-1", rev="1"))["n0"] < 100
    assert scores(engine, owned("next", "web-2", rev="2"))["n0"] == 100


def test_pods_with_names_of_their_own_in_labels_share_a_class() -> None:
    engine = spreading(zoned("a", "b"))
    engine.cluster.put_service(service(app="web"))
    classes = {id(engine.class_of(owned(f"web-{i}", "web-1", **{"pod-name": f"web-{i}"}))) for i in range(5)}
    assert len(classes) == 1


def test_ten_pods_go_evenly_over_five_hosts() -> None:
    engine = spreading([node(f"n{i}") for i in range(5)])
    engine.cluster.put_service(service(app="web"))
    nodes = [engine.place(Ask(pod(f"web-{i}", labels={"app": "web"}))).node for i in range(10)]
    assert sorted(nodes) == sorted([f"n{i}" for i in range(5)] * 2)  # type: ignore[type-var]  # none is None


def test_what_was_counted_for_a_class_is_dropped_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "CLASSES_KEPT", 4)
    engine = spreading(zoned("a", "b"))
    gc.disable()
    try:
        for i in range(20):
            wanted = constraint(labelSelector={"matchLabels": {"app": "web", f"key-{i}": "x"}})
            assert engine.place(web(wanted, name=f"p{i}", labels={f"key-{i}": "x"})).node
    finally:
        gc.enable()
    assert len(engine.cluster.counts._selections) == 4


@pytest.mark.parametrize("own", [(), (ZONE,), (HOST,), (HOST, ZONE), (ZONE, HOST), (ZONE, HOST, "rack")])
@pytest.mark.parametrize("seed", range(3))
def test_few_groups_are_worth_the_same_in_plain_numbers(own: tuple[str, ...], seed: int) -> None:
    rng = random.Random(seed)
    zones = [rng.choice(("a", "b", "c", *[None] * (not own or seed == 1))) for _ in range(12)]
    engine = spreading(zoned(*zones), *[f"n{rng.randrange(12)}" for _ in range(9)])
    for i, row in enumerate(engine.cluster.table.row_of.values()):
        found = engine.cluster.nodes[row]
        labels = {**found.metadata.labels, "rack": f"r{i % 5}"}
        engine.cluster.put_node(replace(found, metadata=replace(found.metadata, labels=labels)))
    engine.cluster.put_service(service(app="web"))
    asked = 0
    for i in range(40):
        ask = web(*[constraint(key, skew=seed + 1, hard=False) for key in own], name=f"next-{i}")
        kept = engine.class_of(ask)
        engine.place(ask)
        kept.best()
        groups, (_, facet) = kept._groups, kept._facets[0]
        assert groups is not None
        present = groups.number.nonzero()[0].tolist()
        plain = facet.few(present, int(groups.number.sum())) if isinstance(facet, FewGroups) else None
        if plain is not None and not facet.flat:
            asked += 1
            assert plain == facet.table(groups.number)[present].tolist()
    assert asked or seed == 1
