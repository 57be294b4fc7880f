"""What co-location was worth: worked examples, and that parts add up to the whole."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kubernetes.core import Event
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.charged import Charged, charged_to
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.text.timestamp import from_seconds
from koord.operate.estimate import of_objects
from koord.operate.page import page
from koord.operate.since import parse, said
from koord.operate.worth import (
    GIB,
    Amounts,
    Entry,
    NodeSize,
    Recorded,
    Series,
    Span,
    Worth,
    increase,
    of_series,
    of_spans,
)

HOUR = 3600.0
WEB, ETL = Charged("shop", "team-a", "deployment/web"), Charged("data", "team-b", "job/etl")


def test_a_pod_that_ran_half_of_the_time_is_lent_half_of_it() -> None:
    # 4 cores and 8 GiB in the last 5 of 10 hours: 20 core-hours, 40 GiB-hours; it used a quarter of the CPU.
    span = Span(ETL, 5 * HOUR, 20 * HOUR, 4, 8, used_cores=1, used_gib=2)
    offer = Span(Charged("", "", ""), 0, 10 * HOUR, 16, 64)
    worth = of_spans([span], [offer], {ETL: 2}, 0, 10 * HOUR, source="test")
    assert worth.entries == {ETL: Entry(Amounts(20, 40), Amounts(5, 10), 2)}
    assert worth.published == Amounts(160, 640)
    assert (worth.course[0].lent, worth.course[-1].lent, worth.course[0].published) == (0, 4, 16)


def test_series_count_each_point_for_one_step() -> None:
    # Points every half hour: 2 cores at three of them are 3 core-hours; a GiB at two of them is one GiB-hour.
    labels = {"pod_namespace": "data", "quota": "team-b", "workload": "job/etl"}
    points = [(0.0, 2.0), (1800.0, 2.0), (3600.0, 2.0)]
    recorded = Recorded(
        0,
        3600,
        1800,
        [Series({"resource": "kubernetes.io/batch-cpu"}, [(0.0, 10.0), (1800.0, 10.0), (3600.0, 10.0)])],
        [
            Series({**labels, "resource": "cpu", "what": "requested"}, points),
            Series({**labels, "resource": "cpu", "what": "used"}, [(0.0, 1.0)]),
            Series({**labels, "resource": "memory", "what": "requested"}, [(0.0, GIB), (1800.0, GIB)]),
        ],
        [Series(labels, [(1800.0, 1.0), (3600.0, 3.0)])],
    )
    worth = of_series(recorded)
    assert worth.entries == {ETL: Entry(Amounts(3, 1), Amounts(0.5, 0), 3)}
    assert worth.published == Amounts(15, 0)
    assert [tuple(each) for each in worth.course] == [(0, 10, 2, 1), (1800, 10, 2, 0), (3600, 10, 2, 0)]


@pytest.mark.parametrize(
    ("points", "grown"),
    [
        ([], 0),
        # It was there before the window: only what came since counts.
        ([(0, 5), (10, 5), (20, 7)], 2),
        # It appeared within the window, with its first eviction.
        ([(30, 1), (40, 1)], 1),
        # The agent was started again, and counts from 0.
        ([(0, 5), (10, 6), (20, 1), (30, 2)], 3),
    ],
)
def test_a_counter_grew_by(points: list[tuple[float, float]], grown: float) -> None:
    assert increase(points, 0, 10) == grown


def test_saved_nodes_are_those_of_the_resource_that_needs_more_of_them() -> None:
    # 64 core-hours are 2 node-hours of CPU; 512 GiB-hours are 4 of memory.
    worth = Worth(0, 1, "", Amounts(), {WEB: Entry(Amounts(48, 128)), ETL: Entry(Amounts(16, 384))})
    node = NodeSize(32, 128)
    assert worth.node_hours(worth.total, node) == 4
    assert [worth.node_hours(entry, node) for entry in (worth.entries[WEB], worth.entries[ETL])] == [1, 3]


amounts = st.builds(Amounts, st.integers(0, 1000).map(float), st.integers(0, 1000).map(float))
charges = st.builds(
    Charged,
    st.sampled_from(["a", "b"]),
    st.sampled_from(["", "q1", "q2"]),
    st.sampled_from(["job/x", "job/y", "pod/z"]),
)
worths = st.dictionaries(charges, st.builds(Entry, amounts, amounts, st.integers(0, 9)), max_size=8).map(
    lambda entries: Worth(0, 1, "", Amounts(), entries)
)


@settings(max_examples=40)
@given(worths)
def test_the_sum_over_namespaces_quotas_and_workloads_is_the_total(found: Worth) -> None:
    node = NodeSize(32, 128)
    for by in ("namespace", "quota", "workload"):
        parts = found.by(by).values()
        assert sum(part.lent.core_hours for part in parts) == found.total.lent.core_hours
        assert sum(part.used.gib_hours for part in parts) == found.total.used.gib_hours
        assert sum(part.evicted for part in parts) == found.total.evicted
        hours = sum(found.node_hours(part, node) for part in parts)
        assert hours == pytest.approx(found.node_hours(found.total, node))


def test_the_api_alone_tells_what_runs_since_when_and_what_it_uses() -> None:
    now = 1_800_000_000.0

    def at(hours_ago: float) -> str:
        return from_seconds(now - hours_ago * HOUR)

    def pod(name: str, started_h: float, phase: str = "Running", ended_h: float = 0, cpu: str = "4k") -> Pod:
        done = {"terminated": {"finishedAt": at(ended_h)}} if phase == "Succeeded" else {}
        return convert(
            Pod,
            {
                "metadata": {
                    "name": name,
                    "namespace": "data",
                    "labels": {"quota.scheduling.koordinator.sh/name": "q"},
                },
                "spec": {
                    "containers": [
                        {
                            "name": "main",
                            "resources": {
                                "requests": {"kubernetes.io/batch-cpu": cpu, "kubernetes.io/batch-memory": "2Gi"}
                            },
                        }
                    ]
                },
                "status": {
                    "phase": phase,
                    "startTime": at(started_h),
                    "containerStatuses": [{"name": "main", "state": done}],
                },
            },
        )

    service = convert(Pod, {"metadata": {"name": "web", "namespace": "shop"}, "status": {"startTime": at(9)}})
    node = convert(
        Node,
        {
            "metadata": {"name": "n1", "creationTimestamp": at(100)},
            "status": {"allocatable": {"cpu": "16", "kubernetes.io/batch-cpu": "10k", "kubernetes.io/mid-cpu": "2k"}},
        },
    )
    metric = convert(
        NodeMetric,
        {
            "metadata": {"name": "n1"},
            "status": {
                "podsMetric": [
                    {"namespace": "data", "name": "long", "podUsage": {"resources": {"cpu": "500m", "memory": "1Gi"}}}
                ]
            },
        },
    )
    event = convert(
        Event,
        {
            "metadata": {"name": "e", "namespace": "data", "creationTimestamp": at(1)},
            "eventTime": at(1),
            "reason": "evictPodSuccess",
            "regarding": {"kind": "Pod", "namespace": "data", "name": "gone"},
        },
    )
    pods = [service, pod("long", 100), pod("done", 6, "Succeeded", 2)]
    worth = of_objects(pods, [node], [metric], [event], now, 10 * HOUR)
    # Of the window of 10 hours, `long` ran 10 and `done` 4, with 4 cores and 2 GiB each.
    assert worth.entries == {
        Charged("data", "q", "pod/long"): Entry(Amounts(40, 20), Amounts(5, 10)),
        Charged("data", "q", "pod/done"): Entry(Amounts(16, 8)),
        Charged("data", "", "pod/gone"): Entry(evicted=1),
    }
    assert worth.published == Amounts(120, 0)
    assert "no history" in worth.notes[0]


def test_a_pod_is_charged_to_the_deployment_behind_its_replica_set() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4", "uid": "u", "controller": True}
    labels = {"pod-template-hash": "5d4"}
    meta = {"name": "web-5d4-x", "namespace": "shop", "labels": labels, "ownerReferences": [owner]}
    assert charged_to(convert(Pod, {"metadata": meta}).metadata) == Charged("shop", "", "deployment/web")


def test_the_page_has_a_plot_all_tables_and_nothing_from_elsewhere() -> None:
    span = Span(Charged("a<b", "", "job/x"), 0, 2 * HOUR, 4, 8, 1, 2)
    offer = Span(Charged("", "", ""), 0, 2 * HOUR, 16, 64)
    text = page(of_spans([span], [offer], {}, 0, 2 * HOUR, source="test"), NodeSize(4, 64, 1.5))
    assert text.count("<polyline") == 3
    assert "a&lt;b" in text
    assert "a<b" not in text
    assert all(title in text for title in ("By namespace", "By quota", "By workload"))
    assert "2.0 hours of a node for 3.00" in text
    assert "http" not in text.replace("http-equiv", "")


@pytest.mark.parametrize(("text", "seconds"), [("7d", 604800), ("1h30m", 5400), ("90m", 5400), ("30s", 30)])
def test_since(text: str, seconds: float) -> None:
    assert parse(text) == seconds


@pytest.mark.parametrize("text", ["", "7", "d", "0s", "-1h", "1y", "9999w", "7 d"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse(text)


@pytest.mark.parametrize(("seconds", "text"), [(90061, "1d1h"), (5400, "1h30m"), (59.9, "59s"), (0, "0s")])
def test_a_time_is_said_in_two_units(seconds: float, text: str) -> None:
    assert said(seconds) == text
