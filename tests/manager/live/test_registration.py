"""How the webhooks are registered: for what, what happens when no webhook answers, and where they are never asked."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from koord.admission.hook import is_asked_about
from koord.admission.hooks import hooks
from koord.admission.hooks import registered as told
from koord.api.configuration.features import ManagerGate, parse_gates
from koord.api.machinery.codec import convert
from koord.api.text.selector import EVERYTHING, LabelSelector, compile_labels
from koord.manager.live.registration import Endpoint, entries

ALL = parse_gates(ManagerGate, "AllAlpha=true,AllBeta=true")
QUOTAS = "scheduling-sigs-k8s-io-v1alpha1-elasticquota"
SERVICE = Endpoint("koordinator-system", "koordinator-webhook-service")


def registered() -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in entries(hooks(ALL), SERVICE, b"PEM")}


@pytest.mark.parametrize(
    ("name", "path", "resource", "operations", "policy"),
    [
        ("mpod-create", "/mutate-pod", "pods", ["CREATE"], "Fail"),
        ("mpod-update", "/mutate-pod", "pods", ["UPDATE"], "Fail"),
        ("melasticquota", f"/mutate-{QUOTAS}", "elasticquotas", ["CREATE"], "Fail"),
        ("velasticquota", f"/validate-{QUOTAS}", "elasticquotas", ["CREATE", "UPDATE", "DELETE"], "Fail"),
        ("mpod-create-others", "/mutate-pod", "pods", ["CREATE"], "Ignore"),
        ("vpod", "/validate-pod", "pods", ["CREATE", "UPDATE"], "Fail"),
        ("vpod-others", "/validate-pod", "pods", ["CREATE", "UPDATE"], "Ignore"),
        ("vpodbinding", "/validate-pod-binding", "pods/binding", ["CREATE"], "Ignore"),
        ("mnode-status", "/mutate-node-status", "nodes/status", ["CREATE", "UPDATE"], "Ignore"),
        ("vnode", "/validate-node", "nodes", ["CREATE", "UPDATE"], "Ignore"),
        ("vconfigmap", "/validate-configmap", "configmaps", ["CREATE", "UPDATE", "DELETE"], "Ignore"),
        ("mreservation-create", "/mutate-reservation", "reservations", ["CREATE"], "Fail"),
        ("vagent-nodes", "/validate-agent", "nodes", ["UPDATE"], "Fail"),
        ("vagent-pods-status", "/validate-agent", "pods/status", ["UPDATE"], "Fail"),
        ("vagent-pods-eviction", "/validate-agent", "pods/eviction", ["CREATE"], "Fail"),
        ("vagent-nodemetrics-status", "/validate-agent", "nodemetrics/status", ["UPDATE"], "Ignore"),
        ("vagent-devices", "/validate-agent", "devices", ["CREATE", "UPDATE"], "Ignore"),
    ],
)
def test_what_is_asked_and_what_happens_when_nobody_answers(
    name: str, path: str, resource: str, operations: list[str], policy: str
) -> None:
    entry = registered()[f"{name}.koordinator.sh"]
    assert entry["clientConfig"]["service"] == {
        "namespace": "koordinator-system",
        "name": "koordinator-webhook-service",
        "path": path,
        "port": 443,
    }
    assert base64.b64decode(entry["clientConfig"]["caBundle"]) == b"PEM"
    (rule,) = entry["rules"]
    assert (rule["resources"], rule["operations"]) == ([resource], operations)
    assert entry["failurePolicy"] == policy
    assert entry["sideEffects"] == "None"
    assert entry["admissionReviewVersions"] == ["v1", "v1beta1"]
    # Who waits for nothing in particular must not wait long.
    assert entry["timeoutSeconds"] <= (5 if policy == "Fail" else 2)


def test_custom_kinds_are_named_with_their_group() -> None:
    (rule,) = registered()["mreservation-create.koordinator.sh"]["rules"]
    assert (rule["apiGroups"], rule["apiVersions"]) == (["scheduling.koordinator.sh"], ["v1alpha1"])


@pytest.mark.parametrize("name", ["mpod-create", "mpod-update", "vpod", "vpodbinding"])
@pytest.mark.parametrize(
    ("namespace", "labels", "asked"),
    [
        ("shop", {}, True),
        ("kube-system", {}, False),
        ("koordinator-system", {}, False),
        ("infra", {"control-plane": "x"}, False),
    ],
)
def test_the_clusters_own_namespaces_are_never_asked_about(
    name: str, namespace: str, labels: dict[str, str], asked: bool
) -> None:
    selector = convert(LabelSelector, registered()[f"{name}.koordinator.sh"]["namespaceSelector"])
    whole = {"kubernetes.io/metadata.name": namespace, **labels}
    assert compile_labels(selector, absent=EVERYTHING).matches(whole) == asked
    assert is_asked_about(namespace, labels) == asked


def test_a_manager_in_another_namespace_leaves_that_one_out_too() -> None:
    selectors = [hook["namespaceSelector"] for hook in entries(hooks(ALL, "mine"), SERVICE, b"")]
    expressions = [each for selector in selectors for each in selector.get("matchExpressions", [])]
    left_out = [expression["values"] for expression in expressions if expression["operator"] == "NotIn"]
    assert left_out
    assert all({*each} - {"kube-system"} == {"koordinator-system", "mine"} for each in left_out)


@pytest.mark.parametrize("name", ["melasticquota", "velasticquota"])
def test_quotas_in_koords_own_namespaces_do_not_wait_for_a_manager(name: str) -> None:
    own = ["koordinator-system", "mine"]
    found = {entry["name"]: entry for entry in entries(hooks(ALL, "mine"), SERVICE, b"")}
    elsewhere, within = (found[f"{each}.koordinator.sh"] for each in (name, f"{name}-own"))
    (left_out,), (only,) = (each["namespaceSelector"]["matchExpressions"] for each in (elsewhere, within))
    assert (left_out["operator"], left_out["values"], elsewhere["failurePolicy"]) == ("NotIn", own, "Fail")
    assert (only["operator"], only["values"], within["failurePolicy"]) == ("In", own, "Ignore")
    assert within["clientConfig"] == elsewhere["clientConfig"]


def test_what_a_clusters_own_controllers_change_or_delete_waits_for_nobody() -> None:
    changing = [e for e in registered().values() if {"UPDATE", "DELETE"} & {*e["rules"][0]["operations"]}]
    waiting = {entry["name"]: entry for entry in changing if entry["failurePolicy"] == "Fail"}
    # Those of agents are called for agents alone.
    waiting = {name: entry for name, entry in waiting.items() if not name.startswith("vagent-")}
    assert {*waiting} == {f"{each}.koordinator.sh" for each in ("mpod-update", "vpod", "velasticquota")}
    for entry in waiting.values():
        (condition,) = [each for each in entry["matchConditions"] if each["name"] == "not-cleaned-up"]
        assert "'system:serviceaccount:kube-system:namespace-controller'" in condition["expression"]
        assert "'system:serviceaccount:kube-system:generic-garbage-collector'" in condition["expression"]


def test_configuration_is_asked_about_where_managers_read_it() -> None:
    (entry,) = (each for each in entries(hooks(ALL, "mine"), SERVICE, b"") if each["name"].startswith("vconfigmap"))
    (where,) = entry["namespaceSelector"]["matchExpressions"]
    assert (where["operator"], where["values"]) == ("In", ["koordinator-system", "mine"])


def test_bindings_are_asked_about_only_where_someone_may_be_denied() -> None:
    assert "/validate-pod-binding" in {hook.path for hook in hooks(parse_gates(ManagerGate))}
    asked = {"/mutate-pod", "/validate-pod", "/validate-configmap", f"/mutate-{QUOTAS}", f"/validate-{QUOTAS}"}
    asked.add("/validate-agent")
    assert {hook.path for hook in told(parse_gates(ManagerGate))} == asked
    assert "/validate-pod-binding" in {hook.path for hook in told(ALL)}


def test_updates_are_asked_about_by_label() -> None:
    assert registered()["mpod-update.koordinator.sh"]["objectSelector"]["matchExpressions"] == [
        {"key": "pod.koordinator.sh/mutating-update", "operator": "In", "values": ["true"]}
    ]


def test_a_url_stands_in_for_the_service() -> None:
    (entry, *_) = entries(hooks(ALL), Endpoint("ns", "service", "https://10.0.0.1:9876"), b"PEM")
    assert entry["clientConfig"]["url"].startswith("https://10.0.0.1:9876/")
    assert "service" not in entry["clientConfig"]
