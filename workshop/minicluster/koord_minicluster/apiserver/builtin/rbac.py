"""Roles and bindings: rules that say something, and a role that a binding never trades for another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from koord.api.text import formats
from koord_minicluster.apiserver.builtin.checks import Faults, Part, add_all, label_selector
from koord_minicluster.apiserver.printing import AGE, CREATED_AT, NAME, of, text
from koord_minicluster.apiserver.resource import Obj, Strategy
from koord_minicluster.apiserver.status import Cause, invalid, not_supported, required

_GROUP: Final = "rbac.authorization.k8s.io"
_SUBJECTS: Final = ("ServiceAccount", "User", "Group")


def _rule(faults: Faults, rule: Part, path: str, *, namespaced: bool) -> None:
    if not rule.get("verbs"):
        faults.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs") or []
    if urls:
        if namespaced:
            text_ = "namespaced rules cannot apply to non-resource URLs"
            faults.append(invalid(f"{path}.nonResourceURLs", urls, text_))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            text_ = "rules cannot apply to both regular resources and non-resource URLs"
            faults.append(invalid(f"{path}.nonResourceURLs", urls, text_))
        return
    if not rule.get("apiGroups"):
        faults.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        faults.append(required(f"{path}.resources", "resource rules must supply at least one resource"))


def validate_role(role: Obj) -> Sequence[Cause]:
    faults: Faults = []
    for i, rule in enumerate(role.get("rules") or ()):
        _rule(faults, rule, f"rules[{i}]", namespaced=True)
    return faults


def validate_cluster_role(role: Obj) -> Sequence[Cause]:
    faults: Faults = []
    for i, rule in enumerate(role.get("rules") or ()):
        _rule(faults, rule, f"rules[{i}]", namespaced=False)
    if (aggregation := role.get("aggregationRule")) is not None:
        path, selectors = "aggregationRule.clusterRoleSelectors", aggregation.get("clusterRoleSelectors") or ()
        if not selectors:
            text_ = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            faults.append(required(path, text_))
        for i, selector in enumerate(selectors):
            before = len(faults)
            label_selector(faults, selector, f"{path}[{i}]")
            if len(faults) > before:
                faults.append(invalid(f"{path}[{i}]", None, "invalid label selector."))
    return faults


def default_binding(binding: Obj) -> None:
    ref = binding.get("roleRef")
    if ref is not None and not ref.get("apiGroup"):
        ref["apiGroup"] = _GROUP
    for subject in binding.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = _GROUP


def _binding(binding: Obj, kinds: tuple[str, ...], *, namespaced: bool) -> Faults:
    faults: Faults = []
    ref = binding.get("roleRef") or {}
    if ref.get("apiGroup") != _GROUP:
        faults.append(not_supported("roleRef.apiGroup", ref.get("apiGroup", ""), (_GROUP,)))
    if ref.get("kind") not in kinds:
        faults.append(not_supported("roleRef.kind", ref.get("kind", ""), kinds))
    if not ref.get("name"):
        faults.append(required("roleRef.name"))
    else:
        add_all(faults, "roleRef.name", ref["name"], formats.path_segment(ref["name"]))
    for i, subject in enumerate(binding.get("subjects") or ()):
        _subject(faults, subject, f"subjects[{i}]", namespaced=namespaced)
    return faults


def _subject(faults: Faults, subject: Part, path: str, *, namespaced: bool) -> None:
    name, group = subject.get("name", ""), subject.get("apiGroup", "")
    if not name:
        faults.append(required(f"{path}.name"))
    match subject.get("kind"):
        case "ServiceAccount":
            if name:
                add_all(faults, f"{path}.name", name, formats.dns_subdomain(name))
            if group:
                faults.append(not_supported(f"{path}.apiGroup", group, ("",)))
            if not namespaced and not subject.get("namespace"):
                faults.append(required(f"{path}.namespace"))
        case "User" | "Group":
            if group != _GROUP:
                faults.append(not_supported(f"{path}.apiGroup", group, (_GROUP,)))
        case other:
            faults.append(not_supported(f"{path}.kind", other or "", _SUBJECTS))


def validate_role_binding(binding: Obj) -> Sequence[Cause]:
    return _binding(binding, ("Role", "ClusterRole"), namespaced=True)


def validate_cluster_role_binding(binding: Obj) -> Sequence[Cause]:
    return _binding(binding, ("ClusterRole",), namespaced=False)


def validate_binding_update(new: Obj, old: Obj) -> Sequence[Cause]:
    if new.get("roleRef") == old.get("roleRef"):
        return ()
    ref = new.get("roleRef") or {}
    # By the names of the real server's own struct.
    shown = {"APIGroup": ref.get("apiGroup", ""), "Kind": ref.get("kind", ""), "Name": ref.get("name", "")}
    return [invalid("roleRef", shown, "cannot change roleRef")]


def name_fault(name: str) -> str | None:
    return next(iter(formats.path_segment(name)), None)


def _role_ref(binding: Obj) -> str:
    ref = binding.get("roleRef") or {}
    return f"{ref.get('kind', '')}/{ref.get('name', '')}"


def _subjects(kind: str, binding: Obj) -> str:
    named = []
    for subject in binding.get("subjects") or ():
        if subject.get("kind") == kind:
            name = subject.get("name", "")
            named.append(f"{subject.get('namespace', '')}/{name}" if kind == "ServiceAccount" else name)
    return ", ".join(named)


_BINDING_COLUMNS: Final = (
    NAME,
    text("Role", of(_role_ref)),
    AGE,
    text("Users", of(lambda obj: _subjects("User", obj)), 1),
    text("Groups", of(lambda obj: _subjects("Group", obj)), 1),
    text("ServiceAccounts", of(lambda obj: _subjects("ServiceAccount", obj)), 1),
)

ROLE: Final = Strategy(
    validate=validate_role,
    columns=(NAME, CREATED_AT),
    name_fault=name_fault,
    has_status=False,
    has_generation=False,
    allow_create_on_update=True,
)
CLUSTER_ROLE: Final = Strategy(
    validate=validate_cluster_role,
    columns=(NAME, CREATED_AT),
    name_fault=name_fault,
    has_status=False,
    has_generation=False,
    allow_create_on_update=True,
)
ROLE_BINDING: Final = Strategy(
    default=default_binding,
    validate=validate_role_binding,
    validate_update=validate_binding_update,
    columns=_BINDING_COLUMNS,
    name_fault=name_fault,
    has_status=False,
    has_generation=False,
    allow_create_on_update=True,
)
CLUSTER_ROLE_BINDING: Final = Strategy(
    default=default_binding,
    validate=validate_cluster_role_binding,
    validate_update=validate_binding_update,
    columns=_BINDING_COLUMNS,
    name_fault=name_fault,
    has_status=False,
    has_generation=False,
    allow_create_on_update=True,
)
