"""Admission of quotas and of the pods in them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from koord.admission.pod_quota import evaluated
from koord.admission.quota_objects import QuotaPods
from koord.admission.quota_topology import QuotaTopology
from koord.admission.request import AdmissionAnswer, Operation, Request
from koord.admission.review import mutate, validate
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert, encode
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from tests.admission.build import container, gates, known, pod
from tests.scheduler.quotas import PREFIX, quota

ROOT = "koordinator-root-quota"


def plain(thing: ElasticQuota) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encode(thing))
    return found


def asked(
    new: ElasticQuota | None,
    *there: ElasticQuota,
    old: ElasticQuota | None = None,
    pods: QuotaPods | None = None,
    feature_gates: str = "",
    user: str = "",
    **more: Any,
) -> AdmissionAnswer:
    """Whether a quota may be created, changed (`old`) or deleted (no new one), beside others. `more`: what is known."""
    what = replace(known(), quotas=QuotaTopology.of(there), quota_pods=pods or QuotaPods(), **more)
    operation: Operation = "CREATE" if old is None else "DELETE" if new is None else "UPDATE"
    request = Request(
        operation,
        "elasticquotas",
        object=None if new is None else plain(new),
        old=None if old is None else plain(old),
        group="scheduling.sigs.k8s.io",
        namespace=(new or old or quota("a")).metadata.namespace,
        user=user,
    )
    return validate(request, what, gates(feature_gates))


def parent(name: str = "top", least: str = "10", most: str = "20", **more: Any) -> ElasticQuota:
    return quota(name, least, most, is_parent=True, **more)


REFUSED: dict[str, tuple[ElasticQuota, tuple[ElasticQuota, ...], str]] = {
    "negative": (quota("a", "-1", "10"), (), "spec.min.cpu: must be 0 or more, not -1"),
    "min above max": (quota("a", "11", "10"), (), "spec.min.cpu: must be at most spec.max.cpu, 10"),
    "min without max": (quota("a", {"gpu": "1"}, "10"), (), "spec.min.gpu: must be in spec.max too"),
    "negative weight": (quota("a", "1", "10", weight={"cpu": "-1"}), (), "must be 0 or more, not -1"),
    "a taken name": (quota("a"), (quota("a", namespace="other"),), "is taken by other/a"),
    "a taken namespace": (
        quota("a", namespaces=["lab"]),
        (quota("b", namespaces=["lab"]),),
        "namespace lab belongs to quota b already",
    ),
    "no such parent": (quota("a", parent="nobody"), (), "quota nobody does not exist"),
    "a parent that takes no children": (quota("a", parent="b"), (quota("b"),), "quota b takes no children"),
    "its own parent": (quota("a", parent="a", is_parent=True), (), "must not be a, which is the quota itself"),
    "a circle": (parent("a", parent="b"), (parent("b", parent="a"),), "which is the quota itself or below it"),
    "other resources": (
        quota("a", "1", {"cpu": "1", "memory": "1Gi"}, parent="top"),
        (parent(),),
        "spec.max: resources must be those of top: cpu",
    ),
    "more than the parent has": (
        quota("a", "6", "20", parent="top"),
        (parent(), quota("b", "5", "20", parent="top")),
        "spec.min.cpu: min of top's children with this one is 11, above the min of top, 10",
    ),
    "less than children have": (
        parent("top", "4"),
        (quota("a", "5", "20", parent="top"),),
        "min of its children is 5, above its own min, 4",
    ),
    "another tree than its parent": (
        quota("a", "1", "20", parent="top", labels={f"{PREFIX}tree-id": "x"}),
        (parent(labels={f"{PREFIX}tree-id": "y"}),),
        "must be that of its parent top, y",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_malformed_quota_is_refused(case: str) -> None:
    new, there, words = REFUSED[case]
    answer = asked(new, *there)
    assert (answer.allowed, answer.code) == (False, 400)
    assert words in answer.message


def test_a_tree_in_order_is_admitted() -> None:
    top, a = parent(), quota("a", "5", "30", parent="top")
    assert asked(top).allowed
    assert asked(a, top).allowed
    assert asked(quota("b", "5", "20", parent="top"), top, a).allowed
    assert asked(quota("free", "50", "60"), top, a).allowed


def test_min_may_exceed_the_parents_by_force() -> None:
    forced = quota("a", "99", "99", parent="top", labels={f"{PREFIX}allow-force-update": "true"})
    assert asked(forced, parent()).allowed


def test_a_change_of_nothing_that_matters_passes_whatever_is_stored() -> None:
    lost = quota("a", parent="nobody")
    annotated = quota("a", parent="nobody", annotations={f"{PREFIX}runtime": '{"cpu":"1"}'})
    assert asked(annotated, lost, old=lost).allowed


@pytest.mark.parametrize("name", [ROOT, "koordinator-system-quota"])
def test_what_belongs_to_koord_stays_as_it_is(name: str) -> None:
    assert "cannot be changed" in asked(quota(name, "1", "1"), old=quota(name, "2", "2")).message
    assert "cannot be deleted" in asked(None, old=quota(name)).message


def test_a_quota_goes_with_its_namespace_and_with_its_owner_whoever_uses_it() -> None:
    top, child = parent(), quota("a", "5", "20", parent="top")
    pods = QuotaPods(labelled={"top": "shop/web"})
    for each in (top, quota(ROOT)):
        place = each.metadata.namespace
        assert not asked(None, each, child, old=each, pods=pods).allowed
        assert asked(None, each, child, old=each, pods=pods, leaving={place}).allowed
        for cleaner in ("namespace-controller", "generic-garbage-collector"):
            user = f"system:serviceaccount:kube-system:{cleaner}"
            assert asked(None, each, child, old=each, pods=pods, user=user).allowed
        assert not asked(None, each, child, old=each, pods=pods, leaving={"elsewhere"}, user="tester").allowed


def test_children_and_pods_keep_a_quota_what_it_is() -> None:
    top, leaf = parent(), quota("top", "10", "20")
    child = quota("a", "5", "20", parent="top")
    assert "must be true while quota a is below it" in asked(leaf, top, child, old=top).message
    assert asked(leaf, top, old=top).allowed
    pods = QuotaPods(labelled={"top": "shop/web"})
    assert (
        "must not be true while pods are in it, for example shop/web" in asked(top, leaf, old=leaf, pods=pods).message
    )
    assert asked(top, leaf, old=leaf).allowed
    assert "quota a is below it" in asked(None, top, child, old=top).message
    assert "pod shop/web uses it" in asked(None, leaf, old=leaf, pods=pods).message
    lists = quota("l", namespaces=["lab"])
    assert "pod lab/p uses it" in asked(None, lists, old=lists, pods=QuotaPods(within={"lab": "lab/p"})).message
    assert asked(None, leaf, old=leaf).allowed


@pytest.mark.parametrize("own", ["kube-system", "kube-public", "kube-node-lease", "koordinator-system"])
def test_no_quota_takes_over_the_clusters_own_namespaces(own: str) -> None:
    lists = quota("a", namespaces=["lab", own])
    assert f"must not list {own}" in asked(lists).message
    assert "must not list lab" not in asked(lists).message
    # One that is stored can be changed, and counts for no pod there.
    assert asked(quota("a", "1", "9", namespaces=["lab", own]), lists, old=lists).allowed
    assert QuotaTopology.of([lists]).name_for("", own, default=True) == "koordinator-default-quota"
    assert QuotaTopology.of([lists]).name_for("", "lab", default=True) == "a"


def test_who_may_not_make_quotas_in_a_namespace_takes_none_over() -> None:
    denied = {"lab": "mallory may not create elasticquotas.scheduling.sigs.k8s.io there"}
    lists = quota("a", namespaces=["shop", "lab"])
    message = asked(lists, namespace_denials=denied).message
    assert "namespaces]: must not list lab: mallory may not create elasticquotas" in message
    # What is listed already is not checked again.
    assert asked(quota("a", "1", "9", namespaces=["shop", "lab"]), lists, old=lists, namespace_denials=denied).allowed
    assert asked(lists).allowed


def test_a_quota_stays_in_its_tree() -> None:
    old, new = (quota("a", labels={f"{PREFIX}tree-id": tree}) for tree in ("x", "y"))
    assert "must stay x" in asked(new, old, old=old).message


def test_max_must_not_fall_below_what_is_used_where_that_is_asked_for() -> None:
    strict = {f"{PREFIX}max-strict-check-resource-keys": '["cpu"]'}
    old, new = (quota("a", "0", most, annotations=strict) for most in ("10", "4"))
    used = convert(ElasticQuota, {**plain(new), "status": {"used": {"cpu": "5"}}})
    assert "spec.max.cpu: must be at least the 5 that is used" in asked(used, old, old=old).message


def test_gates_change_what_is_asked_for() -> None:
    fewer = quota("a", "1", "1", parent="top")
    both = quota("top", {"cpu": "10"}, {"cpu": "20", "memory": "1Gi"}, is_parent=True)
    assert not asked(fewer, both).allowed
    assert asked(fewer, both, feature_gates="ElasticQuotaEnableUpdateResourceKey=true").allowed
    tree = {f"{PREFIX}tree-id": "x"}
    guaranteed = {f"{PREFIX}guaranteed": '{"cpu":"3"}'}
    top = parent(labels=tree, annotations=guaranteed)
    more = quota("a", "4", "20", parent="top", labels=tree)
    assert asked(more, top).allowed
    assert (
        "more than any quota above it is guaranteed"
        in asked(more, top, feature_gates="ElasticQuotaGuaranteeUsage=true").message
    )


def in_tree(name: str, least: dict[str, str], guaranteed: dict[str, str], **more: Any) -> ElasticQuota:
    """A quota of a tree, with what it is guaranteed."""
    most = dict.fromkeys(least, "100")
    labels = {f"{PREFIX}tree-id": "x", **more.pop("labels", {})}
    annotations = {f"{PREFIX}guaranteed": json.dumps(guaranteed)}
    return quota(name, least, most, labels=labels, annotations=annotations, **more)


def test_with_guaranteed_usage_somebody_must_back_a_min() -> None:
    gate = "ElasticQuotaGuaranteeUsage=true"
    unbacked = "more than any quota above it is guaranteed"
    nobody = in_tree("top", {"cpu": "10"}, {}, is_parent=True)
    assert unbacked in asked(nobody, feature_gates=gate).message
    is_root = in_tree("top", {"cpu": "10"}, {}, is_parent=True, labels={f"{PREFIX}is-root": "true"})
    assert asked(is_root, feature_gates=gate).allowed
    both = {"cpu": "10", "memory": "10"}
    top = in_tree("top", both, {"cpu": "10", "memory": "5"}, is_parent=True)
    child = in_tree("a", {"cpu": "4"}, {}, parent="top")
    child = replace_max(child, both)
    assert unbacked in asked(child, top, feature_gates=gate).message, "memory of top itself is not backed"
    top = in_tree("top", {"cpu": "10", "memory": "2"}, {"cpu": "10", "memory": "5"}, is_parent=True)
    child = replace_max(in_tree("a", {"cpu": "4"}, {"memory": "6"}, parent="top"), both)
    assert unbacked in asked(child, top, feature_gates=gate).message, "it is guaranteed more memory than top"
    child = replace_max(in_tree("a", {"cpu": "4"}, {"memory": "5"}, parent="top"), both)
    assert asked(child, top, feature_gates=gate).allowed


def replace_max(quota: ElasticQuota, keys: dict[str, str]) -> ElasticQuota:
    return convert(ElasticQuota, {**plain(quota), "spec": {**plain(quota)["spec"], "max": dict.fromkeys(keys, "100")}})


def test_what_a_new_quota_leaves_out_is_filled_in() -> None:
    what = replace(known(), quotas=QuotaTopology.of([parent(labels={f"{PREFIX}tree-id": "x"})]))

    def filled(new: ElasticQuota) -> dict[str, Any]:
        answer = mutate(Request("CREATE", "elasticquotas", object=plain(new)), what, gates())
        assert answer.allowed, answer.message
        metadata: dict[str, Any] = dict((answer.object or {})["metadata"])
        return metadata

    plain_one = filled(quota("a", "1", {"cpu": "4", "memory": "1Gi"}))
    assert plain_one["labels"][f"{PREFIX}parent"] == ROOT
    assert json.loads(plain_one["annotations"][f"{PREFIX}shared-weight"]) == {"cpu": "4", "memory": "1Gi"}
    child = filled(quota("b", "1", {"cpu": "4", "memory": "1Gi"}, parent="top", weight={"cpu": "2", "gpu": "9"}))
    assert child["labels"][f"{PREFIX}tree-id"] == "x"
    assert json.loads(child["annotations"][f"{PREFIX}shared-weight"]) == {"cpu": "2", "memory": "1Gi"}
    lost = mutate(Request("CREATE", "elasticquotas", object=plain(quota("c", parent="nobody"))), what, gates())
    assert (lost.allowed, lost.code) == (False, 400)


def in_quota(name: str = "", **labels: str) -> dict[str, Any]:
    said = {f"{PREFIX}name": name} if name else {}
    return pod(labels={**said, **{f"{PREFIX}{key}": value for key, value in labels.items()}})


def pod_asked(new: dict[str, Any], old: dict[str, Any] | None = None, feature_gates: str = "") -> AdmissionAnswer:
    quotas = QuotaTopology.of([parent(), quota("leaf", parent="top"), parent("shop", namespace="shop")])
    request = Request("CREATE" if old is None else "UPDATE", "pods", object=new, old=old)
    return validate(request, replace(known(), quotas=quotas), gates(feature_gates))


def test_parents_take_no_pods_unless_they_may() -> None:
    assert pod_asked(in_quota("leaf")).allowed
    assert pod_asked(in_quota("unknown")).allowed
    refusal = pod_asked(in_quota("top"))
    assert "quota top is the parent of others and takes no pods itself" in refusal.message
    assert "quota shop is the parent" in pod_asked(in_quota()).message
    assert pod_asked(in_quota("top"), feature_gates="SupportParentQuotaSubmitPod=true").allowed
    assert pod_asked(in_quota(), feature_gates="DisableDefaultQuota=true").allowed
    # An existing pod may still change in other things.
    assert pod_asked(in_quota("top", other="x"), in_quota("top")).allowed


@pytest.mark.parametrize(
    ("namespaces", "home", "is_taken"),
    [([], "lab", True), (["lab"], "shop", True), (["lab", "shop"], "lab", True), (["lab", "office"], "lab", False)],
)
def test_a_quota_that_lists_namespaces_takes_no_pods_of_others(
    namespaces: list[str], home: str, is_taken: bool
) -> None:
    """The pods are in shop."""
    theirs = quota("theirs", namespaces=namespaces, namespace=home)
    what = replace(known(), quotas=QuotaTopology.of([theirs, quota("leaf")]))

    def refusal(old: dict[str, Any] | None = None) -> str:
        operation: Operation = "CREATE" if old is None else "UPDATE"
        return validate(Request(operation, "pods", object=in_quota("theirs"), old=old), what, gates()).message

    message = "quota theirs takes pods of the namespaces lab, office alone"
    assert (message in refusal(), message in refusal(in_quota("leaf"))) == (not is_taken, not is_taken)
    assert not refusal(in_quota("theirs")), "a pod that is in it may change in other things"


def test_whether_a_pod_may_be_preempted_does_not_change() -> None:
    fixed, loose = in_quota("leaf", preemptible="false"), in_quota("leaf")
    assert pod_asked(fixed, fixed).allowed
    assert "must stay absent" in pod_asked(fixed, loose).message
    assert "must stay false" in pod_asked(loose, fixed).message


@pytest.mark.parametrize(
    ("cpu", "annotations", "fault", "after"),
    [
        ("2", {"child-request": '{"cpu":"8"}'}, "", {"cpu": 10_000}),
        (
            "3",
            {"child-request": '{"cpu":"8"}'},
            "exceeded quota: teams/a, requested: cpu=3, used: cpu=8, limited: cpu=10",
            None,
        ),
        ("3", {"child-request": '{"cpu":"8"}', "admission": '{"cpu":"12"}'}, "", {"cpu": 11_000}),
        ("11", {}, "exceeded quota: teams/a, requested: cpu=11, used: cpu=0, limited: cpu=10", None),
    ],
)
def test_requests_count_from_admission_on(
    cpu: str, annotations: dict[str, str], fault: str, after: dict[str, int] | None
) -> None:
    noted = {f"{PREFIX}{key}": value for key, value in annotations.items()}
    new = convert(Pod, pod(container(requests={"cpu": cpu, "memory": "1Gi"})))
    found = evaluated(new, quota("a", "0", "10", annotations=noted))
    assert found.fault == fault
    assert found.child_request == after
