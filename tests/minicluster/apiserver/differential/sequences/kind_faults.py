"""Faults that only one kind can have: of limits and quotas, of secrets by their type, of jobs that change."""

from __future__ import annotations

import base64
from typing import Any

from tests.minicluster.apiserver.differential.steps import (
    APPS,
    BATCH,
    CORE,
    MERGE,
    Step,
    delete,
    get,
    patch,
    post,
    put,
    sequence,
)

CONTAINER = {"name": "main", "image": "i"}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [CONTAINER]}}
JOB_TEMPLATE = {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
CERT = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
CONTROLLERS, JOBS, SERVICES = f"{CORE}/replicationcontrollers", f"{BATCH}/jobs", f"{CORE}/services"


def _named(kind: str, name: str, api_version: str = "v1", **parts: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **parts}


def _limits(name: str, *limits: dict[str, Any]) -> Step:
    return post(f"{CORE}/limitranges", _named("LimitRange", name, spec={"limits": list(limits)}))


def _quota(name: str, **spec: Any) -> Step:
    return post(f"{CORE}/resourcequotas", _named("ResourceQuota", name, spec=spec))


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _secret(name: str, kind: str, **data: str) -> Step:
    encoded = {key.replace("_", "."): _encoded(value) for key, value in data.items()}
    return post(f"{CORE}/secrets", _named("Secret", name, type=kind, data=encoded))


SEQUENCES = (
    sequence(
        "limit-ranges",
        _limits("a", {"type": "Odd"}),
        _limits("b", {"type": "Pod", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}),
        _limits("c", {"type": "PersistentVolumeClaim"}),
        _limits("d", {"type": "PersistentVolumeClaim", "min": {"storage": "2Gi"}, "max": {"storage": "1Gi"}}),
        _limits("e", {"type": "Container", "max": {"bogus": "1"}}),
        _limits("f", {"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}),
        _limits(
            "g", {"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}}
        ),
        _limits("h", {"type": "Pod"}, {"type": "Pod"}),
        _limits(
            "i", {"type": "Container", "default": {"example.com/x": "2"}, "defaultRequest": {"example.com/x": "1"}}
        ),
        _limits("j", {"type": "e.com/q", "max": {"cpu": "1"}}),
        _limits("k", {"type": ""}),
        _limits("l", {"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "2"}}),
        _limits(
            "m", {"type": "Container", "max": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}, "default": {"cpu": "1"}}
        ),
    ),
    sequence(
        "quotas",
        _quota("a", hard={"bogus": "1"}),
        _quota("b", scopes=["BestEffort", "NotBestEffort"]),
        _quota("c", scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}),
        _quota(
            "d", scopeSelector={"matchExpressions": [{"scopeName": "Terminating", "operator": "In", "values": ["a"]}]}
        ),
        _quota("e", scopeSelector={"matchExpressions": [{"scopeName": "Odd", "operator": "Odd"}]}),
        _quota(
            "f",
            scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists", "values": ["a"]}]},
        ),
        _quota("g", hard={"configmaps": "1", "pods": "2"}, scopes=["Terminating"]),
        _quota(
            "h",
            hard={"configmaps": "1"},
            scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]},
        ),
        _quota(
            "i",
            hard={
                "requests.e.com/gpu": "1",
                "limits.e.com/gpu": "2",
                "count/pods": "1.5",
                "hugepages-2Mi": "1",
                "requests.hugepages-2Mi": "1",
            },
        ),
        _quota("ok", hard={"pods": "2"}, scopes=["Terminating"]),
        patch(f"{CORE}/resourcequotas/ok", {"spec": {"scopes": ["NotTerminating"]}}, MERGE),
        patch(f"{CORE}/resourcequotas/ok/status", {"status": {"used": {"bogus": "1"}, "hard": {"pods": "1.5"}}}, MERGE),
        patch(f"{CORE}/resourcequotas/ok/status", {"status": {"used": {"pods": "1"}, "hard": {"pods": "2"}}}, MERGE),
        get(f"{CORE}/resourcequotas/ok"),
    ),
    sequence(
        "secret-types",
        _secret("a", "kubernetes.io/tls", tls_crt="", tls_key=""),
        _secret("b", "kubernetes.io/tls", tls_crt=KEY, tls_key=CERT),
        _secret("c", "kubernetes.io/tls", tls_crt=CERT, tls_key="x"),
        _secret("d", "kubernetes.io/tls", tls_crt=CERT, tls_key=CERT),
        _secret("e", "kubernetes.io/tls", tls_crt=CERT.replace("CERTIFICATE", "X"), tls_key=KEY),
        _secret("f", "kubernetes.io/tls", tls_crt=CERT, tls_key=CERT.replace("CERTIFICATE", "X")),
        post(
            f"{CORE}/secrets",
            _named("Secret", "g", type="kubernetes.io/dockercfg", data={".dockercfg": _encoded("[]")}),
        ),
        post(
            f"{CORE}/secrets", _named("Secret", "h", type="kubernetes.io/dockercfg", data={".dockercfg": _encoded("{")})
        ),
        post(
            f"{CORE}/secrets",
            _named("Secret", "i", type="kubernetes.io/dockercfg", data={".dockercfg": _encoded("null")}),
        ),
        post(
            f"{CORE}/secrets",
            _named("Secret", "j", type="kubernetes.io/dockercfg", data={".dockercfg": _encoded("1 x")}),
        ),
        post(f"{CORE}/secrets", _named("Secret", "k", type="kubernetes.io/dockercfg", data={".dockercfg": ""})),
        post(
            f"{CORE}/secrets", _named("Secret", "l", type="kubernetes.io/dockercfg", data={".dockercfg": _encoded("5")})
        ),
    ),
    sequence(
        "replication-controller",
        post(CONTROLLERS, _named("ReplicationController", "a", spec={"template": TEMPLATE})),
        get(CONTROLLERS + "/a/scale"),
        patch(CONTROLLERS + "/a/scale", {"spec": {"replicas": 3}}, MERGE),
        patch(CONTROLLERS + "/a/status", {"status": {"replicas": 1, "readyReplicas": 2}}, MERGE),
        patch(CONTROLLERS + "/a/status", {"status": {"replicas": 2, "readyReplicas": 2}}, MERGE),
        patch(CONTROLLERS + "/a", {"spec": {"selector": {"app": "y"}}}, MERGE),
        patch(CONTROLLERS + "/a", {"spec": {"template": {"metadata": {"labels": {"b": "c"}}}}}, MERGE),
        get(CONTROLLERS + "?fieldSelector=status.replicas%3D2"),
        patch(
            CONTROLLERS + "/a",
            {"spec": {"template": {"spec": {"restartPolicy": "Never", "activeDeadlineSeconds": 3}}}},
            MERGE,
        ),
        delete(CONTROLLERS + "/a?propagationPolicy=Background"),
        post(
            CONTROLLERS,
            _named(
                "ReplicationController",
                "b",
                spec={
                    "selector": {"z": "1", "b": "2"},
                    "template": {"metadata": {"labels": {"z": "2", "a": "1"}}, "spec": {"containers": [CONTAINER]}},
                },
            ),
        ),
    ),
    sequence(
        "job-changes",
        post(JOBS, {**_named("Job", "a", "batch/v1", spec={"template": JOB_TEMPLATE})}),
        patch(JOBS + "/a", {"spec": {"completions": 5}}, MERGE),
        patch(JOBS + "/a", {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}, MERGE),
        patch(JOBS + "/a", {"spec": {"completionMode": "Indexed"}}, MERGE),
        patch(JOBS + "/a", {"spec": {"suspend": True}}, MERGE),
        patch(JOBS + "/a", {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}, MERGE),
        patch(JOBS + "/a", {"spec": {"selector": {"matchLabels": {"q": "r"}}}}, MERGE),
        patch(
            JOBS + "/a",
            {"spec": {"backoffLimit": 9, "ttlSecondsAfterFinished": 1, "activeDeadlineSeconds": 4, "parallelism": 0}},
            MERGE,
        ),
        patch(JOBS + "/a", {"metadata": {"labels": None}}, MERGE),
        delete(JOBS + "/a?propagationPolicy=Orphan"),
        delete(JOBS),
        post(JOBS, _named("Job", "m", "batch/v1", spec={"manualSelector": True, "template": JOB_TEMPLATE})),
        post(
            JOBS,
            _named(
                "Job",
                "n",
                "batch/v1",
                spec={
                    "manualSelector": True,
                    "selector": {"matchLabels": {"z": "1", "a": "2"}},
                    "template": {"metadata": {"labels": {"z": "1", "a": "2"}}, **JOB_TEMPLATE},
                },
            ),
        ),
        post(
            JOBS,
            _named(
                "Job",
                "p",
                "batch/v1",
                spec={
                    "template": {"metadata": {"labels": {"job-name": "other", "controller-uid": "q"}}, **JOB_TEMPLATE}
                },
            ),
        ),
        post(
            JOBS,
            {**_named("Job", "r", "batch/v1", spec={"template": {"metadata": {"labels": {"l": "m"}}, **JOB_TEMPLATE}})},
        ),
        post(JOBS, _named("Job", "Up_", "batch/v1", spec={"template": JOB_TEMPLATE})),
        post(
            JOBS,
            _named(
                "Job",
                "x" * 64,
                "batch/v1",
                spec={"template": JOB_TEMPLATE, "completions": 2, "completionMode": "Indexed"},
            ),
        ),
    ),
    sequence(
        "service-families",
        post(SERVICES, _named("Service", "a", spec={"ports": [{"port": 80}], "clusterIP": "2001:db8::1"})),
        post(SERVICES, _named("Service", "b", spec={"ports": [{"port": 80}], "clusterIP": "256.1.1.1"})),
        post(
            SERVICES,
            _named("Service", "c", spec={"ports": [{"port": 80}], "clusterIP": "None", "clusterIPs": ["1.2.3.4"]}),
        ),
        post(SERVICES, _named("Service", "d", spec={"clusterIP": "None"})),
        post(SERVICES, _named("Service", "e", spec={"ports": [{"port": 80}], "clusterIPs": ["1.2.3.4"]})),
        post(SERVICES, _named("Service", "f", spec={"type": "ExternalName", "externalName": "x.y"})),
        patch(
            SERVICES + "/f",
            {"spec": {"type": "ClusterIP", "externalName": None, "ports": [{"port": 1}], "clusterIP": "9.9.9.9"}},
            MERGE,
        ),
        post(SERVICES, _named("Service", "g", spec={"ports": [{"port": 80}], "ipFamilies": ["IPv6"]})),
        post(SERVICES, _named("Service", "h", spec={"ports": [{"port": 80}], "ipFamilyPolicy": "RequireDualStack"})),
    ),
    sequence(
        "node-ranges",
        post("/api/v1/nodes", _named("Node", "{{seq}}-a", spec={"podCIDRs": ["x", "10.1.0.0/24"]})),
        post("/api/v1/nodes", _named("Node", "{{seq}}-b", spec={"podCIDRs": ["10.1.0.0/24", "fd00::/64"]})),
        post(
            "/api/v1/nodes", _named("Node", "{{seq}}-c", spec={"podCIDRs": ["10.1.0.0/24", "fd00::/64", "fd01::/64"]})
        ),
        post(
            "/api/v1/nodes",
            _named(
                "Node", "{{seq}}-d", spec={"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}
            ),
        ),
        delete("/api/v1/nodes/{{seq}}-b"),
        delete("/api/v1/nodes/{{seq}}-d"),
    ),
    sequence(
        "empty-lists",
        post(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/{{ns}}/roles",
            _named("Role", "a", "rbac.authorization.k8s.io/v1", rules=[]),
        ),
        patch("/apis/rbac.authorization.k8s.io/v1/namespaces/{{ns}}/roles/a", {"rules": []}, MERGE),
        put(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/{{ns}}/roles/a",
            _named("Role", "a", "rbac.authorization.k8s.io/v1", rules=[]),
        ),
        put(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/{{ns}}/roles/a",
            _named("Role", "a", "rbac.authorization.k8s.io/v1"),
        ),
        post(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/{{ns}}/roles?dryRun=All",
            _named("Role", "b", "rbac.authorization.k8s.io/v1", rules=[]),
        ),
        post(
            "/apis/discovery.k8s.io/v1/namespaces/{{ns}}/endpointslices",
            _named("EndpointSlice", "s", "discovery.k8s.io/v1", addressType="IPv4", endpoints=[], ports=[]),
        ),
        post(
            "/apis/discovery.k8s.io/v1/namespaces/{{ns}}/endpointslices",
            _named("EndpointSlice", "t", "discovery.k8s.io/v1", addressType="IPv4"),
        ),
    ),
    sequence(
        "apps-selectors",
        post(
            APPS + "/daemonsets",
            _named("DaemonSet", "d", "apps/v1", spec={"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}),
        ),
        patch(APPS + "/daemonsets/d", {"metadata": {"annotations": {"q": "r"}}}, MERGE),
        get(
            APPS + "/daemonsets", headers={"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
        ),
        patch(APPS + "/daemonsets/d", {"spec": {"selector": {"matchLabels": {"z": "y", "b": "x"}}}}, MERGE),
        post(
            APPS + "/deployments",
            _named(
                "Deployment",
                "e",
                "apps/v1",
                spec={"selector": {"matchLabels": {"z": "y", "b": "x"}}, "template": TEMPLATE},
            ),
        ),
        post(
            APPS + "/statefulsets",
            _named(
                "StatefulSet",
                "f",
                "apps/v1",
                spec={
                    "serviceName": "s",
                    "selector": {"matchLabels": {"z": "y", "b": "x"}},
                    "template": TEMPLATE,
                    "updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 2}},
                },
            ),
        ),
        post(
            APPS + "/replicasets",
            _named("ReplicaSet", "g", "apps/v1", spec={"selector": {"matchLabels": {}}, "template": TEMPLATE}),
        ),
        post(
            "/api/v1/namespaces/{{ns}}/podtemplates", _named("PodTemplate", "p", template={"spec": {"containers": []}})
        ),
        post("/api/v1/namespaces/{{ns}}/podtemplates", _named("PodTemplate", "p2")),
    ),
    sequence(
        "budget-faults",
        *[
            post(
                "/apis/policy/v1/namespaces/{{ns}}/poddisruptionbudgets",
                _named("PodDisruptionBudget", n, "policy/v1", spec=s),
            )
            for n, s in (
                (
                    "a",
                    {
                        "minAvailable": "50%",
                        "maxUnavailable": 2,
                        "selector": {
                            "matchLabels": {"z": "1", "a": "2"},
                            "matchExpressions": [{"operator": "In", "key": "k", "values": ["v"]}],
                        },
                        "unhealthyPodEvictionPolicy": "AlwaysAllow",
                    },
                ),
                ("b", {"minAvailable": -1}),
                ("c", {"maxUnavailable": "150%"}),
                ("d", {"unhealthyPodEvictionPolicy": "Odd"}),
            )
        ],
    ),
)
