"""ResourceQuotas: what they count, in which scopes, and what they refuse."""

from __future__ import annotations

from typing import Any

from tests.minicluster.apiserver.differential.steps import (
    APPS,
    CORE,
    Step,
    apply,
    config_map,
    delete,
    deployment,
    get,
    patch,
    post,
    sequence,
)

RQ, PODS, PVC, SERVICES = (
    f"{CORE}/{plural}" for plural in ("resourcequotas", "pods", "persistentvolumeclaims", "services")
)
USED = get(f"{RQ}/q", only=("status",))


def _quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> list[Step]:
    """A quota that is known to be used this much; nothing, if not said."""
    status = {"hard": hard, "used": used if used is not None else dict.fromkeys(hard, "0")}
    return [
        post(
            RQ, {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}
        ),
        patch(f"{RQ}/q/status", {"status": status}),
        get(f"{RQ}?resourceVersion=0", until={"items.0.status.hard": hard}, only=("kind",)),
    ]


def _pod(name: str, *resources: dict[str, Any] | None, **spec: Any) -> Step:
    """A pod with as many containers."""
    containers = [
        {"name": f"c{i}", "image": "i"} | ({"resources": resource} if resource else {})
        for i, resource in enumerate(resources)
    ]
    return post(
        PODS,
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}},
    )


def _claim(name: str, size: str, **more: Any) -> Step:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **more}
    return post(PVC, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec})


def _service(name: str, **spec: Any) -> Step:
    return post(
        SERVICES,
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 1}], **spec}},
    )


def _config_map(name: str) -> Step:
    return post(f"{CORE}/configmaps", config_map(name))


SEQUENCES = [
    sequence(
        "quota-pods",
        *_quota({"pods": "2"}),
        _pod("a", None),
        USED,
        _pod("b", None),
        _pod("c", None),
        USED,
        delete(PODS + "/a?gracePeriodSeconds=0"),
        _pod("d", None),
        post(
            PODS + "?dryRun=All",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "z"},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        ),
        patch(PODS + "/b", {"metadata": {"labels": {"a": "b"}}}),
    ),
    sequence(
        "quota-compute",
        *_quota({"requests.cpu": "1", "limits.memory": "1Gi"}),
        _pod("a", None),
        _pod("b", {"requests": {"cpu": "600m"}, "limits": {"memory": "512Mi"}}),
        USED,
        _pod("c", {"requests": {"cpu": "600m"}, "limits": {"memory": "256Mi"}}),
        _pod("d", {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}),
        _pod("e", {"requests": {"cpu": "100m"}}, {"limits": {"memory": "1Mi"}}),
        _pod("f", {"requests": {"cpu": "400m"}, "limits": {"memory": "512Mi"}}),
        USED,
    ),
    sequence(
        "quota-counts",
        *_quota({"configmaps": "2", "count/secrets": "1", "count/deployments.apps": "1"}),
        _config_map("a"),
        _config_map("b"),
        _config_map("c"),
        post(f"{CORE}/secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
        post(f"{CORE}/secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b"}}),
        post(f"{APPS}/deployments", deployment("a")),
        post(f"{APPS}/deployments", deployment("b")),
        apply(f"{APPS}/deployments/c", deployment("c"), "m"),
        USED,
    ),
    sequence(
        "quota-claims",
        *_quota(
            {
                "persistentvolumeclaims": "2",
                "requests.storage": "3Gi",
                "gold.storageclass.storage.k8s.io/requests.storage": "1Gi",
            }
        ),
        _claim("a", "1Gi"),
        _claim("b", "1Gi", storageClassName="gold"),
        _claim("c", "1Gi"),
        USED,
        delete(PVC + "/a"),
        _claim("d", "4Gi"),
    ),
    sequence(
        "quota-services",
        *_quota({"services": "3", "services.nodeports": "1", "services.loadbalancers": "0"}),
        _service("a"),
        _service("b", type="NodePort"),
        _service("c", type="NodePort"),
        _service("d", type="LoadBalancer"),
        USED,
        patch(SERVICES + "/a", {"spec": {"type": "NodePort"}}),
        patch(SERVICES + "/a", {"metadata": {"labels": {"x": "y"}}}),
    ),
    sequence(
        "quota-scopes",
        *_quota({"pods": "1"}, scopes=["BestEffort"]),
        _pod("a", None),
        _pod("b", None),
        _pod("c", {"requests": {"cpu": "1"}}),
        _config_map("x"),
        USED,
    ),
    sequence(
        "quota-unknown",
        *_quota({"pods": "1", "configmaps": "1"}, used={"configmaps": "0"}),
        _pod("a", None),
        _config_map("a"),
        _config_map("b"),
    ),
    sequence(
        "quota-priority",
        *_quota(
            {"pods": "1"},
            scopeSelector={
                "matchExpressions": [
                    {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
                ]
            },
        ),
        _pod("a", None),
        _pod("b", None, priorityClassName="system-cluster-critical"),
        USED,
    ),
    sequence(
        "quota-inactive",
        post(
            RQ,
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}},
        ),
        _pod("a", None),
        get(RQ + "/q"),
    ),
    sequence(
        "quota-extended",
        *_quota({"requests.e.com/gpu": "1", "requests.hugepages-2Mi": "4Mi"}),
        _pod("a", {"limits": {"e.com/gpu": "2"}}),
        _pod("b", {"limits": {"e.com/gpu": "1", "hugepages-2Mi": "2Mi", "memory": "1Gi", "cpu": "1"}}),
        _pod("c", {"limits": {"e.com/gpu": "1"}}),
        USED,
    ),
]
