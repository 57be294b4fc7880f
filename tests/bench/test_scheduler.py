"""The scheduler benchmark measures what it says, at a size at which a test may."""

from __future__ import annotations

import pytest

from koord_bench import gpu_shares, reservations, reserved_room, scheduler_memory
from koord_bench.harness import Report, Result
from koord_bench.scheduler import WORKLOADS, Workload, add_owners, measure, peer
from koord_bench.scheduler import _node as make_node
from koord_bench.scheduler import _pod as pod_data


def by_metric(report: Report) -> dict[str, Result]:
    return {result.metric: result for result in report.rows}


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_every_case_decides_all_its_pods_and_the_same_way_each_time(workload: Workload) -> None:
    first, second = measure(workload, nodes=60, pods=50), measure(workload, nodes=60, pods=50)
    assert len(first.took_s) == len(second.took_s) == 45
    assert (first.placed, first.rows_judged) == (second.placed, second.rows_judged)
    assert first.placed > 0


def test_memory_is_told_for_a_state_that_was_fed_all_pods() -> None:
    found = scheduler_memory.measure(nodes=20, pods=200)
    assert found["peak_mib"] > 0
    assert found["feeding_s"] > 0


@pytest.mark.cluster
def test_the_real_scheduler_is_measured_with_the_same_pods() -> None:
    found = peer(nodes=20, pods=10)
    assert found is not None
    assert found > 0


def test_where_the_real_scheduler_is_not_installed_there_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koord_bench.api_servers.find_binary", lambda name: None)
    assert peer(nodes=1, pods=1) is None


def test_owners_of_room_are_measured_beside_equal_pods_that_own_none() -> None:
    report = Report("test", quick=True)
    add_owners(report, nodes=60, pods=reserved_room.TURN + 50)
    found = by_metric(report)
    assert found["cost of a view"].value == pytest.approx(found["decided, no owners"].value / found["decided"].value)


def test_owners_of_reservations_all_go_into_them() -> None:
    report = Report("test", quick=True)
    reservations.add_rows(report, map(make_node, range(20)), pod_data, number=8, teams=2)
    found = by_metric(report)
    assert found["in a reservation"].value == 100
    assert found["decided"].value > 0


def test_gpu_shares_are_decided_until_gpus_are_full() -> None:
    """Ten nodes have 51 GPUs: 40 pods fit, 400 do not."""
    few, many = (gpu_shares.measure("MostAllocated", nodes=10, pods=pods) for pods in (40, 400))
    assert (len(few.took_s), few.placed) == (40, 40)
    assert 40 < many.placed < 400
