"""Objects that patches are tried on: one of each kind whose lists and maps merge in their own way."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]

META: Obj = {
    "namespace": "default",
    "labels": {"app": "web", "tier": "front"},
    "annotations": {"note": "one"},
}

POD_SPEC: Obj = {
    "containers": [
        {
            "name": "web",
            "image": "web:1",
            "args": ["-a", "-b"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "ports": [{"name": "http", "containerPort": 80}, {"name": "https", "containerPort": 443}],
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "tmp", "mountPath": "/tmp"}],
        },
        {"name": "side", "image": "side:1"},
    ],
    "volumes": [{"name": "data", "emptyDir": {"medium": "Memory"}}, {"name": "tmp", "emptyDir": {}}],
    "tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}],
    "nodeSelector": {"disk": "ssd"},
    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["one"]}, {"ip": "10.0.0.2", "hostnames": ["two"]}],
    "imagePullSecrets": [{"name": "s1"}, {"name": "s2"}],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ],
}

BASES: dict[str, tuple[str, Obj]] = {
    "podtemplate": (
        "/api/v1/namespaces/default/podtemplates",
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {
                **META,
                "name": "base",
                "finalizers": ["example.com/a", "example.com/b", "example.com/c"],
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "o1", "uid": "u1"},
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "o2", "uid": "u2"},
                ],
            },
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": POD_SPEC},
        },
    ),
    "deployment": (
        "/apis/apps/v1/namespaces/default/deployments",
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {**META, "name": "base"},
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": {"app": "web"}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": POD_SPEC},
            },
        },
    ),
    "service": (
        "/api/v1/namespaces/default/services",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {**META, "name": "base"},
            "spec": {
                "selector": {"app": "web"},
                "clusterIP": "None",
                "ports": [
                    {"name": "http", "port": 80, "targetPort": "http"},
                    {"name": "https", "port": 443, "targetPort": 8443},
                ],
            },
        },
    ),
    "configmap": (
        "/api/v1/namespaces/default/configmaps",
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**META, "name": "base"},
            "data": {"a": "1", "b": "2"},
        },
    ),
    "serviceaccount": (
        "/api/v1/namespaces/default/serviceaccounts",
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {**META, "name": "base"},
            "secrets": [{"name": "x", "namespace": "default"}, {"name": "y"}],
            "imagePullSecrets": [{"name": "s1"}],
        },
    ),
    "pdb": (
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {**META, "name": "base"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web", "tier": "front"}}},
        },
    ),
    "node": (
        "/api/v1/nodes",
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "base", "labels": {"zone": "a"}},
            "spec": {
                "taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute"}],
                "unschedulable": True,
            },
            "status": {
                "capacity": {"cpu": "4", "memory": "8Gi"},
                "conditions": [
                    {"type": "Ready", "status": "True", "reason": "Fine"},
                    {"type": "DiskPressure", "status": "False"},
                ],
                "addresses": [
                    {"type": "InternalIP", "address": "10.0.0.9"},
                    {"type": "Hostname", "address": "base"},
                ],
            },
        },
    ),
}
