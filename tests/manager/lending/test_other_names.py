"""One pool under several names: each shows what is free by all, and together they never sell more than the pool."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.admission.pool_names import translated
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import pod_requests
from koord.api.machinery.codec import convert
from koord.api.protocol import names
from koord.api.protocol.pool_names import OTHER_NAMES
from koord.api.text.quantity import render
from koord.manager.node_resource.writing import decide
from koord.scheduler.state.cluster import allocatable_of
from tests.manager import builders
from tests.manager.builders import NOW_S, config, metric, prepared, state

NAMES = {word: (of.cpu, of.cpu_unit_milli) for word, of in OTHER_NAMES.items()}
NAMES["batch"] = ("kubernetes.io/batch-cpu", 1)
BY_ALL_NAMES = config(poolNames=list(OTHER_NAMES), cpuReclaimThresholdPercent=100)


def job(name: str, cpu_name: str, amount: int) -> Pod:
    resources = {"requests": {cpu_name: str(amount)}, "limits": {cpu_name: str(amount)}}
    labels = {"koordinator.sh/qosClass": "BE", "koordinator.sh/priority-class": "koord-batch"}
    return convert(
        Pod,
        {
            "metadata": {"name": name, "namespace": "default", "uid": name, "labels": labels},
            "spec": {"nodeName": "n1", "containers": [{"name": "main", "resources": resources}]},
            "status": {"phase": "Running"},
        },
    )


def shown(pods: tuple[Pod, ...], yarn: str = "0") -> dict[str, Any]:
    """What a node with 20 free cores shows beside these pods."""
    held = [{"name": "hadoop-yarn", "priority": "koord-batch", "resources": {"kubernetes.io/batch-cpu": yarn}}]
    annotations = {str(names.ANNOTATION_THIRD_PARTY_ALLOCATIONS): json.dumps({"allocations": held})}
    node = builders.node(cpu="20", annotations=annotations)
    return dict(prepared(state(node, pods, metric({}, system=("0", "0"))), BY_ALL_NAMES).resources)


def test_each_name_shows_what_is_free_by_all_of_them() -> None:
    by_name = shown((job("a", "kubernetes.io/batch-cpu", 6000),), yarn="4000")
    assert by_name["kubernetes.io/batch-cpu"] == 16_000
    assert by_name["gocrane.io/cpu"] == 10
    assert by_name["caster.io/colocation-cpu"] == 10_000
    by_name = shown((job("a", "kubernetes.io/batch-cpu", 6000), job("b", "gocrane.io/cpu", 2)), yarn="4000")
    assert by_name["kubernetes.io/batch-cpu"] == 14_000
    assert by_name["gocrane.io/cpu"] == 10
    assert by_name["caster.io/colocation-cpu"] == 8_000


def test_names_that_are_no_longer_listed_are_taken_away() -> None:
    node = builders.node(published={"kubernetes.io/batch-cpu": "1k", "gocrane.io/cpu": "1"})
    known = state(node, (), metric({}))
    slo = config()
    decision = decide(known.node, prepared(known, slo), slo.for_node({}, {}).colocation, None, NOW_S)
    assert decision.patch is not None
    assert decision.patch["status"]["allocatable"]["gocrane.io/cpu"] is None


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("come"), st.sampled_from(list(NAMES)), st.integers(1, 9)),
            st.tuples(st.just("go"), st.integers(0, 20), st.none()),
            st.tuples(st.just("look"), st.none(), st.none()),
            st.tuples(st.just("write"), st.none(), st.none()),
        ),
        max_size=30,
    )
)
@settings(max_examples=60)
def test_however_pods_of_all_names_come_go_and_race_no_more_is_sold_than_the_pool(steps: list[tuple[Any, ...]]) -> None:
    """The manager looks, and its write arrives later; the scheduler decides by what it sees in between."""
    pods: list[Pod] = []
    written = waiting = _published(())
    for number, (act, what, cores) in enumerate(steps):
        if act == "come":
            name, unit = NAMES[what]
            pod = job(f"p{number}", name, cores * 1000 // unit)
            taken = sum(pod_requests(other)[names.RESOURCE_BATCH_CPU] for other in (*pods, pod))
            if taken <= allocatable_of(written)[names.RESOURCE_BATCH_CPU]:
                pods.append(pod)
        elif act == "go" and pods:
            pods.pop(what % len(pods))
        elif act == "look":
            waiting = _published(tuple(pods))
        elif act == "write":
            written = waiting
        sold = sum(pod_requests(pod)[names.RESOURCE_BATCH_CPU] for pod in pods)
        assert sold <= 20_000


def _published(pods: tuple[Pod, ...]) -> Node:
    """The node as the manager writes it."""
    node = builders.node(cpu="20")
    wanted = prepared(state(node, pods, metric({}, system=("0", "0"))), BY_ALL_NAMES)
    amounts = {name: render(name, amount) for name, amount in wanted.resources.items() if amount is not None}
    annotations = {key: text for key, text in wanted.annotations.items() if text is not None}
    return builders.node(cpu="20", published=amounts, annotations=annotations)


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        ({"labels": {"caster.io/resource-type": "colocation"}}, "caster.io/colocation-"),
        (
            {"annotations": {"katalyst.kubewharf.io/qos_level": "reclaimed_cores"}},
            "resource.katalyst.kubewharf.io/reclaimed_",
        ),
    ],
)
def test_admission_moves_plain_requests_to_the_name_that_the_pod_asks_for(metadata: dict[str, Any], name: str) -> None:
    container = {"name": "main", "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}}}
    pod = translated({"metadata": metadata, "spec": {"containers": [container]}})
    cpu = f"{name}{'cpu' if 'caster' in name else 'millicpu'}"
    amounts = {cpu: "1500", f"{name}memory": "1Gi"}
    assert pod["spec"]["containers"][0]["resources"] == {"limits": amounts, "requests": amounts}
    assert pod["metadata"]["labels"]["koordinator.sh/qosClass"] == "BE"
    typed = convert(Pod, pod)
    assert pod_requests(typed) == {names.RESOURCE_BATCH_CPU: 1500, names.RESOURCE_BATCH_MEMORY: 1 << 30}


def test_other_pods_are_left_alone() -> None:
    pod = {"metadata": {"annotations": {"katalyst.kubewharf.io/qos_level": "shared_cores"}}, "spec": {}}
    assert translated(pod) is pod
