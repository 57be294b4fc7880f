"""Nodes, namespaces, configuration: right and wrong."""

from __future__ import annotations

import base64
from typing import Any

from tests.minicluster.apiserver.builtin.case import Case, Obj


def node(meta: Obj | None = None, status: Obj | None = None, **spec: Any) -> Obj:
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta or {}, "spec": spec, "status": status or {}}


def namespace(meta: Obj | None = None, **rest: Any) -> Obj:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta or {}, **rest}


def config(**rest: Any) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", **rest}


def secret(**rest: Any) -> Obj:
    return {"apiVersion": "v1", "kind": "Secret", **rest}


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


TAINT = {"key": "a", "effect": "NoSchedule"}

CASES = [
    Case("a minimal one", node()),
    Case(
        "allocatable follows capacity", node(status={"capacity": {"cpu": "4000m", "memory": "8192Mi", "pods": "110"}})
    ),
    Case("both given", node(status={"capacity": {"cpu": 4}, "allocatable": {"cpu": "3900m"}})),
    Case("taints", node(taints=[{**TAINT, "value": "x"}])),
    Case("pod cidr", node(podCIDR="10.1.0.0/24")),
    Case("bad pod cidr", node(podCIDR="10.1.0.0", podCIDRs=["10.1.0.0"])),
    Case("taint without effect", node(taints=[{"key": "a"}])),
    Case("taint with odd effect", node(taints=[{"key": "a b", "value": "c d", "effect": "Odd"}])),
    Case("taints repeated", node(taints=[TAINT, {**TAINT, "value": "y"}])),
    Case("negative capacity", node(status={"capacity": {"cpu": "-1"}})),
    Case("half a device", node(status={"capacity": {"example.com/gpu": "500m"}})),
    Case("bad name", node({"name": "Node_1"})),
    Case("cordon", node(), {"spec": {"unschedulable": True}}),
    Case("labels", node(), {"metadata": {"labels": {"a": "b"}}}),
    Case("status by the main resource", node(), {"status": {"capacity": {"cpu": "1"}}}),
    Case(
        "status",
        node(),
        {"status": {"capacity": {"cpu": "1"}, "conditions": [{"type": "Ready", "status": "True"}]}},
        "status",
    ),
    Case(
        "status does not change the spec",
        node(),
        {"spec": {"unschedulable": True}, "metadata": {"labels": {"a": "b"}}},
        "status",
    ),
    Case("status half a device", node(), {"status": {"allocatable": {"example.com/gpu": "0.5"}}}, "status"),
    Case(
        "status addresses repeated",
        node(),
        {"status": {"addresses": [{"type": "InternalIP", "address": "1.2.3.4"}] * 2}},
        "status",
    ),
    Case("provider changes", node(providerID="a"), {"spec": {"providerID": "b"}}),
    Case(
        "cidr changes",
        node(podCIDR="10.1.0.0/24", podCIDRs=["10.1.0.0/24"]),
        {"spec": {"podCIDR": "10.2.0.0/24", "podCIDRs": ["10.2.0.0/24"]}},
    ),
    Case("bad taint in an update", node(), {"spec": {"taints": [{"key": "a"}]}}),
    Case("a minimal one", namespace()),
    Case("bad name", namespace({"name": "a.b"})),
    Case("generated", namespace({"name": "", "generateName": "x-"})),
    Case("status and finalizers", namespace(status={"phase": "Terminating"}, spec={"finalizers": ["example.com/x"]})),
    Case("bad finalizer", namespace(spec={"finalizers": ["odd"]})),
    Case("finalizers do not change", namespace(), {"spec": {"finalizers": None}, "metadata": {"labels": {"a": "b"}}}),
    Case("status terminating", namespace(), {"status": {"phase": "Terminating"}}, "status"),
    Case("name label removed", namespace(), {"metadata": {"labels": {"kubernetes.io/metadata.name": None, "x": "y"}}}),
    Case("a minimal one", config()),
    Case("data", config(data={"a": "b", "c.d": ""}, binaryData={"e": b64("x")})),
    Case("bad keys", config(data={"a b": "c", "..": "x", "..a": "y"}, binaryData={"f/g": b64("x")})),
    Case("key twice", config(data={"a": "c"}, binaryData={"a": b64("x")})),
    Case("too large", config(data={"a": "x" * (1 << 20), "b": "y"})),
    Case("immutable", config(data={"a": "b"}, immutable=True), {"data": {"a": "c"}}),
    Case("immutable made mutable", config(data={"a": "b"}, immutable=True), {"immutable": None}),
    Case("immutable labels", config(data={"a": "b"}, immutable=True), {"metadata": {"labels": {"x": "y"}}}),
    Case(
        "bad labels in an update",
        config(),
        {"metadata": {"labels": {"a b": "c"}, "finalizers": ["odd"], "annotations": {"c d": ""}}},
    ),
    Case(
        "two controllers",
        config(
            metadata={
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": n, "uid": n, "controller": True} for n in "ab"
                ]
            }
        ),
    ),
    Case("generated of a bad base", config(metadata={"name": "", "generateName": "A-"})),
    Case("changed", config(data={"a": "b"}), {"data": {"a": "c"}}),
    Case("bad name", config(metadata={"name": "A_b"})),
    Case("bad labels", config(metadata={"labels": {"a b": "c d", "/x": "", "x" * 64: "y" * 64}})),
    Case("bad annotations", config(metadata={"annotations": {"a b": "", "A/B/c": ""}})),
    Case("bad finalizers", config(metadata={"finalizers": ["odd", "a b/c"]})),
    Case("bad owners", config(metadata={"ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]})),
    Case("a minimal one", secret()),
    Case("string data", secret(stringData={"a": "b"}, data={"a": b64("x"), "c": b64("y")})),
    Case("bad key", secret(data={"a b": b64("x")})),
    Case("tls without parts", secret(type="kubernetes.io/tls")),
    Case("tls without a key", secret(type="kubernetes.io/tls", data={"tls.crt": b64("x")})),
    Case("token without account", secret(type="kubernetes.io/service-account-token")),
    Case("basic auth without parts", secret(type="kubernetes.io/basic-auth")),
    Case("ssh without key", secret(type="kubernetes.io/ssh-auth")),
    Case("docker config missing", secret(type="kubernetes.io/dockerconfigjson")),
    Case("docker config empty", secret(type="kubernetes.io/dockercfg", data={".dockercfg": ""})),
    Case("type changes", secret(), {"type": "other"}),
    Case("immutable", secret(immutable=True, data={"a": b64("x")}), {"data": {"a": b64("y")}}),
    Case("a minimal one", {"apiVersion": "v1", "kind": "ServiceAccount"}),
    Case(
        "with secrets",
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "secrets": [{"name": "x"}],
            "automountServiceAccountToken": False,
        },
    ),
]
