"""Rights to grant rights, to act, and to act as another user."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.minicluster.apiserver.differential.steps import (
    CORE,
    RBAC,
    Step,
    apply,
    delete,
    each,
    get,
    patch,
    post,
    put,
    sequence,
)

NR, CM = f"{RBAC}/namespaces/{{{{ns}}}}", f"{CORE}/configmaps"
AZ, AN = "/apis/authorization.k8s.io/v1", "/apis/authentication.k8s.io/v1"
U = "{{seq}}-u"


def _role(name: str, *rules: dict[str, Any], kind: str = "Role") -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "rules": list(rules),
    }


def _rule(verbs: Iterable[str], resources: Iterable[str], groups: Iterable[str] = ("",), **more: Any) -> dict[str, Any]:
    return {"verbs": list(verbs), "resources": list(resources), "apiGroups": list(groups), **more}


def _binding(name: str, role: str, *users: str, kind: str = "Role") -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": kind, "name": role},
        "subjects": [{"kind": "User", "name": user, "apiGroup": group} for user in users],
    }


def _as(user: str, *groups: str, **extra: str) -> dict[str, str]:
    """The headers with which the administrator acts as another user."""
    headers = {"Impersonate-User": user} | ({"Impersonate-Group": groups[0]} if groups else {})
    return headers | {f"Impersonate-Extra-{key}": value for key, value in extra.items()}


def _review(verb: str, resource: str, group: str = "", namespace: str = "{{ns}}", **more: Any) -> dict[str, Any]:
    attributes = {"verb": verb, "resource": resource, "group": group, "namespace": namespace, **more}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }


def _may(*asked: str, **more: Any) -> Step:
    return post(f"{AZ}/selfsubjectaccessreviews", _review(*asked, **more), headers=_as(U))


def _known(verb: str, resource: str) -> Step:
    """Wait until the server has seen what was granted."""
    return post(
        f"{AZ}/selfsubjectaccessreviews", _review(verb, resource), headers=_as(U), until={"status.allowed": True}
    )


SEQUENCES = [
    sequence(
        "grant-matrix",
        post(
            NR + "/roles",
            _role(
                "maker",
                _rule(["*"], ["roles", "rolebindings"], ["rbac.authorization.k8s.io"]),
                _rule(["get"], ["pods"]),
            ),
        ),
        post(NR + "/rolebindings", _binding("b", "maker", U)),
        _known("get", "pods"),
        post(NR + "/roles", _role("r1", _rule(["get"], ["pods"])), headers=_as(U)),
        post(NR + "/roles", _role("r2", _rule(["get", "list"], ["pods"])), headers=_as(U)),
        post(NR + "/roles", _role("r3", _rule(["get"], ["pods", "secrets"])), headers=_as(U)),
        post(NR + "/roles", _role("r4", _rule(["*"], ["*"], ["*"])), headers=_as(U)),
        post(NR + "/roles", _role("r5", _rule(["get"], ["pods"], resourceNames=["a"])), headers=_as(U)),
        post(NR + "/roles", _role("r6", _rule(["get"], ["pods/log"])), headers=_as(U)),
        patch(NR + "/roles/r1", {"rules": [_rule(["delete"], ["pods"])]}, headers=_as(U)),
        patch(NR + "/roles/r1", {"metadata": {"labels": {"a": "b"}}}, headers=_as(U)),
        put(NR + "/roles/new", _role("new", _rule(["delete"], ["pods"])), headers=_as(U)),
        post(NR + "/rolebindings", _binding("c", "maker", "x"), headers=_as(U)),
        post(NR + "/rolebindings", _binding("d", "r1", "x"), headers=_as(U)),
        post(NR + "/rolebindings", _binding("e", "system:discovery", "x", kind="ClusterRole"), headers=_as(U)),
        post(NR + "/rolebindings", _binding("f", "nope", "x"), headers=_as(U)),
        post(NR + "/rolebindings", _binding("g", "cluster-admin", "x", kind="ClusterRole"), headers=_as(U)),
        post(NR + "/roles?dryRun=All", _role("r7", _rule(["get"], ["secrets"])), headers=_as(U)),
        apply(NR + "/roles/r8", _role("r8", _rule(["get"], ["secrets"])), "m", headers=_as(U)),
        apply(NR + "/roles/r9", _role("r9", _rule(["get"], ["pods"])), "m", headers=_as(U)),
        delete(NR + "/roles/r1", headers=_as(U)),
        post(f"{RBAC}/clusterroles", _role("{{seq}}-cr", _rule(["get"], ["pods"]), kind="ClusterRole"), headers=_as(U)),
    ),
    sequence(
        "grant-verbs",
        post(
            NR + "/roles",
            _role(
                "maker",
                _rule(["create", "get", "escalate"], ["roles"], ["rbac.authorization.k8s.io"]),
                _rule(["create", "bind"], ["rolebindings", "roles"], ["rbac.authorization.k8s.io"]),
                _rule(["bind"], ["clusterroles"], ["rbac.authorization.k8s.io"], resourceNames=["system:node"]),
                _rule(["get"], ["pods"]),
            ),
        ),
        post(NR + "/rolebindings", _binding("b", "maker", U)),
        _known("get", "pods"),
        post(NR + "/roles", _role("r1", _rule(["*"], ["*"], ["*"])), headers=_as(U)),
        post(NR + "/rolebindings", _binding("c", "r1", "x"), headers=_as(U)),
        post(NR + "/rolebindings", _binding("d", "system:node", "x", kind="ClusterRole"), headers=_as(U)),
        post(NR + "/rolebindings", _binding("e", "cluster-admin", "x", kind="ClusterRole"), headers=_as(U)),
    ),
    sequence(
        "can-matrix",
        post(
            NR + "/roles",
            _role(
                "r",
                _rule(["get", "list"], ["pods", "pods/log"]),
                _rule(["*"], ["deployments"], ["apps"]),
                _rule(["get"], ["configmaps"], resourceNames=["a"]),
                _rule(["get"], ["*"], ["batch"]),
                _rule(["update"], ["*/scale"], ["apps"]),
            ),
        ),
        post(NR + "/rolebindings", _binding("b", "r", U)),
        _known("get", "pods"),
        *[
            _may(*a)
            for a in each(
                ("get", "pods"),
                ("list", "pods"),
                ("watch", "pods"),
                ("delete", "pods"),
                ("get", "pods", "", ""),
                ("get", "deployments", "apps"),
                ("deletecollection", "deployments", "apps"),
                ("get", "deployments"),
                ("get", "configmaps"),
                ("get", "jobs", "batch"),
                ("list", "jobs", "batch"),
                ("*", "deployments", "apps"),
                ("*", "*", "*"),
                ("get", "*", "batch"),
                ("odd", "odd", "odd"),
            )
        ],
        _may("get", "configmaps", name="a"),
        _may("get", "configmaps", name="b"),
        _may("get", "pods", subresource="log"),
        _may("get", "pods", subresource="exec"),
        _may("update", "deployments", "apps", subresource="scale"),
        _may("update", "replicasets", "apps", subresource="scale"),
        _may("get", "pods", version="v1"),
        _may("list", "pods", fieldSelector={"rawSelector": "a=b"}),
        _may("list", "pods", labelSelector={"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]}),
        post(
            AZ + "/selfsubjectaccessreviews",
            {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {}},
        ),
        post(
            AZ + "/selfsubjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {}, "nonResourceAttributes": {}},
            },
        ),
        post(
            AZ + "/selfsubjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"nonResourceAttributes": {"path": "/openapi/v3", "verb": "get"}},
            },
            headers=_as(U),
        ),
        post(
            AZ + "/selfsubjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "metadata": {"name": "x"},
                "spec": {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}},
            },
            headers=_as(U),
        ),
        post(
            AZ + "/subjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {"user": U, "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "{{ns}}"}},
            },
        ),
        post(
            AZ + "/subjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
            },
        ),
        post(
            AZ + "/subjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {"groups": ["system:masters"], "resourceAttributes": {"verb": "get", "resource": "pods"}},
            },
        ),
        post(
            AZ + "/subjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {
                    "user": "u",
                    "nonResourceAttributes": {"path": "/x", "verb": "get"},
                    "extra": {"a": ["b"]},
                    "uid": "1",
                },
            },
        ),
        post(
            AZ + "/namespaces/{{ns}}/localsubjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "LocalSubjectAccessReview",
                "spec": {"user": U, "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "other"}},
            },
        ),
        post(
            AZ + "/namespaces/{{ns}}/localsubjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "LocalSubjectAccessReview",
                "metadata": {"namespace": "{{ns}}"},
                "spec": {"user": U, "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "{{ns}}"}},
            },
        ),
        post(
            AZ + "/subjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {"user": U, "resourceAttributes": {"verb": "get", "resource": "pods"}},
            },
            headers=_as(U),
        ),
    ),
    sequence(
        "impersonation-matrix",
        *[
            get(CM, headers=h)
            for h in each(
                _as("u"),
                _as("u", "g"),
                _as("u", "system:masters"),
                {"Impersonate-Group": "g"},
                {"Impersonate-User": ""},
                _as("system:serviceaccount:{{ns}}:default"),
                _as("system:serviceaccount:x"),
                _as("system:anonymous"),
                {"Impersonate-User": "u", "Impersonate-Uid": "7"},
                {"Impersonate-Uid": "7"},
                _as("u", Scopes="a"),
                {"Impersonate-Extra-x": "y"},
                _as("system:admin", "system:masters"),
            )
        ],
        *[
            post(
                AN + "/selfsubjectreviews",
                {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
                headers=h,
            )
            for h in each(
                {},
                _as("u"),
                _as("u", "g"),
                _as("system:serviceaccount:{{ns}}:default"),
                _as("system:anonymous"),
                {"Impersonate-User": "u", "Impersonate-Uid": "7"},
                _as("u", **{"Scopes": "a", "Acme.com%2fproject": "x"}),
            )
        ],
        post(
            AN + "/selfsubjectreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
            user="nobody",
        ),
        get(CM, headers=_as("u"), user="nobody"),
        get(CM, headers=_as("u", "g"), user="nobody"),
        post(
            AN + "/selfsubjectreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
            user="anonymous",
        ),
        get(CM, user="anonymous"),
        get(CM, user="wrong-token"),
        get("/healthz", user="wrong-token"),
        get("/api", user="anonymous"),
        get("/openapi/v3", user="anonymous"),
        get(CM + "/x", user="nobody"),
        get("/api/v1/nodes/x/status", user="nobody"),
        post(f"{CORE}/pods/x/eviction", {}, user="nobody"),
        delete(CM, user="nobody"),
        get("/apis/nothing.io/v1/things", user="nobody"),
        get("/nothing", user="nobody"),
        get("/nothing"),
    ),
]
