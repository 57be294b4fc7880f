"""The informer benchmark measures what it says, at a size at which a test may."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from koord_bench.cli import table
from koord_bench.harness import Report, Result, Size, turns
from koord_bench.informer import measure
from koord_bench.pod_rows import by_node, identity, pod_row
from koord_bench.pods import PODS_PER_APP, pod_json

TINY = Size(decoded=50, decoded_official=20, listed=1100, rows=600, events=300, repeats=1)


def test_every_case_gives_a_figure_beside_its_baseline() -> None:
    pytest.importorskip("kubernetes")
    results = measure(Report("informer", quick=True), TINY)
    assert [(result.case, result.metric) for result in results] == [
        ("decode", "speed"),
        ("decode", "memory"),
        ("list 1100 pods", "CPU"),
        ("list 1100 pods", "peak memory"),
        ("rows", "memory"),
        ("watch", "speed"),
    ]
    for result in results:
        assert result.value > 0
        assert result.baseline is not None
        assert set(msgspec.to_builtins(result)) >= {"bench", "case", "metric", "value", "unit", "baseline", "ratio"}


def row(value: float, case: str = "c", **options: Any) -> Result:
    report = Report("b")
    report.case(case).add("m", value, "u", **options)
    return report.rows[0]


@pytest.mark.parametrize(
    ("more_is_better", "value", "baseline", "ratio"),
    [(True, 100.0, 2.0, 50.0), (False, 2.0, 100.0, 50.0), (False, 100.0, 2.0, 0.02)],
)
def test_a_ratio_above_one_is_always_better(more_is_better: bool, value: float, baseline: float, ratio: float) -> None:
    result = row(value, baseline=baseline, more_is_better=more_is_better, ratio_goal=10)
    assert result.ratio == pytest.approx(ratio)
    assert result.met is (ratio >= 10)


def test_an_absolute_goal_needs_no_baseline() -> None:
    assert row(5.0, goal=6.0).met is True
    assert row(7.0, goal=6.0).met is False


def test_a_quick_run_has_only_goals_for_any_size() -> None:
    case = Report("b", quick=True).case("c")
    case.add("m", 5.0, "u", goal=6.0)
    case.add("m", 5.0, "u", goal=6.0, at_any_size=True)
    assert [row.goal for row in case.report.rows] == [None, 6.0]


def test_contenders_take_turns_in_both_directions() -> None:
    assert list(turns("ab", 3)) == [(0, "a"), (0, "b"), (1, "b"), (1, "a"), (2, "a"), (2, "b")]


def test_the_table_says_which_goal_was_missed() -> None:
    shown = table([row(7.0, "slow", goal=6.0), row(5.0, "fast", goal=6.0)])
    slow, fast = shown.splitlines()[1:]
    assert slow.endswith("NO")
    assert fast.endswith("yes")


def test_a_row_has_what_the_pod_asks_for() -> None:
    row = pod_row(msgspec.Raw(pod_json(PODS_PER_APP)))
    pod = msgspec.json.decode(pod_json(PODS_PER_APP))
    assert identity(row) == (
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}",
        pod["metadata"]["uid"],
        pod["metadata"]["resourceVersion"],
    )
    assert by_node(row) == (pod["spec"]["nodeName"],)
    # A service of 500m and 512Mi, with a side-car of 50m and 64Mi.
    assert (row.cpu_milli, row.memory_bytes) == (500 + 50, (512 + 64) << 20)
    assert dict(row.labels) == pod["metadata"]["labels"]


def test_an_init_container_counts_where_it_asks_for_more() -> None:
    def container(cpu: str, **more: str) -> dict[str, object]:
        return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "containers": [container("300m")],
        "initContainers": [container("100m", restartPolicy="Always"), container("1")],
        "overhead": {"cpu": "10m"},
    }
    raw = msgspec.Raw(msgspec.json.encode({"metadata": {"name": "p"}, "spec": spec}))
    assert pod_row(raw).cpu_milli == max(300 + 100, 100 + 1000) + 10


def test_equal_label_sets_are_kept_once() -> None:
    assert pod_row(msgspec.Raw(pod_json(0))).labels is pod_row(msgspec.Raw(pod_json(0))).labels
