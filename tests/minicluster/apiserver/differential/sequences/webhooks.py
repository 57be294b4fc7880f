"""Admission webhooks: what they change, refuse, and break."""

# ruff: noqa: E501 - a request is a row of a table

from __future__ import annotations

from typing import Any

from tests.minicluster.apiserver.differential.steps import (
    CORE,
    HOOKS,
    MERGE,
    Sequence,
    Step,
    apply,
    config_map,
    crd,
    delete,
    get,
    patch,
    pod,
    post,
    put,
    sequence,
    served,
    widget,
)

CM = f"{CORE}/configmaps"
PODS = f"{CORE}/pods"
MUTATING = f"{HOOKS}/mutatingwebhookconfigurations"
VALIDATING = f"{HOOKS}/validatingwebhookconfigurations"


def _hook(
    path: str, name: str = "hook.example.com", resources: tuple[str, ...] = ("configmaps",), **more: Any
) -> dict[str, Any]:
    return {
        "name": name,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "{{webhook}}" + path, "caBundle": "{{webhook-ca}}"},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "{{ns}}"}},
        "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": list(resources), "operations": ["*"]}],
        **more,
    }


def _mutating(*hooks: dict[str, Any], name: str = "{{seq}}") -> Step:
    return post(MUTATING, {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": list(hooks)})  # fmt: skip


def _validating(*hooks: dict[str, Any], name: str = "{{seq}}") -> Step:
    return post(VALIDATING, {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": list(hooks)})  # fmt: skip


def _until_labelled() -> Step:
    return post(f"{CM}?dryRun=All", config_map("probe"), until={"metadata.labels.first": "yes"})


_WARNED = ['299 - "first warning"', '299 - "second warning"']


def _until_code(code: int) -> Step:
    return post(f"{CM}?dryRun=All", config_map("probe"), until={"code": code})


def _broken(name: str, path: str, **more: Any) -> Sequence:
    """A hook that does not answer as it should, with both failure policies."""
    return sequence(
        f"hook-broken-{name}",
        _mutating(_hook(path, failurePolicy="Fail", **more)),
        _until_code(500),
        patch(f"{MUTATING}/{{{{seq}}}}", {"webhooks": [_hook(path, failurePolicy="Ignore", **more)]}),
        _until_code(201),
    )  # fmt: skip


SEQUENCES = [
    sequence(
        "hook-mutate",
        _mutating(_hook("/label")),
        _until_labelled(),
        post(CM, config_map("a", {"x": "1"})),
        put(f"{CM}/a", config_map("a", {"x": "2"})),
        patch(f"{CM}/a", {"metadata": {"labels": {"first": "no"}}}),
        apply(f"{CM}/b", config_map("b", {"y": "1"})),
        get(f"{CM}/a"),
        delete(f"{MUTATING}/{{{{seq}}}}"),
    ),
    sequence(
        "hook-deny",
        _validating(_hook("/deny")),
        _until_code(400),
        post(CM, config_map("a")),
        apply(f"{CM}/a", config_map("a")),
        delete(CM),
        get(CM),
    ),
    sequence(
        "hook-deny-details",
        _validating(_hook("/deny-code")),
        _until_code(409),
        post(CM, config_map("a")),
    ),
    sequence("hook-deny-bare", _validating(_hook("/deny-bare")), _until_code(400), post(CM, config_map("a"))),
    sequence("hook-mutating-deny", _mutating(_hook("/deny")), _until_code(400), post(CM, config_map("a"))),
    sequence(
        "hook-warnings",
        _validating(_hook("/warn")),
        post(f"{CM}?dryRun=All", config_map("probe", labels={"a": "b"}), until={"headers.Warning": _WARNED}),
        _mutating(_hook("/label")),
        _until_labelled(),
        post(CM, config_map("a")),
        patch(f"{CM}/a", {"data": {"x": "1"}}),
        delete(f"{CM}/a"),
    ),
    sequence(
        "hook-operations",
        post(CM, config_map("a")),
        post(CM, config_map("b")),
        _validating(_hook("/deny", rules=[{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["DELETE"]}])),
        delete(f"{CM}/a?dryRun=All", until={"code": 400}),
        post(CM, config_map("c")),
        put(f"{CM}/a", config_map("a", {"x": "1"})),
        delete(f"{CM}/a"),
        delete(CM),
        get(f"{CM}/a"),
    ),
    sequence(
        "hook-echo-create",
        _validating(_hook("/echo")),
        _until_code(400),
        post(CM, config_map("a")),
        post(f"{CM}?dryRun=All&fieldManager=m", config_map("a")),
        post(CM, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}}),
        post(CM, config_map("a"), headers={"Impersonate-User": "alice", "Impersonate-Group": "devs"}),
        apply(f"{CM}/a", config_map("a")),
    ),
    sequence(
        "hook-echo-change",
        post(CM, config_map("a")),
        post(PODS, pod("p")),
        _validating(_hook("/echo", resources=("configmaps", "pods", "pods/*"))),
        put(f"{CM}/a", config_map("a", {"x": "1"}), until={"code": 400}),
        patch(f"{CM}/a", {"data": {"x": "1"}}, MERGE),
        apply(f"{CM}/a", config_map("a", {"q": "1"}), force=True),
        delete(f"{CM}/a", {"propagationPolicy": "Background", "gracePeriodSeconds": 5}),
        patch(f"{PODS}/p/status", {"status": {"phase": "Running"}}),
        post(f"{PODS}/p/binding", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}),
        post(f"{PODS}/p/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}),
        delete(CM),
    ),
    sequence(
        "hook-order",
        _mutating(_hook("/count", "a.example.com"), _hook("/label", "b.example.com")),
        _until_labelled(),
        post(CM, config_map("a")),
    ),
    sequence(
        "hook-reinvocation",
        _mutating(_hook("/count", "a.example.com", reinvocationPolicy="IfNeeded"), _hook("/label", "b.example.com", reinvocationPolicy="IfNeeded")),
        _until_labelled(),
        post(CM, config_map("a")),
        post(CM, config_map("b", labels={"first": "yes"})),
    ),
    sequence(
        "hook-reinvocation-never",
        _mutating(_hook("/count", "a.example.com", reinvocationPolicy="Never"), _hook("/label", "b.example.com"), _hook("/count", "c.example.com", reinvocationPolicy="IfNeeded")),
        _until_labelled(),
        post(CM, config_map("a")),
    ),
    sequence(
        "hook-object-selector",
        _mutating(_hook("/label", objectSelector={"matchLabels": {"want": "it"}})),
        post(f"{CM}?dryRun=All", config_map("probe", labels={"want": "it"}), until={"metadata.labels.first": "yes"}),
        post(CM, config_map("a")),
        post(CM, config_map("b", labels={"want": "it"})),
        patch(f"{CM}/a", {"metadata": {"labels": {"want": "it"}}}),
    ),
    sequence(
        "hook-match-conditions",
        _validating(_hook("/deny", matchConditions=[{"name": "not-friends", "expression": "request.userInfo.username != 'friend'"}, {"name": "has-data", "expression": "has(object.data)"}])),
        post(f"{CM}?dryRun=All", config_map("probe", {"a": "b"}), until={"code": 400}),
        post(CM, config_map("a", {"a": "b"})),
        post(CM, config_map("b")),
        post(f"{CM}?dryRun=All", config_map("c", {"a": "b"}), headers={"Impersonate-User": "friend", "Impersonate-Group": "system:masters"}),
    ),
    sequence(
        "hook-match-condition-errors",
        _validating(_hook("/allow", matchConditions=[{"name": "breaks", "expression": "object.data.key == 'x'"}])),
        post(f"{CM}?dryRun=All", config_map("probe"), until={"code": 403}),
        post(CM, config_map("a", {"key": "y"})),
        post(CM, config_map("b", {"key": "x"})),
    ),
    sequence(
        "hook-rules",
        post(CM, config_map("a")),
        _validating(_hook("/deny", rules=[{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["*/status", "services"], "operations": ["*"], "scope": "Namespaced"}])),
        post(f"{CORE}/services?dryRun=All", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}}, until={"code": 400}),
        post(PODS, pod("p")),
        patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}),
        patch(f"{PODS}/p/status", {"status": {"phase": "Running"}}),
        patch(f"{CM}/a", {"data": {"a": "b"}}),
    ),
    sequence(
        "hook-scope",
        _validating(_hook("/deny", rules=[{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["CREATE"], "scope": "Cluster"}], objectSelector={"matchLabels": {"seq": "{{seq}}"}}, namespaceSelector={})),
        post("/api/v1/nodes?dryRun=All", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "{{seq}}", "labels": {"seq": "{{seq}}"}}}, until={"code": 400}),
        post(CM, config_map("a", labels={"seq": "{{seq}}"})),
    ),
    sequence(
        "hook-custom",
        post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd(schema={"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer", "default": 3}}}}})),
        served(),
        _mutating(_hook("/label", resources=("widgets",))),
        post("/apis/{{seq}}.example.com/v1/namespaces/{{ns}}/widgets?dryRun=All", widget("probe"), until={"metadata.labels.first": "yes"}),
        post("/apis/{{seq}}.example.com/v1/namespaces/{{ns}}/widgets", widget("w", spec={})),
        patch("/apis/{{seq}}.example.com/v1/namespaces/{{ns}}/widgets/w", {"spec": {"n": 5}}),
    ),
    sequence(
        "hook-pod-sidecar",
        _mutating(_hook("/default-container", resources=("pods",), rules=[{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}])),
        post(f"{PODS}?dryRun=All", pod("probe"), until={"spec.containers.1.name": "sidecar"}),
        post(PODS, pod("p")),
    ),
    sequence(
        "hook-invalid-result",
        _mutating(_hook("/invalid-result")),
        post(f"{CM}?dryRun=All", config_map("probe", labels={"x": "y"}), until={"code": 422}),
        post(CM, config_map("a", labels={"x": "y"})),
    ),
    sequence("hook-break-name", _mutating(_hook("/break-name")), post(f"{CM}?dryRun=All", config_map("probe"), until={"metadata.name": "other"})),
    sequence("hook-unknown-field", _mutating(_hook("/unknown-field")), _mutating(_hook("/label"), name="{{seq}}-second"), _until_labelled(), post(CM, config_map("a"))),
    sequence(
        "hook-dry-run-side-effects",
        _validating(_hook("/deny", sideEffects="NoneOnDryRun")),
        _until_code(400),
        post(CM, config_map("a")),
    ),
    _broken("crash", "/crash"),
    _broken("empty", "/empty"),
    _broken("not-json", "/not-json"),
    _broken("no-response", "/no-response"),
    _broken("wrong-uid", "/wrong-uid"),
    _broken("wrong-version", "/wrong-version"),
    _broken("missing", "/no/such/path"),
    _broken("bad-patch", "/bad-patch"),
    sequence("hook-broken-missing-path", _mutating(_hook("/missing-path", failurePolicy="Ignore")), _until_code(500)),
    _broken("patch-without-type", "/patch-without-type"),
    _broken("wrong-ca", "/allow", clientConfig={"url": "{{webhook}}/allow", "caBundle": "{{webhook-other-ca}}"}),
    _broken("refused", "/allow", clientConfig={"url": "https://127.0.0.1:1/allow", "caBundle": "{{webhook-ca}}"}),
    _broken("slow", "/slow", timeoutSeconds=1),
    _broken("no-service", "/allow", clientConfig={"service": {"name": "absent", "namespace": "{{ns}}"}, "caBundle": "{{webhook-ca}}"}),
]  # fmt: skip
