"""New pods follow the recommendation of their workload, where it says so and the gate is on."""

from __future__ import annotations

from typing import Any

import pytest

from koord.admission.cluster_facts import ClusterFacts
from koord.admission.recommended_requests import AppliedRecommendations
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.recommendation import Recommendation
from tests.admission.build import container, known, mutated, pod, profile, resources_of

GATE = "RecommendedRequests=true"
TARGETS: dict[str, Any] = {
    "workload": {"type": "workload", "workload": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}},
    "selector": {"type": "podSelector", "podSelector": {"matchLabels": {"app": "web"}}},
}
GIVEN: dict[str, Any] = {"requests": {"cpu": "4", "memory": "8Gi", "example.com/disk": "1"}}


def recommendation(
    name: str = "web",
    *,
    target: str = "workload",
    apply: str = "admission",
    namespace: str = "shop",
    cpu: str = "1250m",
) -> Recommendation:
    told = [{"containerName": "main", "resources": {"cpu": cpu, "memory": "3Gi"}}]
    raw = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"target": TARGETS[target], "apply": apply},
        "status": {"podStatus": {"containerStatuses": told}},
    }
    return convert(Recommendation, raw)


def knowing(*objects: Recommendation) -> ClusterFacts:
    return known(recommendations=AppliedRecommendations.of(objects))


def web(*containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    labels = {"app": "web", "pod-template-hash": "5d4f", **more.pop("labels", {})}
    made = pod(*(containers or (container(**GIVEN),)), labels=labels, **more)
    made["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "web-5d4f", "controller": True}]
    return made


def requests(made: dict[str, Any], what: ClusterFacts, gates: str = GATE) -> dict[str, Any]:
    answer = mutated(made, what, gates)
    assert answer.allowed
    found: dict[str, Any] = resources_of(answer)["requests"]
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_a_new_pod_requests_what_is_recommended_and_says_by_whom(target: str) -> None:
    answer = mutated(web(), knowing(recommendation(target=target)), GATE)
    assert resources_of(answer)["requests"] == {"cpu": "1250m", "memory": "3Gi", "example.com/disk": "1"}
    assert answer.object is not None
    assert answer.object["metadata"]["annotations"] == {"analysis.koord.sh/recommended-by": "web"}


@pytest.mark.parametrize(
    ("what", "gates", "why"),
    [
        (knowing(recommendation()), "", "the gate is off by default"),
        (knowing(recommendation(apply="off")), GATE, "the pod did not ask for it"),
        (knowing(recommendation(namespace="jobs")), GATE, "another namespace's workload of that name"),
        (knowing(), GATE, "there is none"),
    ],
)
def test_other_pods_are_left_alone(what: ClusterFacts, gates: str, why: str) -> None:
    assert mutated(web(), what, gates).patch == (), why


def test_no_request_is_set_above_its_limit_and_limits_stay() -> None:
    given: dict[str, Any] = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}}
    answer = mutated(web(container(**given)), knowing(recommendation()), GATE)
    assert resources_of(answer) == {
        "requests": {"cpu": "1", "memory": "2Gi"},
        "limits": {"cpu": "1", "memory": "2Gi"},
    }


@pytest.mark.parametrize("qos", ["LSR", "LSE"])
def test_pods_with_whole_cores_keep_their_cpu(qos: str) -> None:
    made = web(labels={"koordinator.sh/qosClass": qos})
    assert requests(made, knowing(recommendation())) == {"cpu": "4", "memory": "3Gi", "example.com/disk": "1"}


def test_containers_without_a_recommendation_keep_what_they_have() -> None:
    answer = mutated(web(container("main", **GIVEN), container("new", **GIVEN)), knowing(recommendation()), GATE)
    assert answer.object is not None
    assert answer.object["spec"]["containers"][1]["resources"] == GIVEN


def test_admitting_twice_is_admitting_once() -> None:
    what = knowing(recommendation())
    once = mutated(web(), what, GATE)
    assert once.object is not None
    assert mutated(dict(once.object), what, GATE).patch == ()


def test_batch_pods_get_it_before_their_resources_are_translated() -> None:
    everybody = profile(priorityClassName="koord-batch", qosClass="BE")
    what = known(everybody, recommendations=AppliedRecommendations.of([recommendation()]))
    assert requests(web(container(requests={"cpu": "4"})), what)["kubernetes.io/batch-cpu"] == "1250"


def test_a_container_that_asks_for_batch_resources_gets_it_in_these() -> None:
    given: dict[str, Any] = {
        "requests": {"kubernetes.io/batch-cpu": "4000", "kubernetes.io/batch-memory": "8Gi"},
        "limits": {"kubernetes.io/batch-cpu": "1000"},
    }
    made = web(container(**given), labels={"koordinator.sh/qosClass": "BE"})
    assert requests(made, knowing(recommendation())) == {
        "kubernetes.io/batch-cpu": "1000",
        "kubernetes.io/batch-memory": "3Gi",
    }


def test_sidecars_follow_it_and_other_init_containers_do_not() -> None:
    made = web(container("app", **GIVEN))
    made["spec"]["initContainers"] = [
        {**container("main", **GIVEN), "restartPolicy": "Always"},
        container("migrate", **GIVEN),
    ]
    answer = mutated(made, knowing(recommendation()), GATE)
    assert answer.object is not None
    sidecar, first = answer.object["spec"]["initContainers"]
    assert sidecar["resources"]["requests"]["cpu"] == "1250m"
    assert first["resources"] == GIVEN


@pytest.mark.parametrize("cpu", ["0", "-3"])
def test_what_promises_nothing_is_not_followed(cpu: str) -> None:
    assert requests(web(), knowing(recommendation(cpu=cpu)))["cpu"] == "4"


def test_what_is_taken_back_or_changed_counts_at_once() -> None:
    applied = AppliedRecommendations.of([recommendation(), recommendation("b", target="selector", cpu="9")])
    assert requests(web(), known(recommendations=applied))["cpu"] == "9", "of several the first by name"
    applied.remove("shop/b")
    assert requests(web(), known(recommendations=applied))["cpu"] == "1250m"
    applied.put(recommendation(cpu="2"))
    assert requests(web(), known(recommendations=applied))["cpu"] == "2"
    applied.put(recommendation(apply="off"))
    assert requests(web(), known(recommendations=applied))["cpu"] == "4"


@pytest.mark.parametrize("bad", [{"cpu": "lots"}, {"cpu": None}])
def test_a_request_that_cannot_be_read_is_left_to_the_api_server(bad: dict[str, Any]) -> None:
    answer = mutated(web(container(requests=bad)), knowing(recommendation()), GATE)
    assert answer.allowed
