"""What spans objects: namespaces that end, priority classes that pods take, defaults that admission gives."""

# ruff: noqa: E501 - a request is a row of a table

from __future__ import annotations

from typing import Any

from tests.minicluster.apiserver.differential.steps import (
    CORE,
    apply,
    config_map,
    delete,
    get,
    patch,
    pod,
    post,
    put,
    sequence,
)

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PODS = f"{CORE}/pods"
NAMESPACES = "/api/v1/namespaces"


def _class(name: str, value: int, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


def _namespace(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}


MADE = ("kind", "metadata.name", "metadata.labels", "metadata.managedFields", "spec", "status")
"What is the same however a cluster began: not the order in which it made its own namespaces."

SEQUENCES = [
    sequence(
        "namespace-life",
        post(NAMESPACES, _namespace("{{seq}}-n", labels={"a": "b"})),
        post(f"{NAMESPACES}/{{{{seq}}}}-n/configmaps", config_map("a")),
        patch(f"{NAMESPACES}/{{{{seq}}}}-n", {"metadata": {"labels": {"kubernetes.io/metadata.name": "lie"}}}),
        patch(f"{NAMESPACES}/{{{{seq}}}}-n", {"spec": {"finalizers": ["example.com/more"]}}),
        put(f"{NAMESPACES}/{{{{seq}}}}-n", _namespace("{{seq}}-n")),
        delete(f"{NAMESPACES}/{{{{seq}}}}-n"),
        get(f"{NAMESPACES}/{{{{seq}}}}-n"),
        post(f"{NAMESPACES}/{{{{seq}}}}-n/configmaps", config_map("b"), until={"code": 403}),
        apply(f"{NAMESPACES}/{{{{seq}}}}-n/configmaps/c", config_map("c")),
        patch(f"{NAMESPACES}/{{{{seq}}}}-n/configmaps/a", {"data": {"still": "allowed"}}),
        post(f"{NAMESPACES}/{{{{seq}}}}-n/pods", pod("p")),
        delete(f"{NAMESPACES}/{{{{seq}}}}-n"),
        post(NAMESPACES, _namespace("{{seq}}-n")),
        delete(f"{NAMESPACES}/{{{{seq}}}}-n/configmaps/a"),
        delete(NAMESPACES),
    ),
    sequence(
        "namespace-protected",
        delete(f"{NAMESPACES}/default"),
        delete(f"{NAMESPACES}/kube-system"),
        delete(f"{NAMESPACES}/kube-public"),
        get(f"{NAMESPACES}/default", only=MADE),
        get(f"{NAMESPACES}/kube-system", only=MADE),
        get(f"{NAMESPACES}/kube-node-lease", only=MADE),
        get("/api/v1/namespaces/default/services/kubernetes", only=("metadata.labels", "spec.type", "spec.ports.0.name", "spec.ports.0.port")),
    ),
    sequence(
        "priorities",
        post(CLASSES, _class("{{seq}}-high", 1000)),
        post(PODS, pod("a", priorityClassName="{{seq}}-high"), until={"code": 201}),
        post(CLASSES, _class("{{seq}}-never", 10, preemptionPolicy="Never")),
        post(PODS, pod("b", priorityClassName="{{seq}}-never"), until={"code": 201}),
        post(PODS, pod("c", priorityClassName="{{seq}}-high", priority=5)),
        post(PODS, pod("d", priorityClassName="{{seq}}-high", priority=1000)),
        post(PODS, pod("e", priorityClassName="{{seq}}-high", preemptionPolicy="Never")),
        post(PODS, pod("f", priorityClassName="{{seq}}-absent")),
        post(PODS, pod("g", preemptionPolicy="Never")),
        post(PODS, pod("h", priorityClassName="system-node-critical")),
        post(PODS, pod("i", priority=0)),
        patch(f"{PODS}/a", {"spec": {"priority": 7}}),
        patch(f"{CLASSES}/{{{{seq}}}}-high", {"value": 2000}),
        patch(f"{CLASSES}/{{{{seq}}}}-high", {"preemptionPolicy": "Never"}),
        patch(f"{CLASSES}/{{{{seq}}}}-high", {"description": "fine"}),
        post(CLASSES, _class("system-mine", 5)),
        post(CLASSES, _class("{{seq}}-huge", 2_000_000_000)),
        post(CLASSES, _class("{{seq}}-negative", -5)),
        get(f"{CLASSES}/system-cluster-critical", only=("kind", "metadata.name", "metadata.managedFields.0.manager", "value", "globalDefault", "preemptionPolicy")),
        delete(f"{CLASSES}/system-cluster-critical?dryRun=All"),
        delete(f"{CLASSES}/{{{{seq}}}}-high"),
        get(f"{PODS}/a"),
    ),
    sequence(
        "pod-defaults",
        post(PODS, pod("guaranteed", containers=[{"name": "a", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}])),
        post(PODS, pod("burstable", containers=[{"name": "a", "image": "i:v1", "resources": {"requests": {"cpu": "100m"}}}])),
        post(PODS, pod("host", hostNetwork=True, containers=[{"name": "a", "image": "i@sha256:" + "0" * 64, "ports": [{"containerPort": 80}]}])),
        post(PODS, pod("tolerant", tolerations=[{"operator": "Exists"}])),
        post(PODS, pod("account", serviceAccount="robot")),
        post(PODS, pod("sidecar", initContainers=[{"name": "s", "image": "i", "restartPolicy": "Always", "livenessProbe": {"tcpSocket": {"port": 1}}}])),
        post(PODS, pod("extended", containers=[{"name": "a", "image": "i", "resources": {"limits": {"example.com/gpu": "1", "hugepages-2Mi": "4Mi", "cpu": "1", "memory": "1Gi"}}}])),
        post(PODS, pod("pod-level", resources={"requests": {"cpu": "1"}, "limits": {"cpu": "2"}})),
        post(PODS, pod("precision", containers=[{"name": "a", "image": "i", "resources": {"requests": {"cpu": "0.0001", "memory": "1.5Gi", "ephemeral-storage": "1000000Ki"}, "limits": {"memory": "2e9"}}}])),
    ),
    sequence(
        "limits-and-quotas",
        post(f"{CORE}/limitranges", {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "1"}, "min": {"cpu": "50m"}}]}}),
        get(f"{CORE}/limitranges/l"),
    ),
]  # fmt: skip
