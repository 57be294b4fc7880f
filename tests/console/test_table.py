"""What the console counts of pods and nodes, and the names it sorts."""

from __future__ import annotations

from koord.console.courses import CLUSTER_STEP_S, Courses
from koord.console.numbers import natural
from koord.console.rows import PodRow
from koord.console.table import ClusterTable


def pod(name: str, quota: str = "", namespace: str = "research") -> PodRow:
    return PodRow(
        f"{namespace}/{name}", name, "1", namespace, name, "n1", "batch", "BE", "Running", True, False,
        *(1000, 1 << 30, 0.0, 1.0, 0.0, quota, "", "Job/train", "koord-scheduler", 5500, "", ""),
    )  # fmt: skip


def test_a_pod_without_a_label_is_in_the_quota_of_its_namespace() -> None:
    table = ClusterTable()
    table.pod(None, pod("early"))
    assert table.pods["research/early"].quota == ""
    table.quotas_changed(lambda label, namespace: label or f"quota-of-{namespace}")
    table.pod(None, pod("late"))
    table.pod(None, pod("own", "gold"))
    assert {key: row.quota for key, row in table.pods.items()} == {
        "research/early": "quota-of-research",
        "research/late": "quota-of-research",
        "research/own": "gold",
    }
    assert table.on_node["n1"]["research/early"].quota == "quota-of-research"
    table.quotas_changed(lambda label, namespace: label)
    assert table.pods["research/early"].quota == ""


def test_the_newest_figures_end_a_course() -> None:
    table, courses = ClusterTable(), Courses(0.0)
    for at_s in (0.0, 1.0, CLUSTER_STEP_S - 1):
        table.figures[0, 0] = int(at_s)
        table.names = ["n1"]
        courses.sample(table, at_s)
    series = courses.of_cluster("cpu", 0.0, CLUSTER_STEP_S, 10)
    assert series.capacity == [CLUSTER_STEP_S - 1], "one step, with its newest sample"


def test_names_are_sorted_as_people_count() -> None:
    assert sorted(["n10", "n2", "n1", "a"], key=natural) == ["a", "n1", "n2", "n10"]
