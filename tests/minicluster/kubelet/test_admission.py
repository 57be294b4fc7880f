from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import pod_requests
from koord_minicluster.kubelet.admission import Admission, rejected, rejection
from tests.minicluster.hollow.builders import pod, with_status

NODE = {"cpu": "4", "memory": "8Gi", "pods": "3"}
STARTED = {"startTime": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("wanted", "running", "reason"),
    [
        (pod("a", cpu="4"), [], None),
        (pod("a", cpu="4001m"), [], "OutOfcpu"),
        (pod("a", cpu="2"), [pod("b", cpu="2500m")], "OutOfcpu"),
        (pod("a", cpu="5", memory="9Gi"), [], "OutOfcpu"),
        (pod("a", memory="9Gi"), [], "OutOfmemory"),
        (pod("a"), [pod("b"), pod("c"), pod("d")], "OutOfpods"),
        # A node without an extended resource leaves counting it to others; Kubernetes' own names must be there.
        (pod("a", containers=({"name": "c", "resources": {"requests": {"example.com/seat": "1"}}},)), [], None),
        (
            pod("a", containers=({"name": "c", "resources": {"requests": {"kubernetes.io/batch-cpu": "1"}}},)),
            [],
            "OutOfkubernetes.io/batch-cpu",
        ),
        (pod("a", cpu="1" * 30), [], "OutOfcpu"),
    ],
)
def test_a_pod_is_rejected_by_the_first_resource_that_is_short(
    wanted: Pod, running: list[Pod], reason: str | None
) -> None:
    why = rejection(wanted, running, NODE)
    assert (why.reason if why is not None else None) == reason


def test_a_rejected_pod_has_failed_with_the_figures() -> None:
    why = rejection(pod("a", cpu="3"), [pod("b", cpu="1500m")], NODE)
    assert why is not None
    status = with_status(pod("a"), rejected(pod("a"), why)).status
    assert (status.phase, status.reason) == ("Failed", "OutOfcpu")
    short = "Node didn't have enough resource: cpu, requested: 3000, used: 1500, capacity: 4000"
    assert status.message == f"Pod was rejected: {short}"


def test_pods_of_a_former_run_count_and_stay_whatever_the_node_has_now() -> None:
    admission = Admission()
    old = pod("old", cpu="4", status=STARTED)
    assert admission.rejection(old, [old], {"cpu": "1", "pods": "1"}) is None
    new = pod("new", cpu="1")
    why = admission.rejection(new, [old, new], NODE)
    assert why is not None
    assert why.reason == "OutOfcpu"
    over = pod("old", cpu="4", status={**STARTED, "phase": "Succeeded"})
    assert admission.rejection(new, [over, new], NODE) is None


@given(st.lists(st.integers(1, 3000), max_size=8), st.randoms(use_true_random=False))
def test_in_whatever_order_pods_come_and_go_the_admitted_ones_fit(cpus: list[int], chance: Random) -> None:
    admission = Admission()
    bound: list[Pod] = []
    admitted: dict[str, Pod] = {}
    for number, cpu in enumerate(cpus):
        new = pod(f"p{number}", cpu=f"{cpu}m")
        bound.append(new)
        for each in chance.sample(bound, len(bound)):
            if admission.rejection(each, bound, NODE) is None:
                admitted[each.metadata.uid] = each
        if admitted and chance.random() < 0.3:
            gone = admitted.pop(sorted(admitted)[0])
            bound.remove(gone)
            admission.forget(gone)
        assert len(admitted) <= 3
        assert sum(pod_requests(running)["cpu"] for running in admitted.values()) <= 4000
