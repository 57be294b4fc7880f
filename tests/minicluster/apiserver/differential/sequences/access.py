"""Users and their rights: authentication, RBAC, impersonation, reviews, service account tokens."""

# ruff: noqa: E501 - a request is a row of a table

from __future__ import annotations

from typing import Any

from tests.minicluster.apiserver.differential.steps import (
    CORE,
    RBAC,
    Step,
    apply,
    config_map,
    delete,
    get,
    patch,
    pod,
    post,
    put,
    saving,
    sequence,
    watch,
)

CM = f"{CORE}/configmaps"
PODS = f"{CORE}/pods"
ROLES = f"{RBAC}/namespaces/{{{{ns}}}}/roles"
BINDINGS = f"{RBAC}/namespaces/{{{{ns}}}}/rolebindings"
AUTHZ = "/apis/authorization.k8s.io/v1"
AUTHN = "/apis/authentication.k8s.io/v1"


def _role(name: str, *rules: dict[str, Any], kind: str = "Role") -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "rules": list(rules),
    }


def _rule(verbs: str, resources: str, groups: str = "", **more: Any) -> dict[str, Any]:
    return {
        "verbs": verbs.split(),
        "resources": resources.split(),
        "apiGroups": groups.split(",") if groups else [""],
        **more,
    }


def _binding(
    name: str, role: str, user: str, *, role_kind: str = "Role", kind: str = "RoleBinding", subject: str = "User"
) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": subject, "name": user}],
    }


def _as(user: str, *groups: str) -> dict[str, str]:
    """The headers of an impersonated request; a user of the sequence's own, so that sequences do not meet."""
    return {"Impersonate-User": user, **({"Impersonate-Group": groups[0]} if groups else {})}


ME = _as("{{seq}}-user")


def _me(step: Step, code: int = 0) -> Step:
    from dataclasses import replace

    return replace(step, headers={**step.headers, **ME}, until={"code": code} if code else {})


def _review(kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}


SEQUENCES = [
    sequence(
        "authentication",
        get(CM, user="anonymous"),
        get(CM, user="wrong-token"),
        get(CM, user="anonymous", headers={"Authorization": "Basic YTpi"}),
        get(CM, user="anonymous", headers={"Authorization": "Bearer"}),
        get(CM, user="anonymous", headers={"Authorization": "Bearer "}),
        get(CM, user="anonymous", headers={"Authorization": "bearer admin-token"}),
        get("/healthz", user="anonymous"),
        get("/livez", user="anonymous"),
        get("/readyz", user="anonymous"),
        get("/healthz", user="wrong-token"),
        get("/healthz", user="nobody"),
    ),
    sequence(
        "forbidden",
        get(CM, user="nobody"),
        get(f"{CM}/a", user="nobody"),
        post(CM, config_map("a"), user="nobody"),
        put(f"{CM}/a", config_map("a"), user="nobody"),
        patch(f"{CM}/a", {}, user="nobody"),
        apply(f"{CM}/a", config_map("a"), user="nobody"),
        delete(f"{CM}/a", user="nobody"),
        delete(CM, user="nobody"),
        watch(CM, 0, user="nobody"),
        get("/api/v1/nodes", user="nobody"),
        get("/api/v1/nodes/x", user="nobody"),
        get("/api/v1/configmaps", user="nobody"),
        get(f"{PODS}/p/log", user="nobody"),
        patch(f"{PODS}/p/status", {}, user="nobody"),
        post(f"{PODS}/p/eviction", {}, user="nobody"),
        get("/apis/apps/v1/namespaces/{{ns}}/deployments/d/scale", user="nobody"),
        get("/apis/nothing.example.com/v1/things", user="nobody"),
        get("/apis/nothing.example.com/v1/namespaces/{{ns}}/things/x/sub", user="nobody"),
        get("/metrics", user="nobody"),
        get("/nothing", user="nobody"),
        get("/", user="nobody"),
        get("/api", user="nobody"),
        get("/apis", user="nobody", only=("kind",)),
        get("/version", user="nobody", shape=True),
        get("/openapi/v3", user="nobody", only=("code",)),
        get("/api/v1/namespaces/{{ns}}", user="nobody"),
        get("/api/v1/namespaces", user="nobody"),
        get("/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin", user="nobody"),
        post(CM, "nonsense", user="nobody"),
    ),
    sequence(
        "roles",
        post(ROLES, _role("reader", _rule("get list", "configmaps"))),
        post(BINDINGS, _binding("readers", "reader", "{{seq}}-user")),
        _me(get(CM), 200),
        _me(get(f"{CM}/absent")),
        _me(watch(CM, 0)),
        _me(post(CM, config_map("a"))),
        _me(get("/api/v1/configmaps")),
        _me(get("/api/v1/namespaces/default/configmaps")),
        _me(get(f"{CORE}/secrets")),
        patch(f"{ROLES}/reader", {"rules": [_rule("*", "configmaps pods/log")]}),
        _me(post(CM, config_map("a")), 201),
        _me(get(f"{PODS}/absent/log")),
        _me(get(f"{PODS}/absent")),
        delete(f"{BINDINGS}/readers"),
        _me(get(CM), 403),
    ),
    sequence(
        "cluster-roles",
        post(f"{RBAC}/clusterroles", _role("{{seq}}", _rule("get", "configmaps nodes"), {"nonResourceURLs": ["/nothing/*", "/metrics"], "verbs": ["get"]}, kind="ClusterRole")),
        post(BINDINGS, _binding("b", "{{seq}}", "{{seq}}-user", role_kind="ClusterRole")),
        _me(get(f"{CM}/absent"), 404),
        _me(get("/api/v1/nodes/{{seq}}-absent")),
        _me(get("/nothing/here")),
        post(f"{RBAC}/clusterrolebindings", _binding("{{seq}}", "{{seq}}", "{{seq}}-user", role_kind="ClusterRole", kind="ClusterRoleBinding")),
        _me(get("/api/v1/nodes/{{seq}}-absent"), 404),
        _me(get("/nothing/here")),
        _me(get("/nothing")),
        _me(get("/api/v1/namespaces/default/configmaps/absent")),
    ),
    sequence(
        "resource-names",
        post(CM, config_map("a")), post(CM, config_map("b")),
        post(ROLES, _role("r", _rule("get update patch delete list watch", "configmaps", resourceNames=["a"]))),
        post(BINDINGS, _binding("b", "r", "{{seq}}-user")),
        _me(get(f"{CM}/a"), 200),
        _me(get(f"{CM}/b")),
        _me(get(CM)),
        _me(get(f"{CM}?fieldSelector=metadata.name%3Da")),
        _me(get(f"{CM}?fieldSelector=metadata.name%3Db")),
        _me(patch(f"{CM}/a", {"data": {"x": "y"}})),
        _me(delete(f"{CM}/b")),
        _me(delete(CM)),
    ),
    sequence(
        "built-in-roles",
        *[
            step
            for role in ("cluster-admin", "system:node-proxier", "system:kube-scheduler")
            for step in (
                post(BINDINGS, _binding(role, role, "{{seq}}-" + role, role_kind="ClusterRole")),
                get(f"{CORE}/services", headers=_as("{{seq}}-" + role), until={"code": 200}),
                get(f"{CORE}/secrets", headers=_as("{{seq}}-" + role)),
                post(PODS, pod("p"), headers=_as("{{seq}}-" + role)),
                get(ROLES, headers=_as("{{seq}}-" + role)),
                post(ROLES, _role("r", _rule("get", "configmaps")), headers=_as("{{seq}}-" + role)),
                get("/api/v1/nodes", headers=_as("{{seq}}-" + role)),
            )
        ],
        *[get(f"{RBAC}/clusterroles/{name}", only=("rules", "aggregationRule", "metadata.labels")) for name in ("cluster-admin", "system:discovery", "system:basic-user", "system:public-info-viewer")],
        get(f"{RBAC}/clusterrolebindings/cluster-admin", only=("subjects", "roleRef", "metadata.labels", "metadata.annotations")),
        get(f"{RBAC}/clusterrolebindings/system:discovery", only=("subjects", "roleRef")),
    ),
    sequence(
        "escalation",
        post(ROLES, _role("makers", _rule("create update patch", "roles rolebindings", "rbac.authorization.k8s.io"), _rule("get", "pods"))),
        post(BINDINGS, _binding("makers", "makers", "{{seq}}-user")),
        _me(post(ROLES, _role("same", _rule("get", "pods"))), 201),
        _me(post(ROLES, _role("more", _rule("get list", "pods"), _rule("delete", "nodes")))),
        _me(post(BINDINGS, _binding("grab", "cluster-admin", "{{seq}}-user", role_kind="ClusterRole"))),
        _me(post(BINDINGS, _binding("fine", "same", "somebody"))),
        _me(post(BINDINGS, _binding("missing", "absent", "somebody"))),
        _me(patch(f"{ROLES}/same", {"rules": [_rule("*", "*", "*")]})),
    ),
    sequence(
        "impersonation",
        post(f"{AUTHN}/selfsubjectreviews", {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}),
        *[
            post(f"{AUTHN}/selfsubjectreviews", {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}, headers=headers)
            for headers in (
                {"Impersonate-User": "alice"}, {"Impersonate-User": "alice", "Impersonate-Group": "devs"}, {"Impersonate-User": "alice", "Impersonate-Uid": "7", "Impersonate-Extra-Scope": "a"},
                {"Impersonate-Group": "devs"}, {"Impersonate-Uid": "7"}, {"Impersonate-Extra-Scope": "x"}, {"Impersonate-User": "system:serviceaccount:{{ns}}:robot"}, {"Impersonate-User": "system:anonymous"},
                {"Impersonate-User": "alice", "Impersonate-Group": "system:masters"}, {"Impersonate-User": "alice", "Impersonate-Extra-a%2fb": "x"}, {"Impersonate-User": "system:serviceaccount:bad"},
            )
        ],
        get(CM, user="nobody", headers={"Impersonate-User": "token-admin"}),
        get(CM, user="nobody", headers={"Impersonate-User": "nobody", "Impersonate-Group": "system:masters"}),
        get(CM, user="nobody", headers={"Impersonate-User": "system:serviceaccount:default:x"}),
        get(CM, user="anonymous", headers={"Impersonate-User": "token-admin"}),
        post(f"{RBAC}/clusterroles", _role("{{seq}}", _rule("impersonate", "users", resourceNames=["{{seq}}-friend"]), kind="ClusterRole")),
        post(f"{RBAC}/clusterrolebindings", _binding("{{seq}}", "{{seq}}", "nobody", role_kind="ClusterRole", kind="ClusterRoleBinding")),
        post(f"{AUTHN}/selfsubjectreviews", {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}, user="nobody", headers={"Impersonate-User": "{{seq}}-friend"}, until={"code": 201}),
        get(CM, user="nobody", headers={"Impersonate-User": "{{seq}}-enemy"}),
        get(CM, user="nobody", headers={"Impersonate-User": "{{seq}}-friend", "Impersonate-Group": "g"}),
        get(CM, user="nobody", headers={"Impersonate-User": "{{seq}}-friend"}),
    ),
    sequence(
        "access-reviews",
        post(f"{AUTHZ}/selfsubjectaccessreviews", _review("SelfSubjectAccessReview", resourceAttributes={"verb": "get", "resource": "pods", "namespace": "{{ns}}"})),
        post(f"{AUTHZ}/selfsubjectaccessreviews", _review("SelfSubjectAccessReview", resourceAttributes={"verb": "get", "resource": "pods", "namespace": "{{ns}}"}), user="nobody"),
        post(f"{AUTHZ}/selfsubjectaccessreviews", _review("SelfSubjectAccessReview", nonResourceAttributes={"path": "/api", "verb": "get"}), user="nobody"),
        post(f"{AUTHZ}/selfsubjectaccessreviews", _review("SelfSubjectAccessReview", nonResourceAttributes={"path": "/metrics", "verb": "get"}), user="nobody"),
        post(f"{AUTHZ}/selfsubjectaccessreviews", _review("SelfSubjectAccessReview")),
        post(f"{AUTHZ}/selfsubjectaccessreviews", _review("SelfSubjectAccessReview", resourceAttributes={}, nonResourceAttributes={})),
        post(f"{AUTHZ}/selfsubjectaccessreviews", {**_review("SelfSubjectAccessReview", resourceAttributes={"verb": "get"}), "metadata": {"name": "x"}}),
        post(ROLES, _role("r", _rule("get", "pods", resourceNames=["one"]))),
        post(BINDINGS, _binding("b", "r", "{{seq}}-user")),
        post(f"{AUTHZ}/subjectaccessreviews", _review("SubjectAccessReview", user="{{seq}}-user", resourceAttributes={"verb": "get", "resource": "pods", "name": "one", "namespace": "{{ns}}"}), until={"status.allowed": True}),
        post(f"{AUTHZ}/subjectaccessreviews", _review("SubjectAccessReview", user="{{seq}}-user", resourceAttributes={"verb": "get", "resource": "pods", "name": "two", "namespace": "{{ns}}"})),
        post(f"{AUTHZ}/subjectaccessreviews", _review("SubjectAccessReview", user="{{seq}}-user", groups=["system:masters"], resourceAttributes={"verb": "eat", "resource": "anything"})),
        post(f"{AUTHZ}/subjectaccessreviews", _review("SubjectAccessReview", resourceAttributes={"verb": "get", "resource": "pods"})),
        post(f"{AUTHZ}/subjectaccessreviews", _review("SubjectAccessReview", user="x"), user="nobody"),
        post(f"{AUTHZ}/namespaces/{{{{ns}}}}/localsubjectaccessreviews", {**_review("LocalSubjectAccessReview", user="{{seq}}-user", resourceAttributes={"verb": "get", "resource": "pods", "name": "one", "namespace": "{{ns}}"}), "metadata": {"namespace": "{{ns}}"}}),
        post(f"{AUTHZ}/namespaces/{{{{ns}}}}/localsubjectaccessreviews", {**_review("LocalSubjectAccessReview", user="u", resourceAttributes={"verb": "get", "resource": "pods", "namespace": "other"}), "metadata": {"namespace": "{{ns}}"}}),
        post(f"{AUTHZ}/selfsubjectrulesreviews", _review("SelfSubjectRulesReview", namespace="{{ns}}"), headers=ME, only=("kind", "status.incomplete")),
        post(f"{AUTHZ}/selfsubjectrulesreviews", _review("SelfSubjectRulesReview")),
    ),
    sequence(
        "token-requests",
        post(f"{CORE}/serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}),
        saving(post(f"{CORE}/serviceaccounts/robot/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}), robot="status.token"),
        get(CM, user="{{robot}}"),
        post(f"{AUTHN}/selfsubjectreviews", {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}, user="{{robot}}"),
        post(ROLES, _role("reader", _rule("list", "configmaps"))),
        post(BINDINGS, {**_binding("b", "reader", "robot"), "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "{{ns}}"}]}),
        get(CM, user="{{robot}}", until={"code": 200}),
        post(f"{AUTHN}/tokenreviews", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "{{robot}}"}}),
        post(f"{AUTHN}/tokenreviews", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "wrong"}}),
        post(f"{AUTHN}/tokenreviews", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {}}),
        post(f"{CORE}/serviceaccounts/robot/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 5}}),
        post(f"{CORE}/serviceaccounts/robot/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": {"kind": "Pod", "name": "absent", "apiVersion": "v1"}}}),
        post(f"{CORE}/serviceaccounts/absent/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}),
        delete(f"{CORE}/serviceaccounts/robot"),
        get(CM, user="{{robot}}", until={"code": 401}),
    ),
    sequence(
        "binding-immutable",
        post(BINDINGS, _binding("b", "r", "u")),
        patch(f"{BINDINGS}/b", {"roleRef": {"name": "other"}}),
        patch(f"{BINDINGS}/b", {"subjects": []}),
        put(f"{BINDINGS}/b", _binding("b", "other", "u")),
    ),
]  # fmt: skip
