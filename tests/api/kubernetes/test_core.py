"""The lean objects other than pods: the traits that code relies on. That each field decodes is tested elsewhere."""

from __future__ import annotations

import json

import msgspec
import pytest

from koord.api.kubernetes.admissionregistration import AdmissionResponse, AdmissionReview, AdmissionStatus
from koord.api.kubernetes.apiextensions import CustomResourceDefinition
from koord.api.kubernetes.coordination import Lease
from koord.api.kubernetes.core import ConfigMap, Node, Secret
from koord.api.kubernetes.policy import PodDisruptionBudget
from koord.api.kubernetes.storage import PersistentVolumeClaim
from koord.api.kubernetes.workloads import Deployment, Job, template_of
from koord.api.machinery.codec import DecodeError, decode

SECRET = b'{"metadata":{"name":"tls","namespace":"shop"},"type":"kubernetes.io/tls","data":{"tls.key":"aHVzaA=="}}'


def test_a_secret_is_decoded_from_base64_and_never_printed() -> None:
    secret = decode(Secret, SECRET)
    assert secret.data == {"tls.key": b"hush"}
    for printed in (repr(secret), str(secret), f"{secret}", str(secret.__rich_repr__())):
        assert "hush" not in printed
        assert "tls.key" in printed
    assert json.loads(msgspec.json.encode(secret)) == json.loads(SECRET)


def test_data_that_is_not_base64_is_a_named_error() -> None:
    with pytest.raises(DecodeError, match=r"data"):
        decode(Secret, b'{"data":{"k":"%"}}')


def test_nulls_that_servers_send_are_taken_as_absent() -> None:
    config = decode(ConfigMap, b'{"metadata":{"name":"c","creationTimestamp":null,"labels":null},"data":null}')
    assert config.data == {}
    assert config.metadata.labels == {}


def test_a_workload_keeps_its_whole_template() -> None:
    template = {
        "metadata": {"labels": {"app": "web"}, "creationTimestamp": None},
        "spec": {"containers": [{"name": "app", "lifecycle": {"preStop": {}}}], "dnsPolicy": "Default"},
    }
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    deployment = decode(Deployment, json.dumps({"spec": spec}).encode())
    assert deployment.spec.template == template
    typed = template_of(deployment.spec.template)
    assert typed.metadata.labels == {"app": "web"}
    assert [container.name for container in typed.spec.containers] == ["app"]


def test_a_malformed_template_is_a_named_error() -> None:
    with pytest.raises(DecodeError, match=r"spec\.containers"):
        template_of({"spec": {"containers": 3}})


def test_what_a_workload_does_not_say_is_kubernetes_default() -> None:
    assert decode(Deployment, b"{}").spec.replicas == 1
    job = decode(Job, b"{}").spec
    assert (job.parallelism, job.completions, job.backoff_limit, job.completion_mode) == (1, None, 6, "NonIndexed")


def test_zero_replicas_are_not_the_default() -> None:
    deployment = decode(Deployment, b'{"spec":{"replicas":0}}')
    assert deployment.spec.replicas == 0
    assert json.loads(msgspec.json.encode(deployment)) == {"spec": {"replicas": 0}}


def test_a_budget_takes_numbers_and_percentages_and_tells_no_selector_from_an_empty_one() -> None:
    budget = decode(PodDisruptionBudget, b'{"spec":{"minAvailable":"50%","maxUnavailable":1,"selector":{}}}').spec
    assert (budget.min_available, budget.max_unavailable) == ("50%", 1)
    assert budget.selector is not None
    assert decode(PodDisruptionBudget, b'{"spec":{}}').spec.selector is None


def test_a_claim_tells_no_class_from_the_empty_class() -> None:
    assert decode(PersistentVolumeClaim, b'{"spec":{}}').spec.storage_class_name is None
    assert decode(PersistentVolumeClaim, b'{"spec":{"storageClassName":""}}').spec.storage_class_name == ""


def test_a_node_answers_by_type() -> None:
    status = {
        "addresses": [{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "10.0.0.1"}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    }
    node = decode(Node, json.dumps({"status": status}).encode())
    assert node.status.address("InternalIP") == "10.0.0.1"
    assert node.status.address("ExternalIP") is None
    ready = node.status.condition("Ready")
    assert ready is not None
    assert ready.status == "True"
    assert node.status.condition("DiskPressure") is None
    assert node.status.daemon_endpoints.kubelet_endpoint.port == 10250


def test_a_lease_without_holder() -> None:
    lease = decode(Lease, b'{"spec":{"leaseDurationSeconds":15,"holderIdentity":null,"renewTime":null}}')
    assert lease.spec.holder_identity == ""
    assert lease.spec.renew_time is None


@pytest.mark.parametrize(("status", "expected"), [("True", True), ("False", False)])
def test_a_definition_says_whether_it_is_served(status: str, expected: bool) -> None:
    data = {"status": {"conditions": [{"type": "Established", "status": status}]}}
    assert decode(CustomResourceDefinition, json.dumps(data).encode()).is_established is expected


def test_an_admission_review_goes_both_ways() -> None:
    request = {"uid": "u1", "operation": "CREATE", "object": {"kind": "Pod", "spec": {"x": 1}}, "oldObject": None}
    review = decode(AdmissionReview, json.dumps({"kind": "AdmissionReview", "request": request}).encode())
    assert review.request is not None
    assert review.request.object == {"kind": "Pod", "spec": {"x": 1}}
    assert review.request.old_object is None
    patch = b'[{"op":"add","path":"/spec/y","value":2}]'
    answer = AdmissionResponse(uid="u1", allowed=True, patch=patch, patch_type="JSONPatch")
    encoded = json.loads(msgspec.json.encode(AdmissionReview(response=answer)))
    assert encoded["response"]["patchType"] == "JSONPatch"
    assert decode(AdmissionResponse, json.dumps(encoded["response"]).encode()) == answer


def test_a_refusal_says_so_even_though_false_is_little() -> None:
    refusal = AdmissionResponse(uid="u1", allowed=False, status=AdmissionStatus(message="no", code=403))
    assert json.loads(msgspec.json.encode(refusal)) == {
        "uid": "u1",
        "allowed": False,
        "status": {"message": "no", "code": 403},
    }
