"""LoadAwareScheduling: the specification's worked examples, and agreement with its plain reading."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import replace as changed
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.configuration.scheduler_args import LoadAwareSchedulingArgs
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.faults import check
from koord.api.protocol.crd.node_metric import LendingMetric, NodeMetric
from koord.api.text.timestamp import from_seconds
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.plugins.load_aware_scheduling import LoadAwareScheduling
from koord.scheduler.plugins.load_rows import LoadRows
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.build import NOW_S, condition, metric, node, pod, pod_usage
from tests.scheduler.generate import random_scene
from tests.scheduler.plugins.against_reference import assert_same, bind, engine_for, scores, verdicts
from tests.scheduler.reference.cluster import Cluster as Plain

SEEDS = st.integers(0, 2**32)
PASSES = ()
BUSY = ("node(s) cpu usage exceed threshold",)
FACTORS = "scheduling.koordinator.sh/load-estimated-scaling-factors"
AFTER_INITIALIZED = "scheduling.koordinator.sh/load-estimated-seconds-after-initialized"
THRESHOLDS = "scheduling.koordinator.sh/usage-thresholds"


def args(**given: Any) -> LoadAwareSchedulingArgs:
    return check(LoadAwareSchedulingArgs, given, "args")


def one_node(
    plugin: LoadAwareScheduling,
    report: NodeMetric | None,
    *,
    pods: Iterable[Pod] = (),
    annotations: Mapping[str, str] | None = None,
    now_s: float = NOW_S,
) -> Engine:
    """An engine with a node `n` of 64 cpu and 256Gi."""
    cluster = Cluster()
    cluster.now_s = now_s
    cluster.put_node(node("n", annotations=annotations))
    engine = Engine(cluster, Profile("s", (plugin,), {plugin.name: 1}))
    if report is not None:
        plugin.put_node_metric(report)
    for each in pods:
        bind(engine, each)
    return engine


def asks(cpu_milli: int, name: str = "p", **more: Any) -> Pod:
    """A pod whose cpu estimate is this much: its limit is the estimate, by a factor of 100."""
    return pod(name, requests={"cpu": f"{cpu_milli}m"}, annotations={FACTORS: '{"cpu": 100}'}, **more)


def verdict(engine: Engine, wanted: Pod) -> tuple[str, ...]:
    return verdicts(engine, wanted)["n"]


def load_of(engine: Engine, resource: str = "cpu") -> int:
    """What a node is taken to use, by the mean."""
    columns = engine.cluster.table.columns
    row = engine.cluster.table.row_of["n"]
    return int(columns[f"load in all {resource} 0"][row])


@pytest.mark.parametrize(
    ("wanted", "estimate"),
    [
        (pod("p", requests={"cpu": "2", "memory": "4Gi"}, limits={"cpu": "3"}), (2550, 3006477107)),
        (
            pod(
                "p",
                requests={"kubernetes.io/batch-cpu": 3000, "kubernetes.io/batch-memory": "6Gi"},
                labels={"koordinator.sh/qosClass": "BE"},
                priority=5500,
            ),
            (2550, 4509715661),
        ),
        (pod("p"), (250, 209715200)),
        (pod("p", requests={"cpu": "4"}, labels={"koordinator.sh/priority-class": "koord-free"}), (0, 0)),
        (
            pod("p", requests={"cpu": "2"}, limits={"cpu": "2"}, annotations={FACTORS: '{"cpu": 120}'}),
            (2000, 209715200),
        ),
        (pod("p", requests={"cpu": "2"}, annotations={FACTORS: '{"cpu": 120}'}), (2400, 209715200)),
        (pod("p", requests={"cpu": "2"}, annotations={FACTORS: "nonsense"}), (1700, 209715200)),
    ],
)
def test_estimates(wanted: Pod, estimate: tuple[int, int]) -> None:
    plugin = LoadAwareScheduling(args(allowCustomizeEstimation=True))
    engine = one_node(plugin, metric("n"))
    engine.place(Ask(wanted))
    assert (load_of(engine), load_of(engine, "memory")) == estimate


def test_a_mid_pod_without_mid_resources_is_taken_to_use_nothing() -> None:
    engine = one_node(LoadAwareScheduling(), metric("n"))
    engine.place(Ask(pod("p", requests={"cpu": "4"}, priority=7500)))
    assert load_of(engine) == 0


@pytest.mark.parametrize(("estimate", "expected"), [(1700, PASSES), (1920, BUSY), (2550, BUSY)])
def test_a_pod_passes_up_to_the_rounded_threshold(estimate: int, expected: tuple[str, ...]) -> None:
    """40 + 1.7 of 64 cpu is 65.16, rounded 65; 40 + 1.92 is 65.5, rounded 66."""
    plugin = LoadAwareScheduling(args(allowCustomizeEstimation=True))
    engine = one_node(plugin, metric("n", usage={"cpu": "40"}))
    assert verdict(engine, asks(estimate)) == expected


@pytest.mark.parametrize(
    ("scheduled_ago_s", "reported", "delta"),
    [(30, "500m", 1200), (61, "500m", 0), (30, "2", 0), (3600, None, 1700)],
)
def test_assigned_pods_count_until_their_usage_shows(scheduled_ago_s: int, reported: str | None, delta: int) -> None:
    shown = [pod_usage("a", {"cpu": reported})] if reported else []
    placed = asks(1700, "a", on="n", conditions=[condition("PodScheduled", NOW_S - scheduled_ago_s)])
    plugin = LoadAwareScheduling(args(allowCustomizeEstimation=True))
    engine = one_node(plugin, metric("n", pods=shown), pods=[placed])
    assert load_of(engine) == delta


@pytest.mark.parametrize(
    ("given", "cpu", "score"),
    [
        ({}, "16", 72),
        ({}, "48", 47),
        ({"resourceWeights": {"cpu": 1, "memory": 1}, "dominantResourceWeight": 2}, "48", 34),
        ({"dominantResourceWeight": 2}, "48", 22),
    ],
)
def test_scores(given: dict[str, Any], cpu: str, score: int) -> None:
    """1.7 cpu and 2.8Gi more: 72 and 73 percent stay free, or 22 and 73."""
    plugin = LoadAwareScheduling(args(**given, usageThresholds={"cpu": 0}))
    engine = one_node(plugin, metric("n", usage={"cpu": cpu, "memory": "64Gi"}))
    assert scores(engine, pod("p", requests={"cpu": "2", "memory": "4Gi"})) == {"n": score}


@pytest.mark.parametrize(("duration", "cpu"), [("10m", 6400), ("0s", 20000 + 6400)])
def test_a_percentile_over_a_time_that_is_not_reported_counts_as_nothing_but_estimates(duration: str, cpu: int) -> None:
    """Three cpu and two times 1.7: whatever was measured, or upon the longest time that was."""
    recorded = [
        {"duration": "5m0s", "usage": {"p95": {"resources": {"cpu": "20"}}}},
        {"duration": "99999999999h", "usage": {"p90": {"resources": {"cpu": "60"}}}},
    ]
    report = metric("n", usage={"cpu": "50"}, aggregated=recorded)
    placed = [asks(3000, "a", on="n"), asks(1700, "b", on="n")]
    for threshold, expected in (
        (round(cpu / 640), PASSES),
        (round(cpu / 640) - 1, ("node(s) cpu aggregated usage exceed threshold",)),
    ):
        part = {
            "usageThresholds": {"cpu": threshold},
            "usageAggregationType": "p95",
            "usageAggregatedDuration": duration,
        }
        plugin = LoadAwareScheduling(args(allowCustomizeEstimation=True, aggregated=part))
        assert verdict(one_node(plugin, report, pods=placed), asks(1700)) == expected


@pytest.mark.parametrize(("in_force", "expected"), [(True, PASSES), (False, BUSY)])
def test_cpu_that_batch_gives_back_does_not_count_where_a_learned_ceiling_holds_it(
    in_force: bool, expected: tuple[str, ...]
) -> None:
    """52 of 64 cores are used, 40 of them by batch: services use 12, and 65% of the node are 41.6."""
    report = metric("n", usage={"cpu": "52"}, pods=[pod_usage("job", {"cpu": "40"})])
    (job,) = report.status.pods_metric
    lending = LendingMetric(is_in_force=in_force)
    batch = replace(job, priority="koord-batch", qos="BE")
    report = replace(report, status=replace(report.status, pods_metric=(batch,), lending_metric=lending))
    engine = one_node(LoadAwareScheduling(), report)
    assert verdict(engine, asks(20_000)) == expected
    assert load_of(engine) == (12_000 if in_force else 52_000)


def test_prod_pods_are_held_back_by_what_prod_pods_use() -> None:
    """20 + 3.4 of 64 cpu is 37%. A prod pod that is reported as batch counts with its whole estimate: 44%."""
    plugin = LoadAwareScheduling(args(allowCustomizeEstimation=True, prodUsageThresholds={"cpu": 40}))
    long_ago = [condition("PodScheduled", NOW_S - 3600)]
    prod = asks(20000, "prod", on="n", conditions=long_ago, priority=9500)
    mislabelled = asks(5000, "other", on="n", conditions=long_ago, priority=9500)
    usage = [
        pod_usage("prod", {"cpu": "20"}, priority="koord-prod"),
        pod_usage("other", {"cpu": "30"}, priority="koord-batch"),
    ]
    report = metric("n", usage={"cpu": "50"}, pods=usage)
    engine = one_node(plugin, report, pods=[prod])
    assert verdict(engine, asks(3400, priority=9500)) == PASSES
    bind(engine, mislabelled)
    assert verdict(engine, asks(3400, priority=9500)) == BUSY


@pytest.mark.parametrize(
    ("age_s", "filters", "allows", "expected", "score"),
    [
        (299, True, False, BUSY, None),
        (300, True, False, ("node(s) nodeMetric expired",), None),
        (300, True, True, PASSES, 0),
        (300, False, False, BUSY, None),
    ],
)
def test_reports_expire(age_s: int, filters: bool, allows: bool, expected: tuple[str, ...], score: int | None) -> None:
    plugin = LoadAwareScheduling(
        args(
            nodeMetricExpirationSeconds=300,
            filterExpiredNodeMetrics=filters,
            enableScheduleWhenNodeMetricsExpired=allows,
        )
    )
    engine = one_node(plugin, metric("n", usage={"cpu": "60"}), now_s=NOW_S)
    assert verdict(engine, pod("p")) == BUSY
    engine.cluster.now_s = NOW_S + age_s
    assert verdict(engine, pod("p")) == expected
    assert scores(engine, pod("p")) == ({} if score is None else {"n": score})
    engine.cluster.now_s = NOW_S
    assert verdict(engine, pod("p")) == BUSY


def test_a_report_that_is_dated_far_ahead_does_not_count_until_its_time_comes_near() -> None:
    plugin = LoadAwareScheduling(args(nodeMetricExpirationSeconds=300))
    expired = ("node(s) nodeMetric expired",)
    never = one_node(plugin, metric("n", age_s=-250_000_000_000, usage={"cpu": "60"}))
    assert verdict(never, pod("p")) == expired
    plugin = LoadAwareScheduling(args(nodeMetricExpirationSeconds=300))
    engine = one_node(plugin, metric("n", age_s=-1000, usage={"cpu": "60"}))
    for later_s, expected in ((0, expired), (700, expired), (701, BUSY), (1299, BUSY), (1300, expired), (800, BUSY)):
        engine.cluster.now_s = NOW_S + later_s
        assert verdict(engine, pod("p")) == expected, later_s


def test_a_report_that_expires_inside_an_attempt_has_expired_after_the_attempt_is_undone() -> None:
    plugin = LoadAwareScheduling(args(nodeMetricExpirationSeconds=300))
    engine = one_node(plugin, metric("n", usage={"cpu": "10"}))
    assert verdict(engine, pod("p")) == PASSES
    engine.cluster.now_s = NOW_S + 300
    with engine.cluster.transaction() as attempt:
        assert verdict(engine, pod("p")) == ("node(s) nodeMetric expired",)
        attempt.undo()
    assert verdict(engine, pod("p")) == ("node(s) nodeMetric expired",)


@pytest.mark.parametrize("prod", [{}, {"prodUsageThresholds": {"cpu": 50}}])
@pytest.mark.parametrize("allows", [False, True])
def test_rows_that_age_one_by_one_look_as_if_worked_out_anew(prod: dict[str, Any], allows: bool) -> None:
    """Pods come and go while the report is old, and it is believed again when the clock is put back."""
    given = args(nodeMetricExpirationSeconds=300, enableScheduleWhenNodeMetricsExpired=allows, **prod)
    plugin = LoadAwareScheduling(given)
    report = metric("n", usage={"cpu": "10"}, pods=[pod_usage("a", {"cpu": "1"})])
    engine = one_node(plugin, report, pods=[asks(3000, "a", on="n")])
    for now_s, name in ((NOW_S + 300, "b"), (NOW_S, "c")):
        engine.cluster.now_s = now_s
        verdict(engine, pod("p"))
        bind(engine, asks(2000, name, on="n"))
        anew = one_node(LoadAwareScheduling(given), report, now_s=now_s)
        verdict(anew, pod("p"))
        for record, _ in engine.cluster.pods.values():
            anew.cluster.place(record, 0)
        names = plugin.rows.columns.all if prod else plugin.rows.columns.without_prod
        cells = [[each.cluster.table.columns[name].item(0) for name in names] for each in (engine, anew)]
        assert cells[0] == cells[1]


def test_where_old_reports_are_not_filtered_they_count_but_score_nothing() -> None:
    plugin = LoadAwareScheduling(args(nodeMetricExpirationSeconds=300, filterExpiredNodeMetrics=False))
    engine = one_node(plugin, metric("n", age_s=300, usage={"cpu": "40"}))
    assert verdict(engine, pod("p", requests={"cpu": "2"})) == PASSES
    assert verdict(engine, pod("q", requests={"cpu": "3"})) == BUSY
    assert scores(engine, pod("p", requests={"cpu": "2"})) == {"n": 0}


def test_a_node_that_never_reported_takes_pods_but_scores_nothing() -> None:
    engine = one_node(LoadAwareScheduling(), None)
    assert verdict(engine, pod("p")) == PASSES
    assert scores(engine, pod("p")) == {"n": 0}


def test_a_node_has_thresholds_of_its_own_which_may_come_and_go() -> None:
    plugin = LoadAwareScheduling(args(usageThresholds={"cpu": 0, "memory": 0}))
    engine = one_node(plugin, metric("n", usage={"cpu": "30"}))
    assert verdict(engine, pod("p")) == PASSES
    engine.cluster.put_node(node("n", annotations={THRESHOLDS: json.dumps({"usageThresholds": {"cpu": 40}})}))
    assert verdict(engine, pod("p")) == BUSY
    engine.cluster.put_node(node("n", annotations={THRESHOLDS: "{nonsense"}))
    assert verdict(engine, pod("p")) == PASSES


@pytest.mark.parametrize("raw", [{"cpu": "900E"}, {"cpu": "-5", "memory": "-1"}])
def test_a_raw_allocatable_that_cannot_be_keeps_no_pod_from_being_judged(raw: Mapping[str, str]) -> None:
    annotation = {"node.koordinator.sh/raw-allocatable": json.dumps(raw)}
    engine = one_node(LoadAwareScheduling(), metric("n", usage={"cpu": "1"}), annotations=annotation)
    assert verdict(engine, pod("p")) in (PASSES, BUSY)


def test_pods_of_daemon_sets_always_pass() -> None:
    engine = one_node(LoadAwareScheduling(), metric("n", usage={"cpu": "64"}))
    owned = pod("p", owners=[{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}])
    assert verdict(engine, owned) == PASSES
    assert verdict(engine, pod("q")) == BUSY


def test_an_estimate_is_believed_until_its_deadline() -> None:
    """Initialized 100 s before the report: believed for the next 200 s, which the pod asks for."""
    since = [condition("PodScheduled", NOW_S - 500), condition("Initialized", NOW_S - 100)]
    plugin = LoadAwareScheduling(args(allowCustomizeEstimation=True))
    placed = pod("a", on="n", requests={"cpu": "2"}, conditions=since, annotations={AFTER_INITIALIZED: "200"})
    report = metric("n", usage={"cpu": "1"}, pods=[pod_usage("a", {"cpu": "1"})])
    assert load_of(one_node(plugin, report, pods=[placed])) == 1700
    later = replace(report, status=replace(report.status, update_time=from_seconds(NOW_S + 101)))
    plugin.put_node_metric(later)
    assert load_of(one_node(LoadAwareScheduling(plugin.args), later, pods=[placed])) == 1000


def test_two_profiles_on_one_cluster_do_not_get_in_each_others_way() -> None:
    plugins = [LoadAwareScheduling(), LoadAwareScheduling(args(estimatedScalingFactors={"cpu": 50}))]
    cluster = Cluster()
    cluster.now_s = NOW_S
    cluster.put_node(node("n"))
    engines = [Engine(cluster, Profile("s", (plugin,), {plugin.name: 1})) for plugin in plugins]
    for plugin in plugins:
        plugin.put_node_metric(metric("n"))
    engines[0].place(Ask(pod("p", requests={"cpu": "2"})))
    row = cluster.table.row_of["n"]
    assert [cluster.table.columns[f"load in all cpu {i}"][row] for i in (0, 1)] == [1700, 1000]


@settings(max_examples=70)
@given(SEEDS)
def test_every_verdict_and_score_equals_the_plain_reading(seed: int) -> None:
    scene = random_scene(seed)
    plain = scene.cluster()
    engine = engine_for(plain, LoadAwareScheduling(scene.load_args))
    for wanted in scene.pods():
        assert_same(engine, wanted, plain, scene.load_args)


@settings(max_examples=30)
@given(SEEDS)
def test_after_any_events_it_is_as_if_begun_anew(seed: int) -> None:
    rng, scene = random.Random(seed), random_scene(seed)
    plain = scene.cluster()
    engine = engine_for(plain, LoadAwareScheduling(scene.load_args))
    (plugin,) = engine.profile.plugins
    assert isinstance(plugin, LoadAwareScheduling)
    nodes, pods = {n.metadata.name: n for n in plain.nodes}, {p.metadata.key: p for p in plain.pods}
    assigned_s = dict.fromkeys(pods, plain.now_s)
    metrics = {m.metadata.name: m for m in plain.node_metrics}
    kinds = scene.pods()
    now_s = plain.now_s
    for step in range(12):
        match rng.randrange(6):
            case 0:
                name = f"new-{step}"
                wanted = rng.choice(kinds)
                wanted = replace(wanted, metadata=replace(wanted.metadata, name=name, uid=name))
                home = engine.place(Ask(wanted)).node
                if home is not None:
                    key = wanted.metadata.key
                    pods[key] = replace(wanted, spec=replace(wanted.spec, node_name=home))
                    assigned_s[key] = now_s
            case 1 if engine.cluster.pods:
                key = rng.choice(sorted(engine.cluster.pods))
                engine.cluster.remove_pod(key)
                del pods[key]
            case 2 if metrics:
                source = metrics[rng.choice(sorted(metrics))]
                name = rng.choice(sorted(nodes))
                fresh = replace(source.status, update_time=from_seconds(now_s - rng.randrange(400)))
                metrics[name] = replace(source, metadata=replace(source.metadata, name=name), status=fresh)
                plugin.put_node_metric(metrics[name])
            case 3:
                source_node, name = nodes[rng.choice(sorted(nodes))], rng.choice(sorted(nodes))
                nodes[name] = _named(source_node, name)
                engine.cluster.put_node(nodes[name])
            case 4:
                now_s += rng.choice([1, 50, 200])
                engine.cluster.now_s = now_s
            case 5 if len(nodes) > 1:
                name = rng.choice(sorted(nodes))
                del nodes[name]
                engine.cluster.remove_node(name)
                pods = {key: pod for key, pod in pods.items() if pod.spec.node_name != name}
                if rng.random() < 0.5 and name in metrics:
                    del metrics[name]
                    plugin.remove_node_metric(name)
        for kind in kinds:
            engine.class_of(Ask(kind)).best()
    after = Plain(
        nodes=tuple(nodes.values()),
        pods=tuple(pods.values()),
        node_metrics=tuple(metrics.values()),
        now_s=now_s,
        assigned_at_s=assigned_s,
    )
    for kind in kinds:
        assert_same(engine, kind, after, scene.load_args)


def _named(source: Node, name: str) -> Node:
    return replace(source, metadata=replace(source.metadata, name=name))


@settings(max_examples=30)
@given(SEEDS)
def test_undone_placements_and_removals_leave_the_columns_bit_for_bit(seed: int) -> None:
    rng, scene = random.Random(seed), random_scene(seed)
    engine = engine_for(scene.cluster(), LoadAwareScheduling(scene.load_args))
    columns = engine.cluster.table.columns
    before = {name: column.tobytes() for name, column in columns.items()}
    with engine.cluster.transaction() as transaction:
        for i in range(6):
            wanted = rng.choice(scene.pods())
            engine.place(Ask(replace(wanted, metadata=replace(wanted.metadata, name=f"new-{i}"))))
            if engine.cluster.pods:
                engine.cluster.remove_pod(rng.choice(sorted(engine.cluster.pods)))
        transaction.undo()
    assert {name: column.tobytes() for name, column in columns.items() if name in before} == before


@pytest.mark.parametrize(("include_system", "used", "more"), [(False, "20", "3400m"), (True, "24", "3400m")])
def test_people_are_told_the_prod_usage_by_which_pods_are_judged(include_system: bool, used: str, more: str) -> None:
    """Of the pods that are here and prod by their class and by the report; what was placed since comes on top."""
    plugin = LoadAwareScheduling(
        args(allowCustomizeEstimation=True, prodUsageThresholds={"cpu": 90}, prodUsageIncludeSys=include_system)
    )
    long_ago = [condition("PodScheduled", NOW_S - 3600)]
    here = [
        asks(20000, "prod", on="n", conditions=long_ago, priority=9500),
        asks(5000, "batch", on="n", conditions=long_ago, priority=5500),
        asks(3400, "new", on="n", priority=9500),
    ]
    usage = [
        pod_usage("prod", {"cpu": "20"}, priority="koord-prod"),
        pod_usage("batch", {"cpu": "7"}, priority="koord-prod"),
        pod_usage("gone", {"cpu": "11"}, priority="koord-prod"),
    ]
    report = metric("n", usage={"cpu": "50"}, pods=usage, system={"cpu": "4"})
    engine = one_node(plugin, report, pods=here)
    told: Any = plugin.controller.services["node/:nodeName"]("n")
    assert (told["prodUsage"]["cpu"], told["prodDelta"]["cpu"]) == (used, more)
    assert told["prodDeltaPods"] == ["default/new"]
    counted = engine.cluster.table.columns[plugin.rows.columns.prod[plugin.resources.index("cpu")]]
    assert counted[0] == int(used) * 1000 + 3400, "what filters use"


@settings(max_examples=20)
@given(SEEDS)
def test_many_reports_at_once_are_the_same_as_one_by_one(seed: int) -> None:
    scene = random_scene(seed)
    plain = scene.cluster()
    without = changed(plain, node_metrics=())
    engines = [engine_for(without, LoadAwareScheduling(scene.load_args)) for _ in range(2)]
    versions = [engine.cluster.table.read() for engine in engines]
    # The last report of a node counts, and those of unknown nodes wait for them.
    reports = [*plain.node_metrics, *plain.node_metrics[:2], metric("unknown")]
    (one_by_one,), (together,) = ([*plugin.takes()] for engine in engines for plugin in engine.profile.plugins)
    for report in reports:
        one_by_one.put(report)
    assert together.put_many is not None
    together.put_many(reports)
    columns = [{name: column.tobytes() for name, column in engine.cluster.table.columns.items()} for engine in engines]
    assert columns[0] == columns[1]
    moved = [engine.cluster.table.changes(since) for engine, since in zip(engines, versions, strict=True)]
    rows = [() if each is None else sorted(each.rows) for each in moved]
    assert rows[0] == rows[1]
    for wanted in scene.pods():
        assert verdicts(engines[0], wanted) == verdicts(engines[1], wanted)
        assert scores(engines[0], wanted) == scores(engines[1], wanted)


def test_trials_that_are_undone_do_not_read_all_rows_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the descheduler's are: each round tries its moves and undoes them."""
    engine = one_node(LoadAwareScheduling(args()), metric("n", usage={"cpu": "8"}))
    looks: list[int] = []
    worked_out = LoadRows._worked_out

    def counted(rows: LoadRows, row: int) -> list[int | float]:
        looks.append(row)
        return worked_out(rows, row)

    monkeypatch.setattr(LoadRows, "_worked_out", counted)
    for _ in range(2):
        with engine.cluster.transaction() as trial:
            engine.class_of(Ask(asks(1000)))
            trial.undo()
    assert not looks
