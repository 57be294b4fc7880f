"""JSON, merge and strategic merge patches, good and bad."""

# ruff: noqa: E501 - a request is a row of a table

from __future__ import annotations

from tests.minicluster.apiserver.differential.steps import (
    APPS,
    CORE,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    config_map,
    deployment,
    get,
    patch,
    pod,
    post,
    sequence,
)

CM = f"{CORE}/configmaps"
PODS = f"{CORE}/pods"
ONE = f"{CM}/a"
D = f"{APPS}/deployments/d"
DEPLOYMENTS = f"{APPS}/deployments"


def _template(**fields: object) -> dict[str, object]:
    return {"spec": {"template": {"spec": fields}}}


RICH = deployment(
    "d",
    containers=[
        {"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}], "ports": [{"containerPort": 80}, {"containerPort": 81}], "args": ["x", "y"]},
        {"name": "b", "image": "b:1"},
        {"name": "c", "image": "c:1"},
    ],
    volumes=[{"name": "v", "emptyDir": {}}, {"name": "w", "hostPath": {"path": "/w"}}],
    tolerations=[{"key": "k", "operator": "Exists"}],
)  # fmt: skip

SEQUENCES = [
    sequence(
        "json-patch",
        post(CM, config_map("a", {"x": "1", "y": "2"}, labels={"a/b": "c"})),
        *[
            patch(ONE, operations, JSON_PATCH)
            for operations in (
                [],
                [{"op": "add", "path": "/data/z", "value": "3"}],
                [{"op": "replace", "path": "/data/x", "value": "9"}],
                [{"op": "remove", "path": "/data/y"}],
                [{"op": "test", "path": "/data/x", "value": "9"}, {"op": "add", "path": "/data/ok", "value": "yes"}],
                [{"op": "test", "path": "/data/x", "value": "8"}, {"op": "add", "path": "/data/bad", "value": "yes"}],
                [{"op": "copy", "from": "/data/x", "path": "/data/x2"}],
                [{"op": "move", "from": "/data/x2", "path": "/data/x3"}],
                [{"op": "replace", "path": "/metadata/labels/a~1b", "value": "d"}],
                [{"op": "add", "path": "/metadata/labels/t~0u", "value": "d"}],
                [{"op": "add", "path": "/metadata/annotations", "value": {"k": "v"}}],
                [{"op": "remove", "path": "/data"}],
                [{"op": "add", "path": "/data/a", "value": "x"}],
            )
        ],
    ),
    sequence(
        "json-patch-faults",
        post(CM, config_map("a", {"x": "1"})),
        *[
            patch(ONE, operations, JSON_PATCH)
            for operations in (
                [{"op": "remove", "path": "/data/absent"}],
                [{"op": "replace", "path": "/data/absent", "value": "1"}],
                [{"op": "replace", "path": "/absent/deep", "value": "1"}],
                [{"op": "add", "path": "/absent/deep", "value": "1"}],
                [{"op": "test", "path": "/data/absent", "value": "1"}],
                [{"op": "test", "path": "/data/absent", "value": None}],
                [{"op": "move", "from": "/data/absent", "path": "/data/b"}],
                [{"op": "copy", "from": "/data/absent", "path": "/data/b"}],
                [{"op": "jump", "path": "/data/x"}],
                [{"op": "add", "path": "data/x", "value": "1"}],
                [{"op": "add", "value": "1"}],
                [{"path": "/data/x"}],
                [{"op": "add", "path": "/data/n"}],
                [{"op": "add", "path": "/data/n", "value": 5}],
                [{"op": "add", "path": "/data/n", "value": None}],
                [{"op": "add", "path": "", "value": {}}],
                [{"op": "remove", "path": "/metadata/name"}],
                [{"op": "remove", "path": "/kind"}],
                [{"op": "replace", "path": "/kind", "value": "Secret"}],
                {"op": "add"},
                "nonsense",
                "",
                [1],
            )
        ],
        patch(ONE, [{"op": "add", "path": f"/data/k{number}", "value": "v"} for number in range(10_001)], JSON_PATCH),
        patch(f"{CM}/absent", [{"op": "remove", "path": "/data"}], JSON_PATCH),
        get(ONE),
    ),
    sequence(
        "json-patch-arrays",
        post(PODS, pod("p", {"finalizers": ["a/a", "b/b", "c/c"]})),
        *[
            patch(f"{PODS}/p", operations, JSON_PATCH)
            for operations in (
                [{"op": "add", "path": "/metadata/finalizers/-", "value": "d/d"}],
                [{"op": "add", "path": "/metadata/finalizers/0", "value": "z/z"}],
                [{"op": "remove", "path": "/metadata/finalizers/1"}],
                [{"op": "remove", "path": "/metadata/finalizers/-1"}],
                [{"op": "remove", "path": "/metadata/finalizers/9"}],
                [{"op": "add", "path": "/metadata/finalizers/9", "value": "x/x"}],
                [{"op": "replace", "path": "/metadata/finalizers/x", "value": "x/x"}],
                [{"op": "test", "path": "/metadata/finalizers/0", "value": "z/z"}],
                [{"op": "replace", "path": "/spec/containers/0/image", "value": "example/image:3"}],
                [{"op": "test", "path": "/spec/containers/0", "value": {}}],
            )
        ],
        get(f"{PODS}/p"),
    ),
    sequence(
        "json-patch-indexes",
        post(PODS, pod("p", {"finalizers": ["a/a", "b/b"]})),
        *[
            patch(f"{PODS}/p", [{"op": op, "path": f"/metadata/finalizers/{index}", "value": "x/x"}], JSON_PATCH)
            for op in ("add", "remove", "replace", "test")
            for index in (2**63 - 1, 2**63, -(2**63), -(2**63) - 1, "9" * 5000, "-" + "9" * 5000, "0" * 5000 + "1", "+1")
        ],
        get(f"{PODS}/p"),
    ),
    sequence(
        "merge-patch",
        post(CM, config_map("a", {"x": "1", "y": "2"}, labels={"l": "1"})),
        *[
            patch(ONE, body, MERGE)
            for body in (
                {"data": {"x": None}},
                {"data": {"absent": None}},
                {"data": None},
                {"data": {"a": "b"}, "metadata": {"labels": None, "annotations": {"k": "v"}}},
                {"metadata": {"finalizers": ["a/b"]}},
                {"metadata": {"finalizers": None}},
                {"metadata": None},
                {"data": {"a": 5}},
                {"data": ["a"]},
                {"kind": "Secret"},
                {"apiVersion": "v2"},
                {"kind": None},
                [],
                [1],
                "nonsense",
                "",
                "null",
                "{}",
                '"text"',
                "5",
            )
        ],
        patch(f"{CM}/absent", {"data": {}}, MERGE),
        get(ONE),
    ),
    sequence(
        "merge-patch-lists",
        post(DEPLOYMENTS, RICH),
        patch(D, _template(containers=[{"name": "only", "image": "o:1"}]), MERGE),
        patch(D, _template(containers=[]), MERGE),
        patch(D, _template(containers=None), MERGE),
        patch(D, {"spec": {"template": {"metadata": {"labels": {"app": None}}}}}, MERGE),
        patch(D, {"spec": {"replicas": None}}, MERGE),
        patch(D, {"spec": {"strategy": None}}, MERGE),
        patch(D, {"spec": {"template": None}}, MERGE),
        patch(D, {"spec": None}, MERGE),
    ),
    sequence(
        "strategic-merge",
        post(DEPLOYMENTS, RICH),
        patch(D, _template(containers=[{"name": "b", "image": "b:2"}]), STRATEGIC),
        patch(D, _template(containers=[{"name": "new", "image": "n:1"}]), STRATEGIC),
        patch(D, _template(containers=[{"name": "a", "env": [{"name": "X", "value": "9"}, {"name": "Z", "value": "3"}]}]), STRATEGIC),
        patch(D, _template(containers=[{"name": "a", "ports": [{"containerPort": 80, "name": "http"}]}]), STRATEGIC),
        patch(D, _template(containers=[{"name": "a", "args": ["z"]}]), STRATEGIC),
        patch(D, _template(tolerations=[{"key": "other", "operator": "Exists"}]), STRATEGIC),
        patch(D, _template(volumes=[{"name": "v", "emptyDir": None, "hostPath": {"path": "/v"}}]), STRATEGIC),
        patch(D, {"spec": {"template": {"metadata": {"annotations": {"at": "now"}}}}}, STRATEGIC),
        patch(D, {"spec": {"replicas": None}}, STRATEGIC),
        patch(D, {}, STRATEGIC),
    ),
    sequence(
        "strategic-directives",
        post(DEPLOYMENTS, RICH),
        patch(D, _template(containers=[{"name": "c", "$patch": "delete"}]), STRATEGIC),
        patch(D, _template(**{"containers": [{"name": "b", "image": "b:3"}], "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}), STRATEGIC),
        patch(D, _template(containers=[{"$patch": "replace"}, {"name": "z", "image": "z:1"}]), STRATEGIC),
        patch(D, _template(volumes=[{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]), STRATEGIC),
        patch(D, {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}, STRATEGIC),
        patch(D, {"metadata": {"labels": {"$patch": "replace", "only": "this"}}}, STRATEGIC),
        patch(D, {"metadata": {"labels": {"$patch": "delete"}}}, STRATEGIC),
        patch(D, {"metadata": {"annotations": {"$patch": "merge", "x": "y"}}}, STRATEGIC),
        patch(D, {"$patch": "replace", "metadata": {"name": "d"}}, STRATEGIC),
        patch(D, {"metadata": {"finalizers": ["a/a", "b/b"]}}, STRATEGIC),
        patch(D, {"metadata": {"finalizers": ["c/c"]}}, STRATEGIC),
        patch(D, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/a", "zz"]}}, STRATEGIC),
        patch(D, {"metadata": {"$setElementOrder/finalizers": ["c/c", "b/b"], "finalizers": ["b/b", "c/c"]}}, STRATEGIC),
        patch(D, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["b/b", "c/c"]}}, STRATEGIC),
        get(D),
    ),
    sequence(
        "strategic-faults",
        post(DEPLOYMENTS, RICH),
        patch(D, _template(containers=[{"image": "nameless"}]), STRATEGIC),
        patch(D, _template(containers=[{"name": "a", "$patch": "burn"}]), STRATEGIC),
        patch(D, _template(containers={"name": "a"}), STRATEGIC),
        patch(D, _template(containers=["a"]), STRATEGIC),
        patch(D, {"spec": "text"}, STRATEGIC),
        patch(D, {"spec": {"replicas": "3"}}, STRATEGIC),
        patch(D, _template(**{"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b", "image": "x"}]}), STRATEGIC),
        patch(D, {"metadata": {"$deleteFromPrimitiveList/finalizers": "x"}}, STRATEGIC),
        patch(D, {"spec": {"strategy": {"$retainKeys": ["rollingUpdate"], "type": "Recreate"}}}, STRATEGIC),
        patch(D, {"metadata": {"labels": {"$patch": 5}}}, STRATEGIC),
        patch(D, "[]", STRATEGIC),
        patch(D, "nonsense", STRATEGIC),
        patch(D, "", STRATEGIC),
        patch(D, "null", STRATEGIC),
        patch(f"{DEPLOYMENTS}/absent", {}, STRATEGIC),
        get(D),
    ),
    sequence(
        "strategic-other-lists",
        post(f"{CORE}/services", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}}),
        patch(f"{CORE}/services/s", {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}}, STRATEGIC),
        patch(f"{CORE}/services/s", {"spec": {"ports": [{"port": 81, "$patch": "delete"}]}}, STRATEGIC),
        post(f"{CORE}/serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "r"}, "secrets": [{"name": "a"}], "imagePullSecrets": [{"name": "p"}]}),
        patch(f"{CORE}/serviceaccounts/r", {"secrets": [{"name": "b"}], "imagePullSecrets": [{"name": "q"}]}, STRATEGIC),
        post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "{{seq}}"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
        patch("/api/v1/nodes/{{seq}}", {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}}, STRATEGIC),
        patch("/api/v1/nodes/{{seq}}/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}], "capacity": {"cpu": "4"}}}, STRATEGIC),
        patch("/api/v1/nodes/{{seq}}/status", {"status": {"conditions": [{"type": "Pressure", "status": "False"}, {"type": "Ready", "status": "Unknown"}], "capacity": {"memory": "1Gi"}}}, STRATEGIC),
        patch("/api/v1/nodes/{{seq}}/status", {"status": {"addresses": [{"type": "Hostname", "address": "h"}]}, "spec": {"unschedulable": True}, "metadata": {"labels": {"a": "b"}}}, STRATEGIC),
        post(CM, config_map("owned", ownerReferences=[{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u1"}])),
        patch(f"{CM}/owned", {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "m", "uid": "u2"}]}}, STRATEGIC),
        patch(f"{CM}/owned", {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "u1"}]}}, STRATEGIC),
    ),
    sequence(
        "patch-managers",
        post(f"{CM}?fieldManager=maker", config_map("a", {"x": "1"})),
        patch(f"{ONE}?fieldManager=editor", {"data": {"y": "2"}}),
        patch(f"{ONE}?fieldManager=maker", {"data": {"x": None}}),
        patch(f"{ONE}?fieldManager=editor", {"data": {"y": None}}),
        patch(f"{ONE}?force=true", {"data": {"z": "1"}}),
        patch(f"{ONE}?fieldManager={'m' * 129}", {"data": {"z": "2"}}),
        post(f"{CM}?fieldManager={'m' * 129}", config_map("b")),
        post(f"{CM}?fieldManager=bad%0Aname", config_map("b")),
        patch(ONE, {"metadata": {"managedFields": []}}),
        patch(ONE, {"metadata": {"managedFields": [{}]}}),
        patch(ONE, {"data": {"last": "one"}}),
    ),
]  # fmt: skip
