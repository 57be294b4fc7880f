"""Roles, bindings, and questions about them, for which a real server's answers are recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

GROUP = "rbac.authorization.k8s.io"


def rule(verbs: str, groups: str, resources: str, names: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {
        "verbs": verbs.split(","),
        "apiGroups": ["" if group == "core" else group for group in groups.split(",")],
        "resources": resources.split(","),
    }
    return {**made, "resourceNames": names.split(",")} if names else made


def urls(verbs: str, *paths: str) -> dict[str, Any]:
    return {"verbs": verbs.split(","), "nonResourceURLs": list(paths)}


def role(name: str, *rules: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    kind = "Role" if namespace else "ClusterRole"
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": meta, "rules": list(rules)}


def binding(name: str, to: str, *subjects: str, namespace: str = "") -> dict[str, Any]:
    """`to` is `Role/name` or `ClusterRole/name`; subjects are `User/bob`, `Group/dev`, `ServiceAccount/ns/name`."""
    role_kind, _, role_name = to.partition("/")
    made = []
    for subject in subjects:
        kind, _, rest = subject.partition("/")
        if kind == "ServiceAccount":
            where, _, account = rest.partition("/")
            made.append({"kind": kind, "namespace": where, "name": account})
        else:
            made.append({"kind": kind, "apiGroup": GROUP, "name": rest})
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role_name},
        "subjects": made,
    }


OBJECTS = [
    role(
        "t-mixed",
        rule("get", "core", "pods/log,*/scale"),
        rule("*", "apps", "deployments"),
        rule("get,update", "core", "configmaps", "c1,c2"),
        rule("list", "*", "secrets"),
    ),
    role("t-all-pods", rule("*", "core", "pods,pods/*")),
    role("t-stars", rule("*", "*", "*")),
    role("t-urls", urls("get", "/metrics", "/logs/*"), urls("post", "*")),
    role("t-local", rule("get,list", "core", "pods"), namespace="default"),
    binding("t-mixed", "ClusterRole/t-mixed", "User/tu", "Group/tg", "ServiceAccount/default/tsa"),
    binding("t-mixed-here", "ClusterRole/t-mixed", "User/local-user", namespace="default"),
    binding("t-local", "Role/t-local", "User/local-user", "Group/system:serviceaccounts", namespace="default"),
    binding("t-stars-here", "ClusterRole/t-stars", "User/local-admin", namespace="default"),
    binding("t-urls", "ClusterRole/t-urls", "User/url-user"),
    binding("t-pods", "ClusterRole/t-all-pods", "User/pod-user"),
    binding("t-lost", "Role/t-gone", "User/lost", "User/tu", namespace="default"),
    binding("t-lost", "ClusterRole/t-gone", "User/lost"),
]

USERS: list[tuple[str, tuple[str, ...]]] = [
    ("tu", ()),
    ("someone", ("tg", "other")),
    ("system:serviceaccount:default:tsa", ("system:serviceaccounts",)),
    ("local-user", ()),
    ("local-admin", ()),
    ("url-user", ()),
    ("pod-user", ()),
    ("lost", ()),
    ("stranger", ("system:authenticated",)),
    ("root", ("system:masters",)),
]

WANTED: list[dict[str, str]] = [
    {"verb": "get", "resource": "pods", "namespace": "default"},
    {"verb": "get", "resource": "pods", "namespace": "other"},
    {"verb": "get", "resource": "pods", "subresource": "log", "namespace": "default"},
    {"verb": "get", "resource": "pods", "subresource": "log"},
    {"verb": "create", "resource": "pods", "subresource": "exec", "namespace": "default"},
    {"verb": "get", "group": "apps", "resource": "deployments", "subresource": "scale"},
    {"verb": "get", "resource": "replicationcontrollers", "subresource": "scale", "namespace": "default"},
    {"verb": "delete", "group": "apps", "resource": "deployments", "name": "x", "namespace": "default"},
    {"verb": "delete", "group": "apps", "resource": "deployments", "subresource": "status", "namespace": "default"},
    {"verb": "get", "resource": "configmaps", "name": "c1", "namespace": "default"},
    {"verb": "get", "resource": "configmaps", "namespace": "default"},
    {"verb": "update", "resource": "configmaps", "name": "c3", "namespace": "other"},
    {"verb": "list", "group": "any.example.com", "resource": "secrets"},
    {"verb": "*", "group": "apps", "resource": "deployments"},
    {"verb": "*", "group": "*", "resource": "*", "namespace": "default"},
    {"verb": "*", "group": "*", "resource": "*"},
    {"verb": "get", "path": "/api"},
    {"verb": "get", "path": "/metrics"},
    {"verb": "get", "path": "/metrics/x"},
    {"verb": "get", "path": "/logs/a/b"},
    {"verb": "post", "path": "/anything"},
]


def questions() -> Iterator[tuple[str, tuple[str, ...], dict[str, str]]]:
    for user, groups in USERS:
        for wanted in WANTED:
            yield user, groups, wanted


def review(user: str, groups: tuple[str, ...], wanted: dict[str, str]) -> dict[str, Any]:
    """The SubjectAccessReview that asks this."""
    place = "nonResourceAttributes" if "path" in wanted else "resourceAttributes"
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": list(groups), place: wanted},
    }


GRANTS: list[tuple[str, list[dict[str, Any]]]] = [
    ("what is held", [rule("get", "core", "pods")]),
    ("some verbs more", [rule("get,list,watch,delete", "core", "pods,secrets")]),
    ("named objects", [rule("get", "core", "secrets", "x,y"), rule("get", "apps,batch", "*")]),
    ("everything", [rule("*", "*", "*")]),
    ("a subresource", [rule("get", "core", "pods/log")]),
    ("nothing", []),
    ("a held subresource by star", [rule("update", "apps", "deployments/scale")]),
]
"""Roles that a user tries to create in the namespace default, holding what HELD says there."""

HELD = [
    rule("create,get,list,update", GROUP, "roles,rolebindings"),
    rule("get,list", "core", "pods"),
    rule("update", "apps", "*/scale"),
]
