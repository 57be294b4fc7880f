"""Resources of new pods: translated to their class, told in an annotation, completed for GPUs, bound to a tree."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koord.admission.quota_tree_affinity import QuotaTrees
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.elastic_quota import ElasticQuota, ElasticQuotaProfile
from tests.admission.build import container, known, mutated, pod, profile, resources_of, spec_of

CPU, MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
MID_CPU, MID_MEMORY = "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"
SPEC = "node.koordinator.sh/extended-resource-spec"
EVERY_POD = profile()


@pytest.mark.parametrize(
    ("priority", "before", "after"),
    [
        # A limit alone is also the request; 1500m are 1500 thousandths.
        (
            5500,
            {"limits": {"cpu": "1500m", "memory": "2Gi"}},
            {"limits": {CPU: "1500", MEMORY: "2Gi"}, "requests": {CPU: "1500", MEMORY: "2Gi"}},
        ),
        # A limit above the request stays above it.
        (
            5500,
            {"requests": {"cpu": "0.25"}, "limits": {"cpu": "2"}},
            {"requests": {CPU: "250"}, "limits": {CPU: "2k"}},
        ),
        (7500, {"requests": {"memory": "512Mi"}}, {"requests": {MID_MEMORY: "512Mi"}}),
        (7500, {"requests": {"cpu": 1}}, {"requests": {MID_CPU: "1k"}}),
        # Finer than a thousandth is rounded up.
        (5500, {"requests": {"cpu": "1500u"}}, {"requests": {CPU: "2"}}),
        # Other resources stay.
        (5500, {"requests": {"cpu": "1", "nvidia.com/gpu": 1}}, {"requests": {CPU: "1k", "nvidia.com/gpu": 1}}),
        # Prod and free have no resources of their own.
        (9500, {"requests": {"cpu": "1"}}, {"requests": {"cpu": "1"}}),
        (3500, {"requests": {"cpu": "1"}}, {"requests": {"cpu": "1"}}),
    ],
)
def test_resources_become_those_of_the_class(priority: int, before: dict[str, Any], after: dict[str, Any]) -> None:
    answer = mutated(pod(container(**before), priority=priority), known(EVERY_POD))
    assert resources_of(answer) == after


@pytest.mark.parametrize(
    ("more", "translated"),
    [
        ({"labels": {"koordinator.sh/priority-class": "koord-batch"}, "priority": 9500}, True),
        ({"labels": {"koordinator.sh/priority-class": "koord-prod"}, "priority": 5500}, False),
        ({"labels": {"koordinator.sh/qosClass": "BE"}}, True),
        ({"labels": {"koordinator.sh/qosClass": "LS"}}, False),
        ({"priorityClassName": "koord-batch"}, True),
        ({"priorityClassName": "unheard-of"}, False),
        ({}, False),
    ],
)
def test_the_class_comes_from_label_or_priority_or_qos_or_what_the_pod_asks_for(
    more: dict[str, Any], translated: bool
) -> None:
    answer = mutated(pod(container(requests={"cpu": "1"}), **more), known(EVERY_POD))
    assert (CPU in resources_of(answer)["requests"]) == translated


def test_init_containers_and_overhead_are_translated_too() -> None:
    given = pod(
        container(requests={"cpu": "1"}),
        initContainers=[container("init", limits={"cpu": "500m"}), container("bare")],
        overhead={"cpu": "100m", "memory": "64Mi"},
        priority=5500,
    )
    spec = spec_of(mutated(given, known(EVERY_POD)))
    assert spec["initContainers"] == [
        container("init", limits={CPU: "500"}, requests={CPU: "500"}),
        container("bare"),
    ]
    assert spec["overhead"] == {CPU: "100", MEMORY: "64Mi"}


def test_a_quantity_that_is_none_is_refused_with_its_place() -> None:
    answer = mutated(pod(container(requests={"cpu": "much"}), priority=5500), known(EVERY_POD))
    assert (answer.allowed, answer.code) == (False, 400)
    assert answer.message.startswith("spec.containers[0].resources.requests[cpu]: 'much' is not a quantity")


def spec_annotation(obj: dict[str, Any], **options: Any) -> Any:
    answer = mutated(obj, **options)
    assert answer.object is not None
    text = answer.object["metadata"].get("annotations", {}).get(SPEC)
    return None if text is None else json.loads(text)


def test_batch_resources_of_regular_containers_are_told_in_an_annotation() -> None:
    both = {"requests": {CPU: 1000, MEMORY: "1Gi"}, "limits": {CPU: "2000", "cpu": "1"}}
    given = pod(container("a", **both), container("b"), initContainers=[container("i", requests={CPU: "1"})])
    assert spec_annotation(given) == {
        "containers": {"a": {"limits": {CPU: "2k"}, "requests": {CPU: "1k", MEMORY: "1Gi"}}}
    }


@pytest.mark.parametrize(
    ("annotations", "requests", "expected"),
    [
        ({}, {"cpu": "1"}, None),
        ({SPEC: "{}"}, {"cpu": "1"}, "{}"),
        # Stale: nothing of it holds any more.
        ({SPEC: '{"containers":{"main":{"requests":{"kubernetes.io/batch-cpu":"5"}}}}'}, {"cpu": "1"}, "{}"),
        # The same in other words stays unchanged.
        (
            {SPEC: '{ "containers": {"main": {"requests": {"kubernetes.io/batch-cpu": "1000"}}}}'},
            {CPU: "1k"},
            '{ "containers": {"main": {"requests": {"kubernetes.io/batch-cpu": "1000"}}}}',
        ),
        ({SPEC: "{}"}, {CPU: "5"}, '{"containers":{"main":{"requests":{"kubernetes.io/batch-cpu":"5"}}}}'),
    ],
)
def test_the_annotation_is_written_where_it_says_something_else(
    annotations: dict[str, str], requests: dict[str, str], expected: str | None
) -> None:
    answer = mutated(pod(container(requests=requests), annotations=annotations))
    assert answer.object is not None
    assert answer.object["metadata"]["annotations"].get(SPEC) == expected


def test_an_annotation_that_cannot_be_read_fails() -> None:
    answer = mutated(pod(container(requests={CPU: "5"}), annotations={SPEC: "{"}))
    assert (answer.allowed, answer.code) == (False, 500)
    assert SPEC in answer.message


def test_the_annotation_can_be_switched_off() -> None:
    given = pod(container(requests={CPU: "5"}))
    assert spec_annotation(given, feature_gates="DisableExtendedResourceSpec=true") is None


GPU, CORE, RATIO = "koordinator.sh/gpu", "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio"
SHARED, GPU_MEMORY = "koordinator.sh/gpu.shared", "koordinator.sh/gpu-memory"


@pytest.mark.parametrize(
    ("asked", "after"),
    [
        ({GPU: 200}, {CORE: "200", RATIO: "200", SHARED: "2"}),
        ({GPU: "100"}, {CORE: "100", RATIO: "100", SHARED: "1"}),
        ({GPU: 50}, {CORE: "50", RATIO: "50", SHARED: "1"}),
        ({CORE: "50", RATIO: "50"}, {CORE: "50", RATIO: "50", SHARED: "1"}),
        ({GPU_MEMORY: "8Gi", CORE: "300"}, {GPU_MEMORY: "8Gi", CORE: "300", SHARED: "3"}),
        # The ratio decides, if there is one; a core share of whole cards beside it does not.
        ({RATIO: "50", CORE: "200"}, {RATIO: "50", CORE: "200", SHARED: "1"}),
        ({RATIO: "200", CORE: "50"}, {RATIO: "200", CORE: "50", SHARED: "2"}),
        ({RATIO: "150"}, {RATIO: "150", SHARED: "1"}),
        ({GPU_MEMORY: "8Gi"}, {GPU_MEMORY: "8Gi", SHARED: "1"}),
        # Cards that are counted already stay so.
        ({SHARED: 4, RATIO: "200"}, {SHARED: 4, RATIO: "200"}),
        ({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 1}),
    ],
)
def test_gpu_requests_are_completed(asked: dict[str, Any], after: dict[str, Any]) -> None:
    answer = mutated(pod(container(requests=asked, limits=asked)))
    assert resources_of(answer) == {"requests": after, "limits": after}


def test_a_gpu_limit_alone_is_a_request_too() -> None:
    answer = mutated(pod(container(limits={GPU: 200, "cpu": "1"})))
    complete = {CORE: "200", RATIO: "200", SHARED: "2"}
    assert resources_of(answer) == {"requests": complete, "limits": {"cpu": "1", **complete}}


def test_init_containers_keep_their_gpu_requests() -> None:
    given = pod(container(), initContainers=[container("init", requests={GPU: 100}, limits={GPU: 100})])
    assert mutated(given).patch == ()


def test_completing_gpu_requests_can_be_switched_off() -> None:
    given = pod(container(requests={GPU: 200}, limits={GPU: 200}))
    assert mutated(given, feature_gates="DisableDeviceResourceSpec=true").patch == ()


def quota(name: str, tree: str = "", namespace: str = "kube-system", namespaces: str = "") -> ElasticQuota:
    labels = {"quota.scheduling.koordinator.sh/tree-id": tree} if tree else {}
    annotations = {"quota.scheduling.koordinator.sh/namespaces": namespaces} if namespaces else {}
    return convert(
        ElasticQuota,
        {"metadata": {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations}},
    )


def tree_profile(name: str, tree: str, selector: dict[str, Any]) -> ElasticQuotaProfile:
    metadata = {"name": name, "namespace": "kube-system", "labels": {"quota.scheduling.koordinator.sh/tree-id": tree}}
    return convert(ElasticQuotaProfile, {"metadata": metadata, "spec": {"quotaName": name, "nodeSelector": selector}})


TREES = QuotaTrees.of(
    [
        quota("plain"),
        quota("a-child", "tree-a"),
        quota("ns1", "tree-a", namespace="ns1"),
        quota("b-root", "tree-b", namespaces='["ns2"]'),
        quota("unreadable", "tree-b", namespaces="ns3"),
        quota("c-child", "tree-c"),
    ],
    [
        tree_profile("a", "tree-a", {"matchLabels": {"pool": "a"}}),
        tree_profile("a-second", "tree-a", {"matchLabels": {"pool": "other"}}),
        tree_profile("b", "tree-b", {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["a"]}]}),
    ],
)
POOL_A = {"key": "pool", "operator": "In", "values": ["a"]}
NOT_POOL_A = {"key": "pool", "operator": "NotIn", "values": ["a"]}
ZONE = {"key": "zone", "operator": "Exists"}


def terms_of(obj: dict[str, Any]) -> Any:
    answer = mutated(obj, known(trees=TREES), "MultiQuotaTree=true")
    affinity = spec_of(answer).get("affinity", {}).get("nodeAffinity", {})
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms")


@pytest.mark.parametrize(
    ("namespace", "name", "requirement"),
    [
        ("default", "", None),
        ("default", "plain", None),
        ("default", "a-child", POOL_A),
        ("default", "b-root", NOT_POOL_A),
        ("default", "c-child", None),  # no profile says which nodes the tree has
        ("ns1", "", POOL_A),
        ("ns2", "", NOT_POOL_A),
        ("ns2", "unheard-of", NOT_POOL_A),
        ("ns2", "a-child", POOL_A),
        ("ns3", "", None),
    ],
)
def test_a_pod_goes_to_the_nodes_of_its_quota_tree(
    namespace: str, name: str, requirement: dict[str, Any] | None
) -> None:
    labels = {"quota.scheduling.koordinator.sh/name": name} if name else {}
    terms = terms_of(pod(namespace=namespace, labels=labels))
    assert terms == (None if requirement is None else [{"matchExpressions": [requirement]}])


def test_the_nodes_of_the_tree_are_required_in_every_alternative_and_only_once() -> None:
    required = {
        "nodeSelectorTerms": [{"matchExpressions": [ZONE]}, {"matchFields": [ZONE]}, {"matchExpressions": [POOL_A]}]
    }
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}, "podAffinity": {}}
    given = pod(namespace="ns1", affinity=affinity)
    assert terms_of(given) == [
        {"matchExpressions": [ZONE, POOL_A]},
        {"matchFields": [ZONE], "matchExpressions": [POOL_A]},
        {"matchExpressions": [POOL_A]},
    ]


def test_trees_bind_pods_only_with_the_gate() -> None:
    assert mutated(pod(namespace="ns1"), known(trees=TREES)).patch == ()
