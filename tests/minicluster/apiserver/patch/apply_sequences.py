"""Sequences of writes to one object by several managers: the object's name -> (collection, steps)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Obj = dict[str, Any]


def _nothing(_obj: Obj) -> None: ...


@dataclass(frozen=True)
class Step:
    """One write. `change` turns the stored object into the body of an update."""

    verb: str
    body: Any = None
    manager: str = ""
    force: bool = False
    subresource: str = ""
    pause: bool = False
    "Wait for the next second first, so that times differ."
    change: Callable[[Obj], None] = _nothing


def _apply(body: Obj, manager: str, **more: Any) -> Step:
    return Step("apply", body, manager, **more)


def _update(manager: str, change: Callable[[Obj], None], **more: Any) -> Step:
    return Step("update", None, manager, change=change, **more)


def _configmap(name: str, data: Obj | None, **meta: Any) -> Obj:
    obj: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}}
    return obj if data is None else {**obj, "data": data}


def _container(name: str, image: str, **more: Any) -> Obj:
    return {"name": name, "image": image, **more}


def _deployment(name: str, *containers: Obj, **spec: Any) -> Obj:
    template: Obj = {"metadata": {"labels": {"app": name}}, "spec": {"containers": list(containers)}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template, **spec},
    }


def _part(name: str, spec: Obj, **meta: Any) -> Obj:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, **meta}, "spec": spec}


def _thing(name: str, spec: Obj | None = None, status: Obj | None = None, **meta: Any) -> Obj:
    obj: Obj = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name, **meta}}
    if spec is not None:
        obj["spec"] = spec
    return obj if status is None else {**obj, "status": status}


def _service(name: str, *ports: Obj, **spec: Any) -> Obj:
    meta = {"name": name}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {**spec, "ports": list(ports)}}


def _set(*path: str, value: Any) -> Callable[[Obj], None]:
    def change(obj: Obj) -> None:
        for part in path[:-1]:
            obj = obj.setdefault(part, {})
        if value is None:
            obj.pop(path[-1], None)
        else:
            obj[path[-1]] = value

    return change


def _merge(manager: str, body: Obj, **more: Any) -> Step:
    return Step("merge", body, manager, **more)


CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SERVICES = "/api/v1/namespaces/default/services"
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
THINGS = "/apis/example.com/v1/namespaces/default/things"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def _last_applied(name: str) -> str:
    """What kubectl's client-side apply leaves on an object."""
    return f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"a":"1","b":"2"}}}}\n'


_POD: Obj = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "pod", "labels": {"app": "x"}, "finalizers": ["example.com/keep"]},
    "spec": {
        "containers": [
            _container(
                "main",
                "main:1",
                command=["run"],
                env=[
                    {"name": "A", "value": "1"},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                ],
                ports=[{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}, {"containerPort": 9}],
                resources={"requests": {"cpu": "1", "memory": "1Gi"}},
                livenessProbe={"httpGet": {"path": "/", "port": 80}},
                volumeMounts=[{"name": "v", "mountPath": "/v"}],
                securityContext={"capabilities": {"add": ["NET_ADMIN"]}},
            )
        ],
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c"}}],
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "nodeSelector": {"zone": "a"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "k", "operator": "Exists"}]}]}}},
    },
}  # fmt: skip

SEQUENCES: dict[str, tuple[str, list[Step]]] = {
    "updates": (CONFIGMAPS, [
        Step("create", _configmap("updates", {"a": "1", "b": "2"}, labels={"x": "1"}), "creator"),
        _update("writer", _set("data", "a", value="3"), pause=True),
        _update("writer", _set("data", "c", value="4")),
        _update("creator", _set("metadata", "annotations", value={"n": "1"}), pause=True),
        _update("other", _set("data", "b", value=None)),
        _update("other", lambda _obj: None),
        _merge("patcher", {"metadata": {"labels": {"x": "2", "y": "3"}}}, pause=True),
        _merge("patcher", {"metadata": {"labels": {"x": None}}}),
        _merge("patcher", {"metadata": {"labels": None}}),
        Step("json", [{"op": "add", "path": "/data/j", "value": "json"}], "jsoner"),
        Step("strategic", {"metadata": {"finalizers": ["example.com/f"]}}, "strategist"),
        Step("strategic", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/f"]}}, "strategist"),
        _merge("", {"data": {"z": "no manager named"}}),
    ]),
    "resets": (CONFIGMAPS, [
        Step("create", _configmap("resets", {"a": "1"}), "creator"),
        _update("other", _set("metadata", "managedFields", value=[{"manager": "", "operation": ""}])),
        _update("one", _set("data", "b", value="2")),
        _update("two", _set("metadata", "managedFields", value=[])),
        _update("three", _set("data", "b", value="3")),
        _apply(_configmap("resets", {"c": "3"}), "applier"),
        _apply(_configmap("resets", {"b": "9"}), "applier"),
        _apply(_configmap("resets", {"b": "9"}), "applier", force=True),
        _merge("patcher", {"metadata": {"managedFields": [{}]}}),
        _merge("patcher", {"data": {"d": "4"}}),
        _apply(_configmap("resets", {"d": "4"}), "applier"),
    ]),
    "handover": (CONFIGMAPS, [
        Step("create", _configmap("handover", {"a": "1", "b": "2"}), "creator"),
        _update("giver", lambda obj: obj["metadata"]["managedFields"].append(
            {"manager": "made-up", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:data": {"f:a": {}}}, "time": "2020-01-01T00:00:00Z"}), pause=True),
        _apply(_configmap("handover", {"b": "2"}), "made-up"),
        _update("giver", lambda obj: obj["metadata"]["managedFields"].append({"manager": "bad", "operation": "No"})),
        _update("giver", lambda obj: obj["metadata"]["managedFields"][0].update(fieldsType="FieldsV2")),
        _update("giver", lambda obj: obj["metadata"]["managedFields"].pop(0)),
    ]),
    "many": (CONFIGMAPS, [
        Step("create", _configmap("many", {"k": "0"}), "m00"),
        *(_merge(f"m{index:02}", {"data": {f"k{index}": "x"}}) for index in range(1, 15)),
        _merge("m01", {"data": {"k1": "y"}}, pause=True),
        _merge("m99", {"data": {"k2": "z"}}),
    ]),
    "applies": (CONFIGMAPS, [
        _apply(_configmap("applies", {"a": "1", "b": "2"}, labels={"l": "1"}), "first"),
        _apply(_configmap("applies", {"a": "1", "b": "2"}, labels={"l": "1"}), "first", pause=True),
        _apply(_configmap("applies", {"a": "1", "c": "3"}), "second", pause=True),
        _apply(_configmap("applies", {"a": "9"}), "second"),
        _apply(_configmap("applies", {"a": "9"}), "second", force=True),
        _apply(_configmap("applies", {"a": "9", "b": "2"}, labels={"l": "1"}), "first", pause=True),
        _apply(_configmap("applies", {"b": "2"}), "first"),
        _apply(_configmap("applies", None), "second"),
        _apply(_configmap("applies", {}), "first"),
        _apply(_configmap("applies", {"a": None, "b": "x"}), "first"),
        _apply(_configmap("applies", {"b": "x"}, annotations={"a": "b"}), "first"),
        _apply(_configmap("applies", {"b": "x"}, annotations={}), "first"),
        _apply(_configmap("applies", None), "first"),
    ]),
    "refusals": (CONFIGMAPS, [
        Step("create", _configmap("refusals", {"a": "1"}), "creator"),
        _apply(_configmap("refusals", {"a": "1"}, managedFields=[{"manager": "x"}]), "a"),
        _apply(_configmap("refusals", {"a": "1"}, managedFields=[]), "a"),
        _apply(_configmap("refusals", {"a": 1}), "a"),
        _apply({**_configmap("refusals", {"a": "1"}), "wrong": {"b": "c"}}, "a"),
        _apply({**_configmap("refusals", None), "data": ["x"]}, "a"),
        _apply({**_configmap("refusals", None), "immutable": "yes"}, "a"),
        _apply({**_configmap("refusals", {"a": "1"}), "kind": "Secret"}, "a"),
        _apply({**_configmap("refusals", {"a": "1"}), "apiVersion": "v2"}, "a"),
        _apply({"metadata": {"name": "refusals"}, "data": {"a": "1"}}, "a"),
        _apply(_configmap("refusals", {"a": "1"}, finalizers=["x/y", "x/y"]), "a"),
        _apply(_configmap("refusals", {"a": "1"}, finalizers=[None]), "a"),
        _apply(_configmap("refusals", {"a": "1"}, ownerReferences=[{"name": "x"}]), "a"),
        _apply(_configmap("refusals", {"a": "1"}, labels={"x": {"y": "z"}}), "a"),
        _apply(_configmap("refusals", {"a": "2", "b": "3"}), "a"),
        _merge("second", {"metadata": {"labels": {"l": "1"}}}),
        _apply(_configmap("refusals", {"a": "2", "b": "3"}, labels={"l": "2"}), "a"),
        _apply(_configmap("refusals", {"b": "3"}, resourceVersion="1"), "a"),
    ]),
    "kubectl": (CONFIGMAPS, [
        Step("create", _configmap("kubectl", {"a": "1", "b": "2"}, annotations={
            LAST_APPLIED: _last_applied("kubectl")}),
            "kubectl-client-side-apply"),
        _apply(_configmap("kubectl", {"a": "2", "b": "2"}), "kubectl"),
        _apply(_configmap("kubectl", {"a": "<&>", "b": "2"}), "kubectl", pause=True),
        _merge("edit", {"data": {"b": "3"}}),
        _apply(_configmap("kubectl", {"a": "<&>", "b": "4"}), "kubectl"),
        _apply(_configmap("kubectl", {"a": "5"}), "other"),
    ]),
    "upgrade": (CONFIGMAPS, [
        Step("create", _configmap("upgrade", {"a": "1", "b": "2", "c": "3"}, annotations={
            LAST_APPLIED: _last_applied("upgrade")}),
            "kubectl-client-side-apply"),
        _merge("edit", {"data": {"b": "x"}}),
        _apply(_configmap("upgrade", {"a": "9", "b": "9", "c": "9"}), "kubectl"),
        _apply(_configmap("upgrade", {"a": "9"}), "kubectl"),
    ]),
    "web": (DEPLOYMENTS, [
        Step("create", _deployment("web", _container("web", "web:1"), replicas=2), "creator"),
        _update("scaler", _set("spec", "replicas", value=3), pause=True),
        _merge("status-writer", {"status": {"replicas": 1, "observedGeneration": 1}}, subresource="status"),
        _merge("status-writer", {"status": {"replicas": 2, "conditions": [
            {"type": "Available", "status": "True"}]}, "spec": {"replicas": 9}}, subresource="status", pause=True),
        _merge("status-writer", {"metadata": {"labels": {"s": "1"}, "annotations": {"s": "1"}}}, subresource="status"),
        _apply(_part("web", {"replicas": 5}), "applier"),
        _apply(_part("web", {"replicas": 3}), "applier"),
        _apply(_part("web", {"template": {"spec": {"containers": [
            {"name": "web", "env": [{"name": "A", "value": "1"}]}, _container("side", "side:1")]}}}), "sider"),
        _apply(_part("web", {"template": {"spec": {"containers": [
            {"name": "web", "image": "web:2", "imagePullPolicy": "Never"}]}}}), "imager"),
        _apply(_part("web", {"template": {"spec": {"containers": [
            {"name": "web", "image": "web:2"}]}}}), "imager", force=True),
        _apply(_part("web", {"template": {"spec": {"containers": [{"name": "web", "env": [
            {"name": "B", "value": "2"}]}]}}}), "sider", pause=True),
        _apply(_part("web", {}), "sider"),
        _apply(_part("web", {"replicas": 7}), "applier", force=True),
        _update("scaler", _set("spec", "template", "spec", "containers", value=[_container("other", "other:1")])),
        _apply({**_part("web", {}), "status": {"replicas": 5}}, "status-applier", subresource="status"),
        _apply({**_part("web", {"replicas": 1}), "status": {"replicas": 5}}, "status-applier", force=True,
            subresource="status"),
    ]),
    "scaled": (DEPLOYMENTS, [
        Step("create", _deployment("scaled", _container("web", "web:1"), replicas=2), "creator"),
        _merge("hpa", {"spec": {"replicas": 4}}, subresource="scale"),
        _merge("hpa", {"spec": {"replicas": 4}}, subresource="scale"),
        _apply(_part("scaled", {"replicas": 1}), "applier"),
        _apply(_part("scaled", {"replicas": 1}), "applier", force=True),
        _merge("hpa", {"spec": {"replicas": 6}}, subresource="scale"),
    ]),
    "made": (DEPLOYMENTS, [
        _apply(_deployment("made", _container("a", "a:1", ports=[{"containerPort": 80}]), replicas=2), "maker"),
        _apply(_deployment("made", _container("a", "a:1", ports=[{"containerPort": 81}]), replicas=2), "maker",
            pause=True),
        _apply(_deployment("made", _container("b", "b:1"), _container("a", "a:1")), "maker"),
        _apply(_part("made", {"template": {"spec": {"containers": [
            {"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]}]}}}), "porter"),
        _apply(_part("made", {"template": {"spec": {"containers": [
            {"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]}]}}}), "porter"),
        _apply(_part("made", {"template": {"spec": {"containers": [{"image": "x"}]}}}), "porter"),
        _apply(_part("made", {"replicas": "two"}), "porter"),
        _apply(_part("made", {"replica": 2}), "porter"),
        _apply(_part("made", {"template": {"spec": {"containers": "a"}}}), "porter"),
        _apply(_part("made", {"template": {"spec": {"tolerations": [{"key": "x", "wrong": 1}]}}}), "porter"),
        _apply(_part("made", {"template": {"spec": {"containers": [{"name": 1}, {"name": 2}]}}}), "porter"),
        _apply(_part("made", {"strategy": {"rollingUpdate": {"maxSurge": 2}}}), "surger"),
        _apply(_part("made", {"strategy": {"rollingUpdate": {"maxSurge": "30%"}}}), "surger"),
        _apply(_part("made", {"selector": {"matchLabels": {"app": "other"}}}), "selector"),
        _apply(_part("made", {"template": {"spec": {"nodeSelector": {"a": "b"}, "tolerations": [
            {"key": "x", "operator": "Exists"}]}}}), "placer"),
        _apply(_part("made", {"template": {"spec": {"nodeSelector": {"c": "d"}, "tolerations": [
            {"key": "y", "operator": "Exists"}]}}}), "placer2"),
        _apply(_part("made", {"template": {"spec": {"containers": [
            {"name": "a", "resources": {"limits": {"cpu": "1000m"}}}]}}}), "limiter"),
        _apply(_part("made", {"template": {"spec": {"containers": [
            {"name": "a", "resources": {"limits": {"cpu": "1"}}}]}}}), "limiter2"),
        _apply(_part("made", {"template": {"spec": {"containers": [
            {"name": "a", "resources": {"limits": {"cpu": "1000m"}}}]}}}), "limiter", pause=True),
    ]),
    "order": (DEPLOYMENTS, [
        _apply(_deployment("order", *(_container(name, "i:1") for name in "abcd")), "one"),
        _apply(_part("order", {"template": {"spec": {"containers": [
            _container("x", "i:1"), {"name": "c"}, _container("y", "i:1"), {"name": "a"}]}}}), "two"),
        _apply(_deployment("order", *(_container(name, "i:1") for name in "dbe")), "one"),
        _apply(_part("order", {"template": {"spec": {"containers": [_container("z", "i:1"), {"name": "a"}]}}}), "two"),
    ]),
    "svc": (SERVICES, [
        Step("create", _service("svc", {"port": 80, "name": "a"}, {"port": 81, "name": "b"}, selector={"a": "b"}),
            "maker"),
        _apply(_service("svc", {"port": 80, "name": "a", "targetPort": 8080}), "applier"),
        _apply(_service("svc", {"port": 80, "targetPort": 8080}), "applier", force=True),
        _apply(_service("svc", {"port": 80, "protocol": "UDP", "name": "udp"}), "applier"),
        _apply(_service("svc", selector={"c": "d"}), "applier"),
        _apply(_service("svc", selector={"c": "d"}), "applier", force=True),
        _merge("maker", {"spec": {"selector": {"e": "f"}}}, pause=True),
    ]),
    "pod": (PODS, [
        Step("create", _POD, "maker"),
        _merge("kubelet", {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "main", "ready": True, "restartCount": 0, "image": "main:1", "imageID": ""}],
            "podIPs": [{"ip": "10.0.0.5"}], "podIP": "10.0.0.5"}}, subresource="status", pause=True),
        _merge("kubelet", {"status": {"conditions": [{"type": "Ready", "status": "False"},
            {"type": "Initialized", "status": "True"}]}, "metadata": {"labels": {"from": "status"}}},
            subresource="status"),
        _merge("labeller", {"metadata": {"labels": {"new": "1"}, "finalizers": [
            "example.com/keep", "example.com/more"]}}),
        _apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "labels": {"app": "x"},
            "finalizers": ["example.com/more"]}}, "applier"),
        _apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}}, "applier"),
        _apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": {"tolerations": [
            {"key": "k", "operator": "Exists"}, {"key": "l", "operator": "Exists"}]}}, "tolerater"),
    ]),
    "node": (NODES, [
        Step("create", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"},
            "status": {"capacity": {"cpu": "4"}}}, "kubelet"),
        _merge("kubelet", {"status": {"capacity": {"cpu": "4", "memory": "8Gi"}, "conditions": [
            {"type": "Ready", "status": "True"}]}}, subresource="status"),
        _merge("controller", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}], "podCIDR": "10.1.0.0/24",
            "podCIDRs": ["10.1.0.0/24"]}}),
        Step("strategic", {"status": {"conditions": [{"type": "Disk", "status": "False"}], "addresses": [
            {"type": "InternalIP", "address": "10.0.0.1"}]}}, "detector", subresource="status"),
        _merge("admin", {"spec": {"unschedulable": True, "taints": [{"key": "a", "effect": "NoSchedule"},
            {"key": "b", "effect": "NoExecute"}]}}),
    ]),
    "thing": (THINGS, [
        Step("create", _thing("thing", {"size": 1, "items": [{"key": "a", "value": 1}], "tags": ["x", "y"],
            "free": {"any": {"deep": [1, 2]}}, "whole": {"a": 1, "b": 2}, "steps": [{"n": 1}]}), "maker"),
        _apply(_thing("thing", {"items": [{"key": "b", "value": 2}], "tags": ["z"], "free": {"more": {"x": 1}}}),
            "one"),
        _apply(_thing("thing", {"items": [{"key": "a", "value": 9}], "tags": ["x"]}), "one"),
        _apply(_thing("thing", {"items": [{"key": "a", "value": 9}], "tags": ["x"]}), "one", force=True),
        _apply(_thing("thing", {"whole": {"a": 1, "c": 3}}), "two"),
        _apply(_thing("thing", {"whole": {"a": 1, "c": 3}}), "two", force=True),
        _apply(_thing("thing", {"steps": [{"n": 1}, {"n": 2}], "free": {"any": "text"}}), "three", force=True),
        _apply(_thing("thing", {"unknown": 1}), "three"),
        _apply(_thing("thing", {"size": "big"}), "three"),
        _apply(_thing("thing", {"items": [{"value": 9}]}), "three"),
        _apply(_thing("thing", {"items": [{"key": "k", "value": 1}, {"key": "k", "value": 2}]}), "three"),
        _apply(_thing("thing", {"ports": [{"port": 80}, {"port": 80, "protocol": "UDP"}]}), "ports"),
        _apply(_thing("thing", {"ports": [{"port": 80, "protocol": "TCP", "name": "x"}]}), "ports"),
        _merge("patcher", {"spec": {"free": {"any": {"a": None, "b": 1}}, "anything": {"q": [1]}, "maybe": None}}),
        _merge("patcher", {"spec": {"anything": 5, "either": 3}}),
        _merge("patcher", {"spec": {"anything": {"q": {"r": 1}}, "either": "3"}}),
        _merge("status", {"status": {"ready": True}, "spec": {"size": 7}, "metadata": {"labels": {"a": "b"}}},
            subresource="status"),
        _apply(_thing("thing", None, {"ready": False}), "status-applier", subresource="status"),
        _apply(_thing("thing", None, {"ready": False}), "status-applier", subresource="status", force=True),
        _apply(_thing("thing", {"size": 4}, {"ready": True}), "both", force=True),
        _apply(_thing("thing", {}), "one"),
        _apply(_thing("thing"), "two"),
        _apply(_thing("thing", {"tags": []}), "three"),
    ]),
    "thing-made": (THINGS, [
        _apply(_thing("thing-made", {"size": 1, "ports": [{"port": 1}], "free": {}, "maybe": None}), "maker"),
        _apply(_thing("thing-made", {"size": 1}), "maker", pause=True),
        _merge("scaler", {"spec": {"replicas": 3}}, subresource="scale"),
        _apply(_thing("thing-made", {"size": 1, "replicas": 3}), "maker"),
        _apply(_thing("thing-made", {"size": 1, "replicas": 2}), "maker"),
    ]),
}  # fmt: skip

_ITEM = {"type": "object", "properties": {"key": {"type": "string"}, "value": {"type": "integer"}}, "required": ["key"]}
_PORT = {
    "type": "object",
    "required": ["port"],
    "properties": {
        "port": {"type": "integer"},
        "protocol": {"type": "string", "default": "TCP"},
        "name": {"type": "string"},
    },
}
CUSTOM_KIND: Obj = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer"},
                                    "replicas": {"type": "integer"},
                                    "maybe": {"type": "string", "nullable": True},
                                    "either": {"x-kubernetes-int-or-string": True},
                                    "items": {
                                        "type": "array",
                                        "items": _ITEM,
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["key"],
                                    },
                                    "ports": {
                                        "type": "array",
                                        "items": _PORT,
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["port", "protocol"],
                                    },
                                    "tags": {
                                        "type": "array",
                                        "items": {"type": "string"},
                                        "x-kubernetes-list-type": "set",
                                    },
                                    "steps": {
                                        "type": "array",
                                        "items": {"type": "object", "properties": {"n": {"type": "integer"}}},
                                    },
                                    "whole": {
                                        "type": "object",
                                        "additionalProperties": {"type": "integer"},
                                        "x-kubernetes-map-type": "atomic",
                                    },
                                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                    "anything": {"x-kubernetes-preserve-unknown-fields": True},
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {"ready": {"type": "boolean"}, "replicas": {"type": "integer"}},
                            },
                        },
                    }
                },
            }
        ],
    },
}
