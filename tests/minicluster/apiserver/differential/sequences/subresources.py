"""status, scale, binding, eviction, and the rest of what hangs below an object."""

# ruff: noqa: E501 - a request is a row of a table

from __future__ import annotations

from typing import Any

from tests.minicluster.apiserver.differential.steps import (
    APPS,
    BATCH,
    CORE,
    JSON_PATCH,
    MERGE,
    POLICY,
    STRATEGIC,
    Step,
    delete,
    deployment,
    get,
    patch,
    pod,
    post,
    put,
    rv,
    saving,
    sequence,
    settled,
)

PODS = f"{CORE}/pods"
P = f"{PODS}/p"
DEPLOYMENTS = f"{APPS}/deployments"
D = f"{DEPLOYMENTS}/d"


def _binding(name: str = "p", target: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"} if target is None else target,
    }


def _eviction(name: str = "p", **more: Any) -> dict[str, Any]:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **more}


def _budget(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, **spec},
    }


def _allowed(count: int, **status: Any) -> Step:
    """The disruption controller's part, played by the test."""
    body = {
        "disruptionsAllowed": count,
        "currentHealthy": 3,
        "desiredHealthy": 2,
        "expectedPods": 3,
        "observedGeneration": 1,
    }
    return patch(f"{POLICY}/poddisruptionbudgets/b/status", {"status": {**body, **status}})


def _labelled(name: str = "p") -> dict[str, Any]:
    return pod(name, {"labels": {"app": "x"}})


def _running(name: str = "p", ready: bool = True) -> list[Step]:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    return [
        post(f"{PODS}/{name}/binding", _binding(name)),
        patch(f"{PODS}/{name}/status", {"status": status}),
        settled(f"{PODS}/{name}", status__phase="Running"),
    ]


SEQUENCES = [
    sequence(
        "binding",
        post(PODS, pod("p")),
        post(f"{P}/binding", _binding(annotations={"a": "b"}, labels={"l": "m"})),
        get(P),
        post(f"{P}/binding", _binding()),
        post(f"{P}/binding", _binding(target={"kind": "Node", "name": "node-2"})),
        post(f"{PODS}/absent/binding", _binding("absent")),
        post(f"{P}/binding", _binding("other")),
        post(PODS, pod("q")),
        post(f"{PODS}/q/binding", _binding("q", {})),
        post(f"{PODS}/q/binding", _binding("q", {"kind": "Pod", "name": "n"})),
        post(f"{PODS}/q/binding", _binding("q", {"name": "n", "kind": ""})),
        post(f"{PODS}/q/binding", {"kind": "Binding", "apiVersion": "v1"}),
        post(f"{PODS}/q/binding", pod("q")),
        post(f"{PODS}/q/binding", _binding("q", uid="0b0a5a4e-0000-4000-8000-000000000000")),
        post(f"{PODS}/q/binding", _binding("q", resourceVersion="1")),
        post(f"{CORE}/bindings", _binding("q")),
        get(f"{PODS}/q"),
    ),
    sequence(
        "binding-gated",
        post(PODS, pod("p", schedulingGates=[{"name": "example.com/g"}])),
        post(f"{P}/binding", _binding()),
        patch(P, {"spec": {"schedulingGates": None}}),
        post(f"{P}/binding", _binding()),
        get(P),
    ),
    sequence(
        "binding-deleted",
        post(PODS, pod("p", {"finalizers": ["example.com/f"]})),
        delete(P),
        post(f"{P}/binding", _binding()),
        patch(P, {"metadata": {"finalizers": None}}),
        post(f"{P}/binding", _binding()),
    ),
    sequence(
        "eviction-free",
        post(PODS, pod("p")),
        post(f"{P}/eviction", _eviction()),
        get(P),
        post(PODS, pod("q")),
        *_running("q"),
        post(f"{PODS}/q/eviction", _eviction("q")),
        get(f"{PODS}/q"),
        post(f"{PODS}/q/eviction", _eviction("q")),
        post(f"{PODS}/absent/eviction", _eviction("absent")),
        post(f"{PODS}/q/eviction", _eviction("other")),
        post(f"{PODS}/q/eviction", pod("q")),
        post(f"{PODS}/q/eviction", {}),
        post(f"{PODS}/q/eviction", _eviction("q", deleteOptions={"gracePeriodSeconds": 0})),
        get(f"{PODS}/q"),
    ),
    sequence(
        "eviction-budget",
        post(f"{POLICY}/poddisruptionbudgets", _budget(minAvailable=2)),
        *[post(PODS, _labelled(name)) for name in ("p", "q", "r")],
        *_running("p"), *_running("q"), *_running("r"),
        post(f"{P}/eviction", _eviction()),
        _allowed(0),
        post(f"{P}/eviction", _eviction()),
        post(f"{P}/eviction?dryRun=All", _eviction()),
        _allowed(1),
        post(f"{P}/eviction?dryRun=All", _eviction()),
        post(f"{P}/eviction", _eviction()),
        get(f"{POLICY}/poddisruptionbudgets/b"),
        post(f"{PODS}/q/eviction", _eviction("q")),
        _allowed(-1),
        post(f"{PODS}/q/eviction", _eviction("q")),
        get(f"{PODS}/q"),
    ),
    sequence(
        "eviction-budget-observed",
        post(f"{POLICY}/poddisruptionbudgets", _budget(maxUnavailable=0)),
        post(PODS, _labelled()),
        *_running(),
        _allowed(0, desiredHealthy=3, currentHealthy=2),
        post(f"{P}/eviction", _eviction()),
        _allowed(1, observedGeneration=0),
        post(f"{P}/eviction", _eviction()),
        _allowed(1, conditions=[{"type": "DisruptionAllowed", "status": "False", "reason": "x", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"}]),
        post(f"{P}/eviction", _eviction()),
        patch(f"{POLICY}/poddisruptionbudgets/b/status", {"status": {"disruptionsAllowed": 0, "conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "found no controllers", "lastTransitionTime": "2020-01-01T00:00:00Z"}]}}),
        post(f"{P}/eviction", _eviction()),
    ),
    sequence(
        "eviction-unhealthy",
        post(f"{POLICY}/poddisruptionbudgets", _budget(minAvailable=2)),
        post(PODS, _labelled("p")),
        post(PODS, _labelled("q")),
        *_running("p", ready=False),
        _allowed(0, currentHealthy=1),
        post(f"{P}/eviction", _eviction()),
        _allowed(0, currentHealthy=2),
        post(f"{P}/eviction", _eviction()),
        post(f"{PODS}/q/eviction", _eviction("q")),
        post(PODS, _labelled("r")),
        *_running("r", ready=False),
        patch(f"{POLICY}/poddisruptionbudgets/b", {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}),
        _allowed(0, currentHealthy=0, observedGeneration=2),
        post(f"{PODS}/r/eviction", _eviction("r")),
        post(PODS, _labelled("s")),
        post(f"{PODS}/s/binding", _binding("s")),
        patch(f"{PODS}/s/status", {"status": {"phase": "Succeeded"}}),
        post(f"{PODS}/s/eviction", _eviction("s")),
    ),
    sequence(
        "eviction-two-budgets",
        post(f"{POLICY}/poddisruptionbudgets", _budget(minAvailable=1)),
        post(f"{POLICY}/poddisruptionbudgets", {**_budget(minAvailable=1), "metadata": {"name": "c"}}),
        post(PODS, _labelled()),
        *_running(),
        post(f"{P}/eviction", _eviction()),
    ),
    sequence(
        "eviction-preconditions",
        saving(post(PODS, pod("p")), uid="metadata.uid"),
        *_running(),
        post(f"{P}/eviction", _eviction(deleteOptions={"preconditions": {"uid": "0b0a5a4e-0000-4000-8000-000000000000"}})),
        post(f"{P}/eviction", _eviction(deleteOptions={"preconditions": {"resourceVersion": "1"}})),
        post(f"{P}/eviction", _eviction(deleteOptions={"preconditions": {"uid": "{{uid}}"}, "gracePeriodSeconds": 3})),
        get(P),
    ),
    sequence(
        "status-pod",
        post(PODS, {**pod("p"), "status": {"phase": "Running"}}),
        rv(patch(f"{P}/status", {"status": {"phase": "Running", "podIP": "10.1.1.1", "conditions": [{"type": "Ready", "status": "True"}]}})),
        patch(f"{P}/status", {"status": {"conditions": [{"type": "Other", "status": "False"}]}}, STRATEGIC),
        patch(f"{P}/status", {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}, STRATEGIC),
        patch(f"{P}/status", {"spec": {"nodeName": "n"}, "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "status": {"message": "m"}}),
        put(f"{P}/status", {**pod("p", {"resourceVersion": "{{rv}}"}), "status": {"phase": "Failed"}}),
        put(f"{P}/status", {**pod("p"), "status": {"phase": "Failed", "containerStatuses": [{"name": "main", "image": "i", "imageID": "x", "ready": False, "restartCount": 1, "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}}),
        get(f"{P}/status"),
        patch(f"{P}/status", {"status": {"phase": "Odd", "podIP": "x", "qosClass": "Guaranteed"}}),
        patch(f"{P}/status", {"status": {"qosClass": "Guaranteed"}}),
        patch(f"{P}/status", {"status": {"nominatedNodeName": "n n"}}),
        patch(f"{P}/status", {"status": {"unknown": 1}}),
        patch(f"{P}/status?fieldValidation=Strict", {"status": {"unknown": 1}}),
        patch(f"{PODS}/absent/status", {"status": {}}),
        post(f"{P}/status", pod("p")),
        delete(f"{P}/status"),
        patch(f"{P}/status", [{"op": "add", "path": "/status/reason", "value": "r"}], JSON_PATCH),
    ),
    sequence(
        "status-workloads",
        post(DEPLOYMENTS, deployment("d")),
        put(f"{D}/status", {**deployment("d", 9), "status": {"replicas": 2, "readyReplicas": 1, "observedGeneration": 1, "conditions": [{"type": "Available", "status": "False", "reason": "r", "message": "m"}]}}),
        patch(f"{D}/status", {"status": {"readyReplicas": 5}}),
        patch(f"{D}/status", {"status": {"replicas": -1}}),
        patch(f"{D}/status", {"spec": {"replicas": 7}}),
        post(f"{BATCH}/jobs", {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": {"containers": [{"name": "m", "image": "i"}], "restartPolicy": "Never"}}}}),
        patch(f"{BATCH}/jobs/j/status", {"status": {"active": 1, "startTime": "2020-01-01T00:00:00Z"}}),
        patch(f"{BATCH}/jobs/j/status", {"status": {"active": 0, "succeeded": 1, "completionTime": "2020-01-01T00:01:00Z", "conditions": [{"type": "Complete", "status": "True"}]}}),
        patch(f"{BATCH}/jobs/j/status", {"status": {"active": 0, "succeeded": 1, "completionTime": "2020-01-01T00:01:00Z", "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]}}),
        get(f"{BATCH}/jobs/j/status"),
        post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "{{seq}}"}}),
        patch("/api/v1/nodes/{{seq}}/status", {"status": {"capacity": {"cpu": "4", "example.com/x": "1"}, "allocatable": {"cpu": "x"}}}),
        patch("/api/v1/nodes/{{seq}}/status", {"status": {"capacity": {"cpu": "4", "example.com/x": "1.5"}}}),
        patch("/api/v1/nodes/{{seq}}/status", {"status": {"capacity": {"cpu": "4", "memory": "8Gi", "kubernetes.io/batch-cpu": "4000"}, "images": [{"names": ["a"], "sizeBytes": 5}]}}),
        patch("/api/v1/namespaces/{{ns}}/status", {"status": {"conditions": [{"type": "X", "status": "True"}]}}),
    ),
    sequence(
        "scale",
        post(DEPLOYMENTS, deployment("d", 3)),
        rv(get(f"{D}/scale")),
        patch(f"{D}/scale", {"spec": {"replicas": 5}}),
        get(D),
        put(f"{D}/scale", {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d", "resourceVersion": "{{rv}}"}, "spec": {"replicas": 6}}),
        put(f"{D}/scale", {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 6}}),
        put(f"{D}/scale", {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "other"}, "spec": {"replicas": 6}}),
        patch(f"{D}/scale", {"spec": {"replicas": -1}}),
        patch(f"{D}/scale", {"spec": {"replicas": "x"}}),
        patch(f"{D}/scale", {"spec": {}, "status": {"replicas": 99}}),
        patch(f"{D}/scale", {"spec": None}),
        patch(f"{D}/scale", [{"op": "replace", "path": "/spec/replicas", "value": 2}], JSON_PATCH),
        patch(f"{D}/scale", {"spec": {"replicas": 4}}, STRATEGIC),
        patch(f"{D}/scale?dryRun=All", {"spec": {"replicas": 44}}),
        put(f"{D}/scale", deployment("d")),
        get(f"{DEPLOYMENTS}/absent/scale"),
        patch(f"{DEPLOYMENTS}/absent/scale", {"spec": {"replicas": 1}}),
        patch(f"{D}/status", {"status": {"replicas": 4}}),
        get(f"{D}/scale"),
        *[
            step
            for plural, kind in (("replicasets", "ReplicaSet"), ("statefulsets", "StatefulSet"))
            for step in (
                post(f"{APPS}/{plural}", {**deployment("d", 1), "kind": kind, "spec": {**deployment("d", 1)["spec"], **({"serviceName": "s"} if kind == "StatefulSet" else {})}}),
                patch(f"{APPS}/{plural}/d/scale", {"spec": {"replicas": 2}}),
                get(f"{APPS}/{plural}/d"),
            )
        ],
        get(f"{APPS}/daemonsets/d/scale"),
    ),
    sequence(
        "ephemeral-containers",
        post(PODS, pod("p")),
        get(f"{P}/ephemeralcontainers"),
        patch(f"{P}/ephemeralcontainers", {"spec": {"ephemeralContainers": [{"name": "debug", "image": "example/debug", "targetContainerName": "main"}]}}, STRATEGIC),
        patch(f"{P}/ephemeralcontainers", {"spec": {"ephemeralContainers": [{"name": "debug", "image": "example/other"}]}}, STRATEGIC),
        patch(f"{P}/ephemeralcontainers", {"spec": {"ephemeralContainers": []}}, MERGE),
        patch(f"{P}/ephemeralcontainers", {"spec": {"ephemeralContainers": [{"name": "main", "image": "x"}]}}, STRATEGIC),
        patch(f"{P}/ephemeralcontainers", {"metadata": {"labels": {"a": "b"}}}, STRATEGIC),
    ),
    sequence(
        "resize",
        post(PODS, pod("p", containers=[{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}])),
        patch(P, {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}}}]}}, STRATEGIC),
        patch(f"{P}/resize", {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}}}]}}, STRATEGIC),
        *_running("p"),
        patch(f"{P}/resize", {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}}}]}}, STRATEGIC),
        patch(f"{P}/resize", {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]}}, STRATEGIC),
        patch(f"{P}/resize", {"spec": {"containers": [{"name": "main", "image": "j"}]}}, STRATEGIC),
        patch(f"{P}/resize", {"spec": {"containers": [{"name": "main", "resources": {"requests": None, "limits": None}}]}}, STRATEGIC),
    ),
    sequence(
        "logs",
        post(PODS, pod("p")),
        get(f"{P}/log"),
        get(f"{P}/log?container=absent"),
        get(f"{P}/log?tailLines=-1"),
        get(f"{P}/log?sinceSeconds=0"),
        get(f"{P}/log?sinceSeconds=1&sinceTime=2020-01-01T00:00:00Z"),
        get(f"{P}/log?limitBytes=0"),
        get(f"{PODS}/absent/log"),
        post(PODS, pod("two", containers=[{"name": "a", "image": "i"}, {"name": "b", "image": "i"}], initContainers=[{"name": "c", "image": "i"}])),
        get(f"{PODS}/two/log"),
        get(f"{PODS}/two/log?container=c"),
        post(f"{P}/binding", _binding(target={"kind": "Node", "name": "{{seq}}-absent"})),
        get(f"{P}/log"),
    ),
    sequence(
        "namespace-finalize",
        post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "{{seq}}-n"}}),
        put("/api/v1/namespaces/{{seq}}-n/finalize", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "{{seq}}-n"}, "spec": {"finalizers": []}}),
        delete("/api/v1/namespaces/{{seq}}-n"),
        get("/api/v1/namespaces/{{seq}}-n"),
        post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "{{seq}}-m"}}),
        delete("/api/v1/namespaces/{{seq}}-m"),
        put("/api/v1/namespaces/{{seq}}-m/finalize", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "{{seq}}-m"}, "spec": {"finalizers": []}}),
        get("/api/v1/namespaces/{{seq}}-m"),
    ),
]  # fmt: skip
