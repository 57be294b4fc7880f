"""The specification's worked examples that concern filters and scores, by the plain reading of its rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from koord.api.configuration.scheduler_args import (
    FitScoringStrategy,
    LoadAwareAggregation,
    LoadAwareSchedulingArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    RequestedToCapacityRatio,
    ResourceWeight,
    ShapePoint,
)
from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kubernetes.core import Namespace, Service
from koord.api.kubernetes.pod import Pod, TopologySpreadConstraint
from koord.api.kubernetes.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from koord.api.machinery.codec import convert
from tests.scheduler.build import NOW_S, condition, metric, node, pod, pod_usage
from tests.scheduler.reference import cycle, load_aware_rules, node_rules, pod_affinity_rules, resource_rules
from tests.scheduler.reference.cluster import Cluster, Verdict, normalised_by_max, rounded, unsched, uu

MIB, GIB = 1024**2, 1024**3
LOAD_ARGS = LoadAwareSchedulingArgs().completed()
BATCH_CPU, BATCH_MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
ZONE = "topology.kubernetes.io/zone"


def load_filter(cluster: Cluster, incoming: Pod, args: LoadAwareSchedulingArgs = LOAD_ARGS) -> Verdict:
    return cycle.filter("LoadAwareScheduling", incoming, "n1", cluster, args.completed())


def load_score(cluster: Cluster, incoming: Pod, args: LoadAwareSchedulingArgs = LOAD_ARGS) -> int:
    return cycle.score("LoadAwareScheduling", incoming, ["n1"], cluster, args.completed())["n1"]


@pytest.mark.parametrize(
    ("incoming", "expected"),
    [
        (pod("a", requests={"cpu": "2", "memory": "4Gi"}, limits={"cpu": "3"}), (2550, 3006477107)),
        (pod("a", priority=5500, requests={BATCH_CPU: 3000, BATCH_MEMORY: "6Gi"}), (2550, 4509715661)),
        (pod("a", priority=9000), (250, 209715200)),
        (pod("a", labels={"koordinator.sh/priority-class": "koord-free"}, requests={"cpu": "4"}), (0, 0)),
        (pod("a", priority=7000, requests={"cpu": "4"}), (0, 0)),
    ],
    ids=["limit above request", "batch", "nothing stated", "free", "mid without mid resources"],
)
def test_a_pods_usage_is_estimated(incoming: Pod, expected: tuple[int, int]) -> None:
    estimated = load_aware_rules.estimate(incoming, LOAD_ARGS)
    assert (estimated["cpu"], estimated["memory"]) == expected


@pytest.mark.parametrize(("limits", "cpu"), [({"cpu": "2"}, 2000), ({}, 2400)])
def test_a_pods_own_factor_may_be_above_100_but_not_pass_its_limit(limits: Mapping[str, str], cpu: int) -> None:
    annotation = {"scheduling.koordinator.sh/load-estimated-scaling-factors": json.dumps({"cpu": 120})}
    incoming = pod("a", requests={"cpu": "2"}, limits=limits, annotations=annotation)
    args = LoadAwareSchedulingArgs(allow_customize_estimation=True).completed()
    assert load_aware_rules.estimate(incoming, args)["cpu"] == cpu
    assert load_aware_rules.estimate(incoming, LOAD_ARGS)["cpu"] == 1700


@pytest.mark.parametrize(
    ("cpu_milli", "fits"),
    [(2000, True), (2259, False), (3000, False)],
    ids=["1700m: 65.16 -> 65", "1920m: 65.5 -> 66", "2550m: 66.5 -> 66"],
)
def test_usage_is_compared_with_the_threshold_as_a_rounded_percentage(cpu_milli: int, fits: bool) -> None:
    cluster = Cluster((node("n1"),), node_metrics=(metric("n1", usage={"cpu": "40"}),), now_s=NOW_S)
    verdict = load_filter(cluster, pod("a", priority=9000, requests={"cpu": f"{cpu_milli}m"}))
    assert verdict == (Verdict("ok") if fits else unsched("node(s) cpu usage exceed threshold"))


@pytest.mark.parametrize(
    ("age_s", "reported_milli", "delta_milli"),
    [(30, 500, 1200), (61, 500, 0), (30, 2000, 0), (3600, None, 1700)],
    ids=["just placed", "before the last interval", "uses more than estimated", "never reported"],
)
def test_a_pod_counts_by_its_estimate_until_its_usage_shows(
    age_s: int, reported_milli: int | None, delta_milli: int
) -> None:
    placed = pod("p", on="n1", requests={"cpu": "2"}, conditions=[condition("PodScheduled", NOW_S - age_s)])
    reports = [pod_usage("p", {"cpu": f"{reported_milli}m"})] if reported_milli is not None else []
    report = metric("n1", usage={"cpu": "10"}, pods=reports, report_interval_s=60)
    cluster = Cluster((node("n1"),), (placed,), node_metrics=(report,), now_s=NOW_S)
    load = load_aware_rules.Load(cluster.nodes[0], report, cluster, LOAD_ARGS)
    assert load.delta()["cpu"] == delta_milli
    assert load.existing(prod=False)["cpu"] == 10_000 + delta_milli


@pytest.mark.parametrize(
    ("used_cpu", "weights", "dominant", "expected"),
    [(16, None, 0, 72), (48, None, 0, 47), (48, {"cpu": 1, "memory": 1}, 2, 34), (48, {}, 2, 22)],
)
def test_idle_nodes_score_high(used_cpu: int, weights: Mapping[str, int] | None, dominant: int, expected: int) -> None:
    report = metric("n1", usage={"cpu": used_cpu, "memory": "64Gi"})
    cluster = Cluster((node("n1"),), node_metrics=(report,), now_s=NOW_S)
    args = LoadAwareSchedulingArgs(resource_weights=weights or {}, dominant_resource_weight=dominant)
    assert load_score(cluster, pod("a", requests={"cpu": "2", "memory": "4Gi"}), args) == expected


def test_an_aggregation_over_a_time_that_is_not_recorded_counts_estimates_only() -> None:
    recorded = {"duration": "5m0s", "usage": {"p95": {"resources": {"cpu": "20"}}}}
    placed = (
        pod("p", on="n1", requests={"cpu": "3530m"}),  # estimated at 3000m
        pod("q", on="n1", requests={"cpu": "2"}),  # 1700m
    )
    report = metric("n1", usage={"cpu": "50"}, aggregated=[recorded])
    cluster = Cluster((node("n1"),), placed, node_metrics=(report,), now_s=NOW_S)
    load = load_aware_rules.Load(cluster.nodes[0], report, cluster, LOAD_ARGS)
    incoming = load_aware_rules.estimate(pod("a", requests={"cpu": "2"}), LOAD_ARGS)["cpu"]
    full = load.existing(prod=False, aggregation="p95", duration_s=600)["cpu"]
    assert full == pytest.approx(4700, abs=1)
    assert incoming == 1700
    longest = load.existing(prod=False, aggregation="p95")["cpu"]
    assert longest == 20_000 + load.delta()["cpu"]
    args = LoadAwareSchedulingArgs(
        aggregated=LoadAwareAggregation({"cpu": 40}, usage_aggregation_type="p95", usage_aggregated_duration="5m")
    )
    assert load_filter(cluster, pod("a", requests={"cpu": "2"}), args) == unsched(
        "node(s) cpu aggregated usage exceed threshold"
    )


def test_prod_pods_are_limited_by_prod_usage() -> None:
    args = LoadAwareSchedulingArgs(prod_usage_thresholds={"cpu": 40}).completed()
    prod = {"koordinator.sh/priority-class": "koord-prod"}
    active = pod("p", on="n1", labels=prod, conditions=[condition("PodScheduled", NOW_S - 3600)])
    reports = [pod_usage("p", {"cpu": "20", "memory": "1Gi"}, priority="koord-prod")]
    incoming = pod("a", labels=prod, requests={"cpu": "4"})  # estimated at 3400m: (20 + 3.4) / 64 = 37%
    report = metric("n1", usage={"cpu": "60"}, pods=reports)
    assert load_filter(Cluster((node("n1"),), (active,), node_metrics=(report,), now_s=NOW_S), incoming, args)
    mistaken = pod("q", on="n1", labels=prod, requests={"cpu": "5883m"})  # 5000m, whole: (20 + 5 + 3.4) / 64 = 44%
    report = metric("n1", usage={"cpu": "60"}, pods=[*reports, pod_usage("q", {"cpu": "30"}, priority="koord-batch")])
    busier = Cluster((node("n1"),), (active, mistaken), node_metrics=(report,), now_s=NOW_S)
    assert load_filter(busier, incoming, args) == unsched("node(s) cpu usage exceed threshold")


@pytest.mark.parametrize(("age_s", "valid"), [(299, True), (300, False)])
def test_a_report_expires(age_s: int, valid: bool) -> None:
    report = metric("n1", age_s=age_s, usage={"cpu": "60", "memory": "1Gi"})
    cluster = Cluster((node("n1"),), node_metrics=(report,), now_s=NOW_S)
    incoming = pod("a", requests={"cpu": "2", "memory": "4Gi"})
    args = LoadAwareSchedulingArgs(node_metric_expiration_seconds=300)
    full = unsched("node(s) cpu usage exceed threshold")
    assert load_filter(cluster, incoming, args) == (full if valid else unsched("node(s) nodeMetric expired"))
    stale_counts = LoadAwareSchedulingArgs(node_metric_expiration_seconds=300, filter_expired_node_metrics=False)
    assert load_filter(cluster, incoming, stale_counts) == full
    assert (load_score(cluster, incoming, stale_counts) > 0) == valid
    let_in = LoadAwareSchedulingArgs(node_metric_expiration_seconds=300, enable_schedule_when_node_metrics_expired=True)
    assert bool(load_filter(cluster, incoming, let_in)) == (not valid)


def test_a_nodes_own_thresholds_replace_the_general_ones_part_by_part() -> None:
    own = {"scheduling.koordinator.sh/usage-thresholds": json.dumps({"usageThresholds": {"cpu": 90}})}
    report = metric("n1", usage={"cpu": "50"})
    incoming = pod("a", priority=9000, requests={"cpu": "2"})
    for written, fits in [({}, False), (own, True), ({next(iter(own)): "{"}, False)]:
        cluster = Cluster((node("n1", annotations=written),), node_metrics=(report,), now_s=NOW_S)
        assert bool(load_filter(cluster, incoming)) == fits


def test_amplified_nodes_are_measured_by_what_they_really_have() -> None:
    raw = {"node.koordinator.sh/raw-allocatable": json.dumps({"cpu": "32"})}
    report = metric("n1", usage={"cpu": "24"})
    incoming = pod("a", priority=9000)
    plain = Cluster((node("n1"),), node_metrics=(report,), now_s=NOW_S)
    amplified = Cluster((node("n1", annotations=raw),), node_metrics=(report,), now_s=NOW_S)
    assert load_filter(plain, incoming)
    assert not load_filter(amplified, incoming)


def test_pods_of_daemon_sets_are_let_in_anywhere() -> None:
    report = metric("n1", usage={"cpu": "64"})
    cluster = Cluster((node("n1"),), node_metrics=(report,), now_s=NOW_S)
    assert load_filter(cluster, pod("a", owners=[{"kind": "DaemonSet", "name": "d"}]))
    assert not load_filter(cluster, pod("a", owners=[{"kind": "ReplicaSet", "name": "d"}]))


EXAMPLE_38 = Cluster((node("n1", cpu=8, memory="32Gi"),), (pod("p", on="n1", requests={"cpu": 2, "memory": "8Gi"}),))


def test_fit_scores_what_would_be_left() -> None:
    weights = (ResourceWeight("cpu", 2), ResourceWeight("memory", 1))
    args = NodeResourcesFitArgs(scoring_strategy=FitScoringStrategy(resources=weights))
    incoming = pod("a", requests={"cpu": 1, "memory": "2Gi"})
    assert resource_rules.least_allocated(3, 8) == 62
    assert resource_rules.least_allocated(10, 32) == 68
    assert cycle.score("NodeResourcesFit", incoming, ["n1"], EXAMPLE_38, args) == {"n1": 64}
    assert cycle.score("NodeResourcesBalancedAllocation", incoming, ["n1"], EXAMPLE_38) == {"n1": 96}


def test_most_allocated_counts_no_more_than_there_is() -> None:
    args = NodeResourcesFitArgs(
        scoring_strategy=FitScoringStrategy(type="MostAllocated", resources=(ResourceWeight("cpu", 1),))
    )
    for cpu, expected in [(1, 37), (6, 100), (7, 100)]:
        assert cycle.score("NodeResourcesFit", pod("a", requests={"cpu": cpu}), ["n1"], EXAMPLE_38, args) == {
            "n1": expected
        }


@pytest.mark.parametrize(("req", "expected"), [(0, 100), (20, 100), (50, 63), (60, 50), (80, 25), (99, 2), (150, 0)])
def test_a_ratio_is_scored_by_a_broken_line(req: int, expected: int) -> None:
    shape = (ShapePoint(20, 10), ShapePoint(60, 5), ShapePoint(100, 0))
    assert resource_rules.ratio_score(req, 100, shape) == expected  # 100 - 37.5 is 63: what is cut off is the fall


def test_resources_that_score_nothing_are_left_out_of_a_ratio() -> None:
    rising = RequestedToCapacityRatio((ShapePoint(0, 0), ShapePoint(100, 10)))
    strategy = FitScoringStrategy(
        type="RequestedToCapacityRatio",
        resources=(ResourceWeight("cpu", 3), ResourceWeight("memory", 1), ResourceWeight("example.com/gpu", 5)),
        requested_to_capacity_ratio=rising,
    )
    cluster = Cluster((node("n1", cpu=100, memory="100Gi", more={"example.com/gpu": 2}),))
    args = NodeResourcesFitArgs(scoring_strategy=strategy)
    cpu_only = pod("a", requests={"cpu": 50, "memory": 0})
    assert cycle.score("NodeResourcesFit", cpu_only, ["n1"], cluster, args) == {"n1": 50}
    gpu = pod("a", requests={"cpu": 50, "memory": 0, "example.com/gpu": 1})
    assert cycle.score("NodeResourcesFit", gpu, ["n1"], cluster, args) == {"n1": 50}


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ({"cpu": 6}, Verdict("ok")),
        ({"cpu": 7}, unsched("Insufficient cpu")),
        ({"cpu": 9, "memory": "30Gi"}, uu("Insufficient cpu", "Insufficient memory")),
        ({BATCH_CPU: 1000}, uu(f"Insufficient {BATCH_CPU}")),
        ({"example.com/gpu": 0}, Verdict("ok")),
    ],
)
def test_a_pod_needs_room(requests: Mapping[str, str | int], expected: Verdict) -> None:
    assert cycle.filter("NodeResourcesFit", pod("a", requests=requests), "n1", EXAMPLE_38) == expected


def test_a_node_takes_a_number_of_pods() -> None:
    cluster = Cluster((node("n1", pods=1),), (pod("p", on="n1"), pod("q", on="n1", phase="Succeeded")))
    assert cycle.filter("NodeResourcesFit", pod("a"), "n1", cluster) == unsched("Too many pods")


def test_what_a_node_keeps_for_itself_is_not_for_pods() -> None:
    keeps = {"node.koordinator.sh/reservation": json.dumps({"resources": {"cpu": "3"}})}
    hides = {"node.koordinator.sh/reservation": json.dumps({"reservedCPUs": "0-3", "applyPolicy": "ReservedCPUsOnly"})}
    counts = {"node.koordinator.sh/reservation": json.dumps({"resources": {"cpu": "1"}, "reservedCPUs": "0-3"})}
    for annotation, most in [(keeps, 5), (hides, 8), (counts, 4)]:
        cluster = Cluster((node("n1", cpu=8, annotations=annotation),))
        assert cycle.filter("NodeResourcesFit", pod("a", requests={"cpu": most}), "n1", cluster)
        assert not cycle.filter("NodeResourcesFit", pod("a", requests={"cpu": most + 1}), "n1", cluster)


def zones(*counts: int) -> Cluster:
    """A node in each zone, and N pods labelled app=a on it."""
    nodes = tuple(node(f"n{i}", labels={ZONE: f"z{i}"}) for i in range(len(counts)))
    placed = tuple(
        pod(f"p{i}-{j}", on=f"n{i}", labels={"app": "a"}) for i, number in enumerate(counts) for j in range(number)
    )
    return Cluster(nodes, placed)


def spread_by(when: str, **more: object) -> Mapping[str, object]:
    return {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "a"}},
        **more,
    }


def test_zones_with_fewer_pods_score_higher() -> None:
    incoming = pod("a", labels={"app": "a"}, topologySpreadConstraints=[spread_by("ScheduleAnyway")])
    assert cycle.score("PodTopologySpread", incoming, ["n0", "n1"], zones(3, 1)) == {"n0": 25, "n1": 100}


@pytest.mark.parametrize(
    ("counts", "more", "feasible"),
    [
        ((3, 1), {}, ["n1"]),
        ((1, 1), {}, ["n0", "n1"]),
        ((2, 1), {"maxSkew": 2}, ["n0", "n1"]),
        ((1, 1), {"minDomains": 3}, []),
        ((0, 0), {"minDomains": 3}, ["n0", "n1"]),
        ((5, 0), {"labelSelector": {}}, ["n0", "n1"]),
    ],
)
def test_a_hard_constraint_keeps_the_skew(
    counts: tuple[int, ...], more: dict[str, object], feasible: list[str]
) -> None:
    constraint = spread_by("DoNotSchedule", **more)
    incoming = pod("a", labels={"app": "a"}, topologySpreadConstraints=[constraint])
    assert cycle.feasible_nodes(incoming, zones(*counts)) == feasible


def test_a_node_without_the_key_is_hopeless_for_a_hard_constraint() -> None:
    cluster = Cluster((node("n1"),))
    incoming = pod("a", topologySpreadConstraints=[spread_by("DoNotSchedule")])
    assert cycle.filter("PodTopologySpread", incoming, "n1", cluster) == uu(
        "node(s) didn't match pod topology spread constraints (missing required label)"
    )


def test_pods_of_one_service_are_spread_by_default() -> None:
    service = convert(Service, {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "a"}}})
    base = zones(3, 1)
    cluster = Cluster(base.nodes, base.pods, services=(service,))
    mine, other = pod("a", labels={"app": "a"}), pod("b", labels={"app": "b"})
    # hostname: 3·ln 4 + 2 = 6.16, zone: 3·ln 4 + 4 = 8.16, together 14; and 1·ln 4 twice + 6 = 9
    expected = {"n0": 100 * 9 // 14, "n1": 100}
    assert cycle.score("PodTopologySpread", mine, ["n0", "n1"], cluster) == expected
    assert cycle.score("PodTopologySpread", other, ["n0", "n1"], cluster) == {}
    listed = PodTopologySpreadArgs(
        default_constraints=(convert(TopologySpreadConstraint, {**spread_by("DoNotSchedule"), "labelSelector": None}),),
        defaulting_type="List",
    )
    assert not cycle.filter("PodTopologySpread", mine, "n0", cluster, listed)
    assert cycle.filter("PodTopologySpread", other, "n0", cluster, listed)


def beside(key: str, labels: Mapping[str, str], **more: object) -> dict[str, object]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}, **more}


def wants(*terms: dict[str, object], anti: bool = False, weight: int = 0) -> dict[str, object]:
    if weight:
        listed = [{"weight": weight, "podAffinityTerm": term} for term in terms]
        part = {"preferredDuringSchedulingIgnoredDuringExecution": listed}
    else:
        part = {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}
    return {"podAntiAffinity" if anti else "podAffinity": part}


def test_affinity_is_stretched_from_0_to_100() -> None:
    """Raw 5, −3, 1 → 100, 0, 50."""
    cluster = Cluster(
        tuple(node(f"n{i}") for i in range(3)),
        (
            pod("p", on="n0", labels={"app": "a"}),
            pod("q", on="n1", affinity=wants(beside("kubernetes.io/hostname", {"x": "1"}), anti=True, weight=3)),
            pod("r", on="n2", affinity=wants(beside("kubernetes.io/hostname", {"x": "1"}))),
        ),
    )
    incoming = pod("a", labels={"x": "1"}, affinity=wants(beside("kubernetes.io/hostname", {"app": "a"}), weight=5))
    scores = cycle.score("InterPodAffinity", incoming, ["n0", "n1", "n2"], cluster)
    assert scores == {"n0": 100, "n1": 0, "n2": 50}


def test_the_first_of_pods_that_want_each_other_is_let_in() -> None:
    cluster = zones(0, 0)
    own = wants(beside(ZONE, {"app": "w"}))
    assert cycle.feasible_nodes(pod("a", labels={"app": "w"}, affinity=own), cluster) == ["n0", "n1"]
    refused = cycle.feasible(pod("a", labels={"app": "other"}, affinity=own), cluster)
    assert refused["n0"] == Verdict("uu", ("node(s) didn't match pod affinity rules",), "InterPodAffinity")


def test_one_pod_must_match_all_required_terms() -> None:
    both = wants(beside(ZONE, {"app": "a"}), beside(ZONE, {"tier": "x"}))
    nodes = zones(0, 0).nodes
    apart = (pod("p", on="n0", labels={"app": "a"}), pod("q", on="n0", labels={"tier": "x"}))
    assert cycle.feasible_nodes(pod("w", affinity=both), Cluster(nodes, apart)) == []
    one = (pod("p", on="n0", labels={"app": "a", "tier": "x"}),)
    assert cycle.feasible_nodes(pod("w", affinity=both), Cluster(nodes, one)) == ["n0"]


def test_anti_affinity_works_both_ways() -> None:
    shuns = wants(beside(ZONE, {"app": "a"}), anti=True)
    cluster = zones(1, 0)
    assert cycle.feasible(pod("w", affinity=shuns), cluster)["n0"].reasons == (
        "node(s) didn't match pod anti-affinity rules",
    )
    shunned = Cluster(cluster.nodes, (pod("p", on="n0", affinity=shuns),))
    assert cycle.feasible(pod("w", labels={"app": "a"}), shunned)["n0"].reasons == (
        "node(s) didn't satisfy existing pods anti-affinity rules",
    )


@pytest.mark.parametrize(
    ("more", "feasible"),
    [
        ({}, ["n0", "n1"]),
        ({"namespaces": ["team"]}, ["n1"]),
        ({"namespaceSelector": {"matchLabels": {"env": "prod"}}}, ["n1"]),
        ({"namespaceSelector": {}}, ["n1"]),
        ({"namespaceSelector": {"matchLabels": {"env": "dev"}}}, ["n0", "n1"]),
        ({"namespaceSelector": {"matchLabels": {"env": "prod"}}, "mismatchLabelKeys": ["rev"]}, ["n0", "n1"]),
        ({"namespaceSelector": {"matchLabels": {"env": "prod"}}, "matchLabelKeys": ["rev"]}, ["n1"]),
    ],
)
def test_terms_name_namespaces_and_borrow_labels(more: dict[str, object], feasible: list[str]) -> None:
    team = convert(Namespace, {"metadata": {"name": "team", "labels": {"env": "prod"}}})
    placed = pod("p", on="n0", namespace="team", labels={"app": "a", "rev": "1"})
    cluster = Cluster(zones(0, 0).nodes, (placed,), namespaces=(team,))
    shuns = wants(beside(ZONE, {"app": "a"}, **more), anti=True)
    assert cycle.feasible_nodes(pod("w", labels={"rev": "1"}, affinity=shuns), cluster) == feasible


def test_large_images_that_many_nodes_have_attract() -> None:
    """500Mi on 3 of 10 nodes, one container → 12."""
    cluster = Cluster(tuple(node(f"n{i}", images={"app:latest": 500 * MIB} if i < 3 else {}) for i in range(10)))
    scores = cycle.score("ImageLocality", pod("a", image="app"), ["n0", "n9"], cluster)
    assert scores == {"n0": 12, "n9": 0}
    assert node_rules.normalised_image("registry:5000/app") == "registry:5000/app:latest"


@pytest.mark.parametrize(
    ("port", "fits"),
    [
        ({"hostPort": 80}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.2"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, False),
        ({"hostPort": 80, "protocol": "UDP"}, True),
        ({"hostPort": 81}, True),
        ({"containerPort": 80}, True),
    ],
)
def test_a_port_of_a_node_is_taken_once(port: dict[str, object], fits: bool) -> None:
    cluster = Cluster((node("n1"),), (pod("p", on="n1", ports=[{"hostPort": 80, "hostIP": "10.0.0.1"}]),))
    assert bool(cycle.filter("NodePorts", pod("a", ports=[port]), "n1", cluster)) == fits


def test_taints_keep_off_or_are_disliked() -> None:
    taints = [
        {"key": "a", "effect": "NoSchedule"},
        {"key": "b", "effect": "PreferNoSchedule"},
        {"key": "c", "effect": "PreferNoSchedule"},
    ]
    cluster = Cluster(
        (node("n0"), node("n1", taints=taints), node("n2", taints=taints[1:2]), node("n3", unschedulable=True))
    )
    assert cycle.feasible(pod("p"), cluster)["n1"] == Verdict(
        "uu", ("node(s) had untolerated taint(s)",), "TaintToleration"
    )
    assert cycle.feasible(pod("p"), cluster)["n3"] == Verdict(
        "uu", ("node(s) were unschedulable",), "NodeUnschedulable"
    )
    tolerant = pod(
        "p",
        tolerations=[{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists", "effect": "NoSchedule"}],
    )
    assert cycle.feasible_nodes(tolerant, cluster) == ["n0", "n1", "n2"]
    assert cycle.score("TaintToleration", tolerant, ["n0", "n1", "n2"], cluster) == {"n0": 100, "n1": 0, "n2": 50}
    assert cycle.feasible_nodes(pod("p", tolerations=[{"operator": "Exists"}]), cluster) == ["n0", "n1", "n2", "n3"]


def test_a_pod_pinned_by_name_is_asked_of_those_nodes_only() -> None:
    pin = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [pin]}}}
    verdicts = cycle.feasible(pod("p", affinity=affinity), Cluster((node("n0"), node("n1"))))
    assert verdicts["n1"]
    assert verdicts["n0"].code == "uu"
    assert verdicts["n0"].plugin == "NodeAffinity"


@pytest.mark.parametrize(
    ("raw", "reverse", "expected"),
    [((2, 1, 0), False, (100, 50, 0)), ((2, 1, 0), True, (0, 50, 100)), ((0, 0), False, (0, 0)), ((0,), True, (100,))],
)
def test_scores_are_normalised_by_the_largest(raw: tuple[int, ...], reverse: bool, expected: tuple[int, ...]) -> None:
    by_node = {f"n{i}": value for i, value in enumerate(raw)}
    assert tuple(normalised_by_max(by_node, reverse=reverse).values()) == expected


def test_halves_are_rounded_away_from_zero() -> None:
    assert [rounded(x) for x in (0.4, 0.5, 1.5, 2.5, -0.5, -0.4)] == [0, 1, 2, 3, -1, 0]


def test_totals_are_sums_of_scores_times_weights() -> None:
    cluster = EXAMPLE_38
    incoming = pod("a", requests={"cpu": 1, "memory": "2Gi"})
    # fit (62 + 68) / 2 = 65, balanced 96, taints 3 · 100, image 0
    assert cycle.totals(incoming, ["n1"], cluster) == {"n1": 65 + 96 + 300}


def test_the_shipped_profile_weighs_batch_resources() -> None:
    cluster = Cluster((node("n1", more={BATCH_CPU: 1000, BATCH_MEMORY: "1Gi"}),))
    incoming = pod("a", priority=5500, requests={"cpu": 0, "memory": 0, BATCH_CPU: 500, BATCH_MEMORY: "256Mi"})
    by_plugin = cycle.scores(incoming, ["n1"], cluster, SHIPPED.profiles[0])
    assert by_plugin["NodeResourcesFit"] == {"n1": (100 + 100 + 50 + 75) // 4}


MOUNTS: dict[str, Any] = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}


def claim(**spec: object) -> PersistentVolumeClaim:
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if "volumeName" in spec else {}
    body = {"storageClassName": "slow", "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return convert(
        PersistentVolumeClaim, {"metadata": {"name": "c", "namespace": "default", "annotations": bound}, "spec": body}
    )


def volume(name: str, zone: str, *, labels: Mapping[str, str] | None = None, **spec: object) -> PersistentVolume:
    there = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    body = {
        "capacity": {"storage": "2Gi"},
        "storageClassName": "slow",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [there]}},
        **spec,
    }
    return convert(
        PersistentVolume,
        {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": body, "status": {"phase": "Available"}},
    )


def storage_class(provisioner: str = "kubernetes.io/no-provisioner", **more: object) -> StorageClass:
    body = {"metadata": {"name": "slow"}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    return convert(StorageClass, {**body, **more})


def test_without_its_claim_a_pod_runs_nowhere() -> None:
    verdicts = cycle.feasible(pod("p", **MOUNTS), zones(0, 0))
    assert set(verdicts.values()) == {Verdict("uu", ('persistentvolumeclaim "c" not found',), "VolumeRestrictions")}


def test_a_bound_volume_draws_its_pod_to_it() -> None:
    base = zones(0, 0)
    cluster = Cluster(base.nodes, claims=(claim(volumeName="pv"),), volumes=(volume("pv", "z1"),))
    assert cycle.feasible_nodes(pod("p", **MOUNTS), cluster) == ["n1"]
    labelled = volume("pv", "z1", labels={ZONE: "z0__z1"}, nodeAffinity=None)
    anywhere = Cluster(base.nodes, claims=cluster.claims, volumes=(labelled,))
    assert cycle.feasible_nodes(pod("p", **MOUNTS), anywhere) == ["n0", "n1"]
    gone = Cluster(base.nodes, claims=cluster.claims)
    assert cycle.feasible(pod("p", **MOUNTS), gone)["n0"].reasons == ('persistentvolume "pv" not found',)


def test_a_claim_that_waits_needs_a_volume_or_a_class_that_makes_one() -> None:
    base = zones(0, 0)
    cluster = Cluster(base.nodes, claims=(claim(),), volumes=(volume("pv", "z1"),), storage_classes=(storage_class(),))
    assert cycle.feasible_nodes(pod("p", **MOUNTS), cluster) == ["n1"]
    in_z0 = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z0"]}]}]
    makes = storage_class("csi.example.com", allowedTopologies=in_z0)
    made = Cluster(base.nodes, claims=(claim(),), storage_classes=(makes,))
    assert cycle.feasible_nodes(pod("p", **MOUNTS), made) == ["n0"]
    immediate = Cluster(base.nodes, claims=(claim(),), storage_classes=(storage_class(volumeBindingMode="Immediate"),))
    assert cycle.feasible(pod("p", **MOUNTS), immediate)["n0"].reasons == (
        "pod has unbound immediate PersistentVolumeClaims",
    )


def test_a_volume_for_one_pod_is_for_one_pod() -> None:
    base = zones(0, 0)
    user = pod("q", on="n0", **MOUNTS)
    only = claim(volumeName="pv", accessModes=["ReadWriteOncePod"])
    cluster = Cluster(base.nodes, (user,), claims=(only,), volumes=(volume("pv", "z1"),))
    assert {v.plugin for v in cycle.feasible(pod("p", **MOUNTS), cluster).values()} == {"VolumeRestrictions"}


def test_a_driver_attaches_a_number_of_volumes() -> None:
    base = zones(0, 0)
    limited = convert(
        CSINode,
        {
            "metadata": {"name": "n1"},
            "spec": {"drivers": [{"name": "csi.example.com", "nodeID": "n1", "allocatable": {"count": 0}}]},
        },
    )
    disk = volume("pv", "z1", csi={"driver": "csi.example.com", "volumeHandle": "h"}, nodeAffinity=None)
    cluster = Cluster(base.nodes, claims=(claim(volumeName="pv"),), volumes=(disk,), csi_nodes=(limited,))
    assert cycle.feasible(pod("p", **MOUNTS), cluster)["n1"].reasons == ("node(s) exceed max volume count",)
    user = pod("q", on="n1", **MOUNTS)
    shared = Cluster(base.nodes, (user,), claims=cluster.claims, volumes=(disk,), csi_nodes=(limited,))
    assert cycle.feasible_nodes(pod("p", **MOUNTS), shared) == ["n0", "n1"]


def test_terms_of_placed_pods_look_at_the_labels_of_the_namespace() -> None:
    other = {"namespaceSelector": {"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]}}
    team = convert(Namespace, {"metadata": {"name": "team", "labels": {"env": "prod"}}})
    shuns = wants(beside(ZONE, {"app": "a"}, **other), anti=True)
    cluster = Cluster(zones(0, 0).nodes, (pod("p", on="n0", affinity=shuns),), namespaces=(team,))
    incoming = pod("w", namespace="team", labels={"app": "a"})
    assert not pod_affinity_rules.shunned_pairs(incoming, cluster)
