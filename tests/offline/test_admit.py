"""Manifests through admission: what each object becomes, by what the others say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koord.api.configuration.features import ManagerGate, parse_gates
from koord.api.machinery.faults import Invalid
from koord.api.text.manifest import parse
from koord.offline.admit import Admitted, admit_all
from koord_minicluster.apiserver.patch import json_patch

BATCH_CPU = "kubernetes.io/batch-cpu"


def obj(kind: str, name: str, api_version: str = "v1", namespace: str = "", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    metadata |= {key: more.pop(key) for key in ("labels", "annotations") if key in more}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def pod(name: str, namespace: str = "jobs", **more: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], **more.pop("spec", {})}
    return obj("Pod", name, namespace=namespace, spec=spec, **more)


def profile(name: str = "p", **spec: Any) -> dict[str, Any]:
    return obj("ClusterColocationProfile", name, "config.koordinator.sh/v1alpha1", spec=spec)


def admitted(*objects: dict[str, Any], gates: str = "", **options: Any) -> list[Admitted]:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    return admit_all(parse(text, "input"), parse_gates(ManagerGate, gates), **options)


BATCH = profile(namespaceSelector={"matchLabels": {"colocation": "on"}}, qosClass="BE", priorityClassName="koord-batch")
JOBS = obj("Namespace", "jobs", labels={"colocation": "on"})


def test_objects_come_in_the_order_of_the_input_and_profiles_may_come_last() -> None:
    given = [pod("a"), JOBS, BATCH, pod("b", "shop")]
    found = admitted(*given)
    assert [each.object["metadata"]["name"] for each in found] == ["a", "jobs", "p", "b"]
    assert all(each.allowed for each in found)
    assert found[0].object["spec"]["containers"][0]["resources"]["requests"] == {BATCH_CPU: "1k"}
    assert [bool(each.patches) for each in found] == [True, False, False, False]
    for before, after in zip(given, found, strict=True):
        assert json_patch.apply(before, [*after.defaults, *after.patches]) == after.object


def test_a_namespace_without_a_manifest_has_its_name_for_a_label() -> None:
    by_name = profile(namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "jobs"}}, labels={"x": "y"})
    found = admitted(by_name, pod("a"), pod("b", "shop"))
    assert found[1].object["metadata"]["labels"] == {"x": "y"}
    assert found[2].patches == ()


def test_a_priority_class_among_the_manifests_counts() -> None:
    mine = obj("PriorityClass", "mine", "scheduling.k8s.io/v1", value=5123)
    _, _, found = admitted(mine, profile(priorityClassName="mine", qosClass="BE"), pod("a"))
    assert found.object["spec"]["priority"] == 5123
    refused = admitted(profile(priorityClassName="mine"), pod("a"))[1]
    assert not refused.allowed
    assert "PriorityClass mine" in refused.message


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [({"priorityClassName": "koord-batch"}, True), ({"priorityClassName": "koord-prod"}, False), ({}, False)],
)
def test_a_class_that_a_pod_names_says_its_priority(spec: dict[str, Any], allowed: bool) -> None:
    (found,) = admitted(pod("a", labels={"koordinator.sh/qosClass": "BE"}, spec=spec))
    assert found.allowed == allowed
    assert found.patches == ()


def test_a_default_class_says_the_priority_of_those_who_name_none() -> None:
    usual = obj("PriorityClass", "usual", "scheduling.k8s.io/v1", value=5500, globalDefault=True)
    _, found = admitted(usual, pod("a", labels={"koordinator.sh/qosClass": "BE"}))
    assert found.allowed


def test_namespaces_that_admission_is_never_asked_about() -> None:
    own = obj("Namespace", "infra", labels={"control-plane": "x"})
    found = admitted(profile(labels={"x": "y"}), own, *(pod("a", name) for name in ("kube-system", "infra", "shop")))
    assert [bool(each.patches) for each in found[2:]] == [False, False, True]


def test_nodes_are_taken_as_their_kubelet_reports_them() -> None:
    amplified = {"node.koordinator.sh/resource-amplification-ratio": '{"cpu":1.94}'}
    node = obj("Node", "n1", annotations=amplified, status={"allocatable": {"cpu": "64"}})
    (found,) = admitted(node)
    assert found.object["status"]["allocatable"] == {"cpu": "124160m"}
    assert found.object["metadata"]["annotations"]["node.koordinator.sh/raw-allocatable"] == '{"cpu":"64"}'
    assert admitted(dict(found.object))[0].patches == ()


def config(**sections: Any) -> dict[str, Any]:
    data = {key.replace("_", "-"): json.dumps(value) for key, value in sections.items()}
    return obj("ConfigMap", "slo-controller-config", namespace="koordinator-system", data=data)


def test_a_configuration_is_judged_by_the_nodes_that_are_there() -> None:
    entries = [{"nodeSelector": {"matchLabels": {key: "1"}}} for key in ("a", "b")]
    node = obj("Node", "n1", labels={"a": "1", "b": "1"})
    found = admitted(config(colocation_config={"nodeConfigs": entries}), node)
    assert not found[0].allowed
    assert "ExistNodeConfict" in found[0].message
    assert found[1].allowed
    assert "nodeConfigs[0] and nodeConfigs[1] of colocation-config" in found[1].warnings[0]


def test_reservations_get_profiles() -> None:
    reservation = obj(
        "Reservation",
        "r",
        "scheduling.koordinator.sh/v1alpha1",
        spec={
            "template": {"spec": {"containers": []}},
            "owners": [{"labelSelector": {"matchLabels": {"a": "b"}}}],
            "ttl": "1h",
        },
    )
    _, found = admitted(profile(schedulerName="koord-scheduler"), reservation)
    assert found.object["spec"]["template"]["spec"]["schedulerName"] == "koord-scheduler"


def test_quota_trees_need_their_gate() -> None:
    tree = {"quota.scheduling.koordinator.sh/tree-id": "t"}
    quota = obj("ElasticQuota", "jobs", "scheduling.sigs.k8s.io/v1alpha1", "jobs", labels=tree, spec={})
    nodes = obj(
        "ElasticQuotaProfile",
        "q",
        "quota.koordinator.sh/v1alpha1",
        "kube-system",
        labels=tree,
        spec={"quotaName": "root", "nodeSelector": {"matchLabels": {"pool": "a"}}},
    )
    assert admitted(quota, nodes, pod("a"))[2].patches == ()
    assert "affinity" in admitted(quota, nodes, pod("a"), gates="MultiQuotaTree=true")[2].object["spec"]


def test_the_same_seed_gives_the_same_answer_and_another_one_another() -> None:
    given = [profile(probability=50, labels={"x": "y"}), *(pod(f"p{i}") for i in range(40))]
    first = admitted(*given, seed=1)
    assert admitted(*given, seed=1) == first
    assert admitted(*given, seed=2) != first


def test_pods_without_a_name_draw_for_themselves() -> None:
    nameless = [pod(f"p{i}") for i in range(40)]
    for each in nameless:
        each["metadata"] = {"generateName": "job-", "namespace": "jobs"}
    found = admitted(profile(probability=50, labels={"x": "y"}), *nameless)
    assert 5 < sum(bool(each.patches) for each in found) < 35


def test_faulty_manifests_are_refused_whole() -> None:
    with pytest.raises(Invalid, match=r"spec\.qosClass"):
        admitted(profile(qosClass="VIP"), pod("a"))
    broken = obj("ConfigMap", "pod-enhanced-validator-config", namespace="koordinator-system", data={"rules": "["})
    with pytest.raises(Invalid, match=r"data\.rules: is not JSON"):
        admitted(broken, pod("a"))
