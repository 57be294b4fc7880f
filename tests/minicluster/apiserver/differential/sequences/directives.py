"""Patches of one deployment with every directive, and server-side apply by three managers and of many kinds."""

from __future__ import annotations

from typing import Any

from tests.minicluster.apiserver.differential.steps import (
    APPS,
    CORE,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    apply,
    get,
    patch,
    post,
    sequence,
)

D = f"{APPS}/deployments/d"
CONTAINER = {"name": "main", "image": "i"}


def _named(
    kind: str, name: str, api_version: str = "v1", meta: dict[str, Any] | None = None, **parts: Any
) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **(meta or {})}, **parts}


def _deployment(**spec: Any) -> dict[str, Any]:
    container = {
        **CONTAINER,
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "ports": [{"containerPort": 80}],
    }
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}}
    return _named(
        "Deployment", "d", "apps/v1", spec={"selector": {"matchLabels": {"app": "x"}}, "template": template, **spec}
    )


def _template(**spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": spec}}}


SEQUENCES = (
    sequence(
        "patch-directives",
        post(APPS + "/deployments", _deployment()),
        patch(D, _template(containers=[{"name": "main", "env": [{"name": "A", "$patch": "delete"}]}]), STRATEGIC),
        patch(
            D, _template(containers=[{"name": "main", "env": [{"name": "C", "value": "3"}, {"name": "B"}]}]), STRATEGIC
        ),
        patch(
            D,
            _template(
                **{
                    "$setElementOrder/containers": [{"name": "side"}, {"name": "main"}],
                    "containers": [{"name": "side", "image": "s"}],
                }
            ),
            STRATEGIC,
        ),
        patch(D, _template(containers=[{"$patch": "replace"}, {"name": "z", "image": "z"}]), STRATEGIC),
        patch(D, _template(**{"$deleteFromPrimitiveList/x": ["a"]}), STRATEGIC),
        patch(D, _template(tolerations=[{"key": "a", "operator": "Exists"}]), STRATEGIC),
        patch(D, _template(tolerations=[{"key": "b", "operator": "Exists"}]), STRATEGIC),
        patch(D, _template(**{"$retainKeys": ["containers"], "containers": [{"name": "z", "image": "y"}]}), STRATEGIC),
        patch(D, {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}, STRATEGIC),
        patch(D, {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}}, STRATEGIC),
        patch(D, {"metadata": {"finalizers": ["a/b"]}}, STRATEGIC),
        patch(D, {"metadata": {"finalizers": ["c/d"]}}, STRATEGIC),
        patch(D, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/b"]}}, STRATEGIC),
        patch(D, {"metadata": {"finalizers": None}}, STRATEGIC),
        patch(D, _template(containers=[{"image": "nameless"}]), STRATEGIC),
        patch(D, _template(containers="x"), STRATEGIC),
        patch(D, _template(containers=[{"name": "z", "$patch": "odd"}]), STRATEGIC),
        patch(D, {"$patch": "delete"}, STRATEGIC),
        patch(D, {"spec": {"$patch": "replace", "replicas": 1}}, STRATEGIC),
        patch(D, {"metadata": {"labels": {"$patch": "replace", "q": "r"}}}, STRATEGIC),
        patch(
            D,
            {"metadata": {"ownerReferences": [{"uid": "u", "apiVersion": "v1", "kind": "Pod", "name": "p"}]}},
            STRATEGIC,
        ),
        patch(D, {"metadata": {"ownerReferences": [{"uid": "u", "$patch": "delete"}]}}, STRATEGIC),
        patch(D, {"spec": {"replicas": "x"}}, STRATEGIC),
        patch(D, {"spec": {"replicas": 1.5}}, STRATEGIC),
        patch(D, {"spec": []}, STRATEGIC),
        patch(D, {"nope": 1}, STRATEGIC),
        patch(D, {"metadata": {"name": "other"}}, STRATEGIC),
        patch(D, {"metadata": {"namespace": "other"}}, STRATEGIC),
        patch(D, {"metadata": {"uid": "other"}}, STRATEGIC),
        patch(D, {"kind": "Pod"}, STRATEGIC),
        patch(D, {"apiVersion": "v2"}, STRATEGIC),
        patch(D, {"metadata": {"resourceVersion": "1"}}, STRATEGIC),
        patch(
            D,
            {"metadata": {"generation": 77, "creationTimestamp": None, "deletionTimestamp": "2030-01-01T00:00:00Z"}},
            STRATEGIC,
        ),
        patch(D, {"status": {"replicas": 3}}, STRATEGIC),
    ),
    sequence(
        "patch-json-paths",
        post(APPS + "/deployments", _deployment()),
        *[
            patch(D, x, JSON_PATCH)
            for x in (
                [{"op": "add", "path": "/spec/template/spec/containers/-", "value": {"name": "b", "image": "b"}}],
                [{"op": "add", "path": "/spec/template/spec/containers/0", "value": {"name": "first", "image": "b"}}],
                [{"op": "remove", "path": "/spec/template/spec/containers/-1"}],
                [{"op": "remove", "path": "/spec/template/spec/containers/7"}],
                [{"op": "replace", "path": "/spec/nope", "value": 1}],
                [{"op": "test", "path": "/spec/replicas", "value": 2}],
                [
                    {"op": "test", "path": "/spec/replicas", "value": 1},
                    {"op": "replace", "path": "/spec/replicas", "value": 2},
                ],
                [{"op": "move", "from": "/metadata/labels", "path": "/metadata/annotations"}],
                [{"op": "add", "path": "/metadata/labels", "value": {"a~b/c": "d"}}],
                [{"op": "add", "path": "/metadata/labels/e~1f", "value": "g"}],
                [{"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"}],
                [{"op": "remove", "path": "/metadata/name"}],
                [{"op": "replace", "path": "", "value": {}}],
                [{"op": "add", "path": "/metadata/labels/x", "value": None}],
                [{"op": "add", "path": "/spec/replicas", "value": None}],
                [{"op": "add", "path": "/spec/template/spec/containers/1/env/0", "value": {"name": "Z"}}],
                [{"op": "odd", "path": "/x"}],
                [{"op": "add", "path": "x", "value": 1}],
                [{"op": "add", "path": "/spec/replicas"}],
                [{"path": "/spec/replicas", "value": 1}],
                [{"op": "add", "path": "/metadata/labels/a b", "value": "c"}],
                [{"op": "remove", "path": "/spec/selector"}],
            )
        ],
    ),
    sequence(
        "apply-three-managers",
        apply(D, _deployment(replicas=2), "one"),
        apply(D, _named("Deployment", "d", "apps/v1", spec={"replicas": 3}), "two"),
        apply(D, _named("Deployment", "d", "apps/v1", meta={"labels": {"l": "m"}, "annotations": {"a": "b"}}), "two"),
        patch(D + "?fieldManager=up", {"spec": {"replicas": 5}}, MERGE),
        apply(D, _deployment(replicas=4), "one"),
        apply(D, _deployment(), "one"),
        apply(D, _named("Deployment", "d", "apps/v1"), "two"),
        apply(D, _named("Deployment", "d", "apps/v1", meta={"managedFields": []}), "two"),
        apply(D, _named("Deployment", "d", "apps/v1", meta={"resourceVersion": "1"}), "two"),
        apply(D, _named("Deployment", "d", "apps/v1", meta={"uid": "x"}), "two"),
        apply(D, _named("Deployment", "e", "apps/v1"), "two"),
        apply(D, _named("Pod", "d", "v1"), "two"),
        apply(D, {"metadata": {"name": "d"}}, "two"),
        apply(D, _deployment(bogus=1), "two"),
        apply(
            D,
            _named("Deployment", "d", "apps/v1", spec={"template": {"spec": {"containers": [{"image": "x"}]}}}),
            "two",
        ),
        apply(
            D,
            _named(
                "Deployment",
                "d",
                "apps/v1",
                spec={
                    "template": {
                        "spec": {
                            "containers": [
                                {"name": "side", "image": "x", "ports": [{"containerPort": 1}, {"containerPort": 1}]}
                            ]
                        }
                    }
                },
            ),
            "two",
        ),
        apply(
            D,
            _named(
                "Deployment",
                "d",
                "apps/v1",
                spec={
                    "template": {
                        "spec": {
                            "containers": [{"name": "side", "image": "x"}],
                            "tolerations": [{"key": "a", "operator": "Exists"}],
                        }
                    }
                },
            ),
            "two",
        ),
        apply(D, _named("Deployment", "d", "apps/v1", status={"replicas": 3}), "two"),
        apply(
            D + "/status",
            _named(
                "Deployment",
                "d",
                "apps/v1",
                status={"replicas": 3, "conditions": [{"type": "Available", "status": "True"}]},
            ),
            "three",
        ),
        apply(
            D + "/scale",
            {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 9}},
            "scaler",
        ),
        get(D),
        patch(D, {"metadata": {"managedFields": [{}]}}, MERGE),
        patch(D, {"metadata": {"labels": {"again": "x"}}}, MERGE),
        apply(D, _deployment(), "one"),
    ),
    sequence(
        "apply-every-workload",
        apply(
            CORE + "/limitranges/l",
            _named("LimitRange", "l", spec={"limits": [{"type": "Container", "max": {"cpu": "2"}}]}),
            "one",
        ),
        apply(
            CORE + "/resourcequotas/q",
            _named("ResourceQuota", "q", spec={"hard": {"pods": "1"}, "scopes": ["Terminating"]}),
            "one",
        ),
        apply(
            CORE + "/replicationcontrollers/r",
            _named(
                "ReplicationController",
                "r",
                spec={"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}},
            ),
            "one",
        ),
        apply(
            CORE + "/podtemplates/p", _named("PodTemplate", "p", template={"spec": {"containers": [CONTAINER]}}), "one"
        ),
        apply(
            CORE + "/services/s", _named("Service", "s", spec={"ports": [{"port": 80}], "clusterIP": "1.2.3.4"}), "one"
        ),
        apply(
            "/apis/batch/v1/namespaces/{{ns}}/jobs/j",
            _named(
                "Job",
                "j",
                "batch/v1",
                spec={"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}},
            ),
            "one",
        ),
        apply(
            "/apis/batch/v1/namespaces/{{ns}}/jobs/j",
            _named(
                "Job",
                "j",
                "batch/v1",
                spec={"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}, "parallelism": 2},
            ),
            "one",
        ),
        apply(
            CORE + "/persistentvolumeclaims/v",
            _named(
                "PersistentVolumeClaim",
                "v",
                spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            ),
            "one",
        ),
        apply(CORE + "/secrets/s", _named("Secret", "s", stringData={"a": "b"}), "one"),
        apply(CORE + "/secrets/s", _named("Secret", "s", data={"a": "Yg=="}), "two"),
        apply(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/{{ns}}/roles/r",
            _named("Role", "r", "rbac.authorization.k8s.io/v1", rules=[]),
            "one",
        ),
        apply(
            "/apis/discovery.k8s.io/v1/namespaces/{{ns}}/endpointslices/e",
            _named(
                "EndpointSlice", "e", "discovery.k8s.io/v1", addressType="IPv4", endpoints=[{"addresses": ["10.1.1.1"]}]
            ),
            "one",
        ),
        apply(
            APPS + "/daemonsets/d",
            _named(
                "DaemonSet",
                "d",
                "apps/v1",
                spec={
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}},
                },
            ),
            "one",
        ),
        apply(
            APPS + "/statefulsets/d",
            _named(
                "StatefulSet",
                "d",
                "apps/v1",
                spec={
                    "serviceName": "s",
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}},
                },
            ),
            "one",
        ),
        apply(
            "/apis/batch/v1/namespaces/{{ns}}/cronjobs/c",
            _named(
                "CronJob",
                "c",
                "batch/v1",
                spec={
                    "schedule": "* * * * *",
                    "jobTemplate": {
                        "spec": {"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}}
                    },
                },
            ),
            "one",
        ),
        apply(
            "/apis/policy/v1/namespaces/{{ns}}/poddisruptionbudgets/p",
            _named(
                "PodDisruptionBudget",
                "p",
                "policy/v1",
                spec={"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
            ),
            "one",
        ),
    ),
)
