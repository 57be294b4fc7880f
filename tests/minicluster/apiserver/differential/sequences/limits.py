"""What a namespace's LimitRanges, and the RuntimeClasses of a cluster, make of pods and claims."""

from __future__ import annotations

from typing import Any

from tests.minicluster.apiserver.differential.steps import CORE, Step, patch, post, sequence

PODS, PVC = f"{CORE}/pods", f"{CORE}/persistentvolumeclaims"


def _range(name: str, *limits: dict[str, Any]) -> Step:
    return post(
        f"{CORE}/limitranges",
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": list(limits)}},
    )


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


def _runtime(name: str, **parts: Any) -> Step:
    meta = {"name": f"{{{{seq}}}}-{name}"}
    return post(
        "/apis/node.k8s.io/v1/runtimeclasses",
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": meta, "handler": "h", **parts},
    )


def _claim(name: str, size: str) -> Step:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return post(PVC, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec})


SEQUENCES = [
    sequence(
        "limits-container",
        _range(
            "l",
            {
                "type": "Container",
                "max": {"cpu": "2"},
                "min": {"cpu": "100m"},
                "default": {"cpu": "1", "memory": "1Gi"},
                "defaultRequest": {"cpu": "500m"},
            },
        ),
        _pod("a", None),
        _pod("b", {"requests": {"cpu": "50m"}}),
        _pod("c", {"limits": {"cpu": "3"}}),
        _pod("d", {"requests": {"cpu": "1"}, "limits": {"cpu": "1500m", "memory": "2Gi"}}, None),
        _pod("e", None, initContainers=[{"name": "i", "image": "i"}]),
        patch(PODS + "/a", {"metadata": {"labels": {"a": "b"}}}),
        _pod("f", {"limits": {"cpu": "50m"}, "requests": {"cpu": "50m"}}),
    ),
    sequence(
        "limits-pod",
        _range("l", {"type": "Pod", "max": {"memory": "2Gi"}, "min": {"cpu": "1"}}),
        _pod("a", None),
        _pod(
            "b",
            {"requests": {"cpu": "600m"}, "limits": {"memory": "1Gi"}},
            {"requests": {"cpu": "600m"}, "limits": {"memory": "1Gi"}},
        ),
        _pod("c", {"requests": {"cpu": "1"}, "limits": {"memory": "1500Mi"}}, {"limits": {"memory": "1Gi"}}),
        _pod(
            "d",
            {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}},
            initContainers=[
                {"name": "i", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}}
            ],
        ),
    ),
    sequence(
        "limits-ratio",
        _range("l", {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}),
        _pod("a", None),
        _pod("b", {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}),
        _pod("c", {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}),
        _pod("d", {"requests": {"cpu": "1"}}),
        _pod("e", {"limits": {"cpu": "1"}}),
    ),
    sequence(
        "limits-claim",
        _range("l", {"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}, "min": {"storage": "1Gi"}}),
        _claim("a", "512Mi"),
        _claim("b", "3Gi"),
        _claim("c", "1Gi"),
        patch(PVC + "/c", {"metadata": {"labels": {"a": "b"}}}),
    ),
    sequence(
        "runtime-classes",
        _runtime(
            "a",
            overhead={"podFixed": {"cpu": "100m"}},
            scheduling={"nodeSelector": {"k": "v"}, "tolerations": [{"key": "t", "operator": "Exists"}]},
        ),
        _runtime("b"),
        _pod("a", None, runtimeClassName="{{seq}}-a"),
        _pod("b", None, runtimeClassName="{{seq}}-a", nodeSelector={"k": "w"}),
        _pod(
            "c",
            None,
            runtimeClassName="{{seq}}-a",
            nodeSelector={"l": "w"},
            tolerations=[{"key": "t", "operator": "Exists"}, {"key": "u", "operator": "Exists"}],
            overhead={"cpu": "100m"},
        ),
        _pod("d", None, runtimeClassName="{{seq}}-a", overhead={"cpu": "200m"}),
        _pod("e", None, runtimeClassName="{{seq}}-b"),
        _pod("f", None, runtimeClassName="{{seq}}-b", overhead={"cpu": "1"}),
        _pod("g", None, overhead={"cpu": "1"}),
        _pod("h", None, runtimeClassName="{{seq}}-none"),
    ),
]
