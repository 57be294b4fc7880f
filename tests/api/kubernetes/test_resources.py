from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.kubernetes.resources import NON_ZERO_REQUESTS, amounts, pod_limits, pod_requests
from koord.api.text.quantity import INT64_MAX, QuantityError
from tests.api.pods import Resources, container, pod

MI = 1024**2


def both(name: str = "app", *, sidecar: bool = False, **resources: str | int) -> dict[str, Any]:
    return container(name, requests=resources, limits=resources, sidecar=sidecar)


@pytest.mark.parametrize(
    ("containers", "init", "cpu_milli"),
    [
        # Containers add up.
        ([both(cpu="1"), both(cpu="500m")], [], 1500),
        # An init container runs alone: the larger of it and the sum.
        ([both(cpu="1")], [both("i", cpu="3")], 3000),
        ([both(cpu="1")], [both("i", cpu="500m"), both("j", cpu="700m")], 1000),
        # A sidecar adds to the containers.
        ([both(cpu="1")], [both("s", cpu="2", sidecar=True)], 3000),
        # An init container runs beside the sidecars declared before it, not beside those after it:
        # max(1 + 2, 2 + 5) = 7, but max(1 + 2, 5) = 5.
        ([both(cpu="1")], [both("s", cpu="2", sidecar=True), both("i", cpu="5")], 7000),
        ([both(cpu="1")], [both("i", cpu="5"), both("s", cpu="2", sidecar=True)], 5000),
        # Sidecars 1 and 2 around init container 4: max(1 + 1 + 2, 4 + 1) = 5.
        (
            [both(cpu="1")],
            [both("s", cpu="1", sidecar=True), both("i", cpu="4"), both("t", cpu="2", sidecar=True)],
            5000,
        ),
    ],
)
def test_requests_and_limits_are_the_most_taken_at_any_time(
    containers: list[dict[str, Any]], init: list[dict[str, Any]], cpu_milli: int
) -> None:
    subject = pod(*containers, init=init)
    assert pod_requests(subject) == {"cpu": cpu_milli}
    assert pod_limits(subject) == {"cpu": cpu_milli}


def test_each_resource_takes_its_own_maximum() -> None:
    subject = pod(both(cpu="1", memory="1Gi"), init=[container("i", requests={"memory": "2Gi", "nvidia.com/gpu": 1})])
    assert pod_requests(subject) == {"cpu": 1000, "memory": 2048 * MI, "nvidia.com/gpu": 1}


def test_overhead_is_added_to_requests_but_only_to_limits_that_exist() -> None:
    overhead = {"cpu": "250m", "memory": "64Mi"}
    subject = pod(container(requests={"cpu": "1"}, limits={"cpu": "2", "memory": 0}), overhead=overhead)
    assert pod_requests(subject) == {"cpu": 1250, "memory": 64 * MI}
    assert pod_limits(subject) == {"cpu": 2250, "memory": 0}
    assert pod_requests(subject, overhead=False) == {"cpu": 1000}
    assert pod_limits(subject, overhead=False) == {"cpu": 2000, "memory": 0}


def test_pod_level_resources_replace_the_sum_of_those_kubernetes_heeds() -> None:
    level = {
        "requests": {"cpu": "3", "hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi"},
        "limits": {"cpu": "4", "memory": "1Gi"},
    }
    subject = pod(both(cpu="1", memory="64Mi"), init=[both("i", cpu="9")], resources=level, overhead={"cpu": "100m"})
    assert pod_requests(subject) == {"cpu": 3100, "memory": 64 * MI, "hugepages-2Mi": 4 * MI}
    assert pod_limits(subject) == {"cpu": 4100, "memory": 1024 * MI}


def resized(granted: str | None, in_force: str, *, pending: str | None = None, init: bool = False) -> dict[str, Any]:
    allocated = {"cpu": granted} if granted else None
    resources = {"requests": {"cpu": in_force}, "limits": {"cpu": in_force}}
    status: dict[str, Any] = {
        "initContainerStatuses" if init else "containerStatuses": [
            {"name": "app", "resources": resources, "allocatedResources": allocated}
        ]
    }
    if pending:
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": pending}]
    return {"status": status}


@pytest.mark.parametrize(
    ("wanted", "granted", "in_force", "pending", "requests", "limits"),
    [
        ("1", "1", "1", None, 1000, 1000),
        # Growing: wanted before it is granted, granted before it is in force.
        ("2", "1", "1", None, 2000, 2000),
        ("2", "2", "1", None, 2000, 2000),
        # Shrinking: what is in force counts until it is not.
        ("1", "1", "2", None, 2000, 2000),
        ("1", "2", "1", None, 2000, 1000),
        ("1", None, "1500m", None, 1500, 1500),
        # Deferred still waits for room, infeasible will never come.
        ("4", "1", "1", "Deferred", 4000, 4000),
        ("4", "1", "1", "Infeasible", 1000, 1000),
        ("1", "2", "3", "Infeasible", 3000, 3000),
    ],
)
def test_while_a_pod_is_resized_the_largest_figure_counts(
    wanted: str, granted: str | None, in_force: str, pending: str | None, requests: int, limits: int
) -> None:
    subject = pod(both(cpu=wanted), **resized(granted, in_force, pending=pending))
    assert pod_requests(subject) == {"cpu": requests}
    assert pod_limits(subject) == {"cpu": limits}
    assert pod_requests(subject, use_status=False)["cpu"] == int(wanted) * 1000


@pytest.mark.parametrize(("sidecar", "cpu_milli"), [(True, 3000), (False, 1000)])
def test_sidecars_are_resized_but_ordinary_init_containers_are_not(sidecar: bool, cpu_milli: int) -> None:
    subject = pod(init=[both(cpu="1", sidecar=sidecar)], **resized("3", "3", init=True))
    assert pod_requests(subject) == {"cpu": cpu_milli}


def test_a_container_that_names_no_request_counts_a_little_when_nodes_are_compared() -> None:
    subject = pod(container(), container("b", requests={"cpu": "0"}), container("c", requests={"memory": "1Mi"}))
    assert pod_requests(subject) == {"cpu": 0, "memory": MI}
    assert pod_requests(subject, missing=NON_ZERO_REQUESTS) == {"cpu": 200, "memory": 401 * MI}


@pytest.mark.parametrize(
    ("each", "expected"),
    [({"memory": "500m"}, {"memory": 1}), ({"memory": "0.3"}, {"memory": 1}), ({"cpu": "1m"}, {"cpu": 2})],
)
def test_sums_are_exact_and_rounded_up_once(each: Resources, expected: dict[str, int]) -> None:
    assert pod_requests(pod(container(requests=each), container("b", requests=each))) == expected


def test_a_sum_above_what_can_be_counted_stays_at_the_most_that_can() -> None:
    huge = container(requests={"memory": str(INT64_MAX)})
    assert pod_requests(pod(huge, huge)) == {"memory": INT64_MAX}


def test_a_request_that_is_no_quantity_is_a_named_error() -> None:
    with pytest.raises(QuantityError, match="many"):
        pod_requests(pod(container(requests={"cpu": "many"})))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("koordinator.sh/batch-cpu", "kubernetes.io/batch-cpu"),
        ("koordinator.sh/batch-memory", "kubernetes.io/batch-memory"),
        ("kubernetes.io/rdma", "koordinator.sh/rdma"),
        ("kubernetes.io/fpga", "koordinator.sh/fpga"),
        ("kubernetes.io/gpu", "koordinator.sh/gpu"),
        ("kubernetes.io/gpu-core", "koordinator.sh/gpu-core"),
        ("kubernetes.io/gpu-memory", "koordinator.sh/gpu-memory"),
        ("kubernetes.io/gpu-memory-ratio", "koordinator.sh/gpu-memory-ratio"),
    ],
)
def test_older_resource_names_are_read_as_todays(old: str, new: str) -> None:
    subject = pod(container(requests={old: 50}, limits={old: 100}), overhead={old: 1})
    assert pod_requests(subject) == {new: 51}
    assert pod_limits(subject) == {new: 101}
    assert amounts({old: "7", "cpu": "1500m"}) == {new: 7, "cpu": 1500}


def test_of_two_names_for_one_resource_todays_counts() -> None:
    both_names = {"koordinator.sh/batch-cpu": 1, "kubernetes.io/batch-cpu": 2}
    assert pod_requests(pod(container(requests=both_names)))["kubernetes.io/batch-cpu"] == 2


milli_cores = st.integers(0, 10**6)


@given(st.lists(milli_cores, max_size=4), st.lists(st.tuples(milli_cores, st.booleans()), max_size=5), milli_cores)
def test_requests_follow_the_formula(containers: list[int], init: list[tuple[int, bool]], overhead: int) -> None:
    subject = pod(
        *(container(f"c{i}", requests={"cpu": f"{m}m"}) for i, m in enumerate(containers)),
        init=[container(f"i{i}", requests={"cpu": f"{m}m"}, sidecar=sidecar) for i, (m, sidecar) in enumerate(init)],
        overhead={"cpu": f"{overhead}m"},
    )
    sidecars = sum(m for m, sidecar in init if sidecar)
    before = [m + sum(n for n, other in init[:i] if other) for i, (m, sidecar) in enumerate(init) if not sidecar]
    assert pod_requests(subject)["cpu"] == max([sum(containers) + sidecars, *before]) + overhead


def test_a_node_counts_what_is_beyond_an_int64_as_the_largest_amount() -> None:
    asked = {"cpu": "1e30", "memory": "-1e30", "example.com/x": "3"}
    most = 2**63 - 1
    assert amounts(asked, capped=True) == {"cpu": most, "memory": -most, "example.com/x": 3}
    with pytest.raises(QuantityError):
        amounts(asked)
