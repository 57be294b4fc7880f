"""Parts of a pod that have a subresource of their own: resources (resize) and ephemeral containers; and which methods
a path takes."""

# ruff: noqa: E501 - a request is a row of a table

from __future__ import annotations

from typing import Any

from tests.minicluster.apiserver.differential.steps import (
    CORE,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Step,
    apply,
    delete,
    get,
    patch,
    pod,
    post,
    put,
    sequence,
)

PODS = f"{CORE}/pods"
P = f"{PODS}/p"
RESIZE = f"{P}/resize"
DEBUG = f"{P}/ephemeralcontainers"


def _container(name: str = "main", **resources: Any) -> dict[str, Any]:
    return {"name": name, "image": "example/image:1", **({"resources": resources} if resources else {})}


def _resized(name: str = "main", group: str = "containers", **resources: Any) -> Step:
    return patch(RESIZE, {"spec": {group: [{"name": name, "resources": resources}]}}, STRATEGIC)


BURSTABLE = _container(requests={"cpu": "1"}, limits={"cpu": "2"})

SEQUENCES = [
    sequence(
        "resize-what-may-change",
        post(PODS, pod("p", containers=[BURSTABLE])),
        get(RESIZE),
        _resized(requests={"cpu": "1500m"}),
        _resized(requests={"memory": "1Gi"}),
        _resized(limits={"cpu": "2", "memory": "1Gi"}, requests={"cpu": "2", "memory": "1Gi"}),
        _resized(requests={"cpu": "3"}),
        _resized(requests={"ephemeral-storage": "1Gi"}),
        patch(RESIZE, {"spec": {"containers": [{"name": "main", "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}]}}, STRATEGIC),
        patch(RESIZE, {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["example.com/f"]}, "spec": {"activeDeadlineSeconds": 5}, "status": {"phase": "Failed"}}, STRATEGIC),
        get(P),
    ),
    sequence(
        "resize-removals",
        post(PODS, pod("p", containers=[BURSTABLE])),
        patch(RESIZE, [{"op": "remove", "path": "/spec/containers/0/resources/limits"}], JSON_PATCH),
        patch(RESIZE, [{"op": "remove", "path": "/spec/containers/0/resources"}], JSON_PATCH),
        patch(RESIZE, [{"op": "add", "path": "/spec/containers/-", "value": _container("other")}], JSON_PATCH),
        patch(RESIZE, [{"op": "replace", "path": "/spec/containers/0/name", "value": "other"}], JSON_PATCH),
        patch(RESIZE, {"spec": {"containers": None}}, MERGE),
        put(RESIZE, pod("p", containers=[_container(requests={"cpu": "100m"}, limits={"cpu": "1"})])),
        put(RESIZE, pod("p", containers=[_container()])),
        put(f"{PODS}/absent/resize", pod("absent")),
        delete(RESIZE),
        post(RESIZE, pod("p")),
    ),
    sequence(
        "resize-kinds-of-containers",
        post(PODS, pod("p", containers=[BURSTABLE], initContainers=[_container("once", requests={"cpu": "1"}), {**_container("beside", requests={"cpu": "1"}), "restartPolicy": "Always"}])),
        _resized("once", "initContainers", requests={"cpu": "2"}),
        _resized("beside", "initContainers", requests={"cpu": "2"}),
        _resized("beside", "initContainers", requests={"ephemeral-storage": "1Gi"}),
        patch(RESIZE, [{"op": "remove", "path": "/spec/initContainers/1/resources/requests/cpu"}], JSON_PATCH),
    ),
    sequence(
        "resize-qos",
        post(PODS, pod("p")),
        _resized(requests={"cpu": "1"}),
        post(PODS, pod("q", containers=[_container(requests={"cpu": "1", "memory": "1Gi"}, limits={"cpu": "1", "memory": "1Gi"})])),
        patch(f"{PODS}/q/resize", {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "2"}}}]}}, STRATEGIC),
        patch(f"{PODS}/q/resize", {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}}]}}, STRATEGIC),
    ),
    sequence(
        "resize-nodes",
        post(PODS, pod("p", containers=[BURSTABLE])),
        patch(f"{P}/status", {"status": {"containerStatuses": [{"name": "main", "image": "i", "imageID": "", "ready": True, "restartCount": 0, "state": {"running": {}}}]}}, MERGE),
        _resized(requests={"cpu": "1500m"}),
        patch(f"{P}/status", {"status": {"containerStatuses": [{"name": "main", "image": "i", "imageID": "", "ready": True, "restartCount": 0, "state": {"running": {}}, "resources": {}}]}}, MERGE),
        patch(RESIZE, {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1500m"}}}]}}, STRATEGIC),
        post(PODS, pod("mirror", {"annotations": {"kubernetes.io/config.mirror": "x"}}, nodeName="n")),
    ),
    sequence(
        "ephemeral-containers-added",
        post(PODS, pod("p")),
        patch(DEBUG, {"spec": {"ephemeralContainers": [{"name": "first", "image": "example/debug"}]}}, STRATEGIC),
        patch(DEBUG, {"spec": {"ephemeralContainers": [{"name": "second", "image": "example/debug", "ports": [{"containerPort": 1}], "resources": {"limits": {"cpu": "1"}}}]}}, STRATEGIC),
        patch(DEBUG, {"spec": {"activeDeadlineSeconds": 3, "ephemeralContainers": [{"name": "second", "image": "example/debug", "targetContainerName": "absent"}]}}, STRATEGIC),
        apply(DEBUG, {"apiVersion": "v1", "kind": "Pod", "spec": {"ephemeralContainers": [{"name": "second", "image": "example/debug"}]}}),
        patch(DEBUG, {"spec": {"ephemeralContainers": [{"name": "third"}]}}, STRATEGIC),
        put(DEBUG, pod("p")),
        delete(DEBUG),
        get(f"{PODS}/absent/ephemeralcontainers"),
    ),
    sequence(
        "bindings-old-form",
        post(PODS, pod("p")),
        post(f"{CORE}/bindings", {"apiVersion": "v1", "kind": "Binding", "metadata": {}, "target": {"kind": "Node", "name": "n"}}),
        post(f"{CORE}/bindings", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "absent"}, "target": {"kind": "Node", "name": "n"}}),
        post(f"{CORE}/bindings", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Pod"}}),
        post(f"{CORE}/bindings", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p", "namespace": "other"}, "target": {"kind": "Node", "name": "n"}}),
        post(f"{CORE}/bindings", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}),
        get(P),
        get(f"{CORE}/bindings"),
        get(f"{CORE}/bindings/p"),
        delete(f"{CORE}/bindings/p"),
        get("/api/v1/bindings"),
    ),
    sequence(
        "methods-of-paths",
        post(PODS, pod("p")),
        *[Step(method, path) for path in (PODS, P, f"{P}/status", "/api/v1/pods", "/api/v1/nodes") for method in ("HEAD", "OPTIONS", "TRACE")],
        post("/api/v1/pods", pod("q")),
        delete("/api/v1/pods"),
        put("/api/v1/nodes", {}),
        get("/api/v1/pods/p"),
        get(f"{CORE}/nodes"),
        get(f"{CORE}/nodes/n"),
        delete(f"{P}/status"),
        post(f"{P}/status", {}),
        get(f"{P}/eviction"),
        delete(f"{P}/log"),
        get(f"{P}/log/x"),
        get(f"{P}/status/x"),
        post("/api/v1/namespaces/{{ns}}/finalize", {}),
        get("/api/v1/namespaces/{{ns}}/finalize"),
        get("/api/v1/namespaces/{{ns}}/status"),
        patch("/api/v1/namespaces/{{ns}}/status", {"spec": {"finalizers": []}, "status": {"conditions": [{"type": "Seen", "status": "True", "lastTransitionTime": None, "reason": "r", "message": "m"}]}}, MERGE),
        post("/version", {}),
        delete("/api/v1"),
        post("/apis/apps/v1", {}),
        post("/api", {}),
        get("/api/v2/pods"),
        get("/apis/apps/v1/nothings"),
        get("/apis/apps/"),
        get("/version/", only=("major", "minor")),
        Step("HEAD", "/healthz"),
        delete("/healthz"),
    ),
]  # fmt: skip
