"""Roles and role bindings, made from the tables of rights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from koord.api.protocol import names
from koord.operate.install.manifest import Json, made
from koord.operate.install.rights import BY_COMPONENT, Right, Where
from koord.operate.install.settings import Component, Settings

RBAC: Final = "rbac.authorization.k8s.io/v1"


def rights_of(component: Component, settings: Settings) -> tuple[Right, ...]:
    """The rights that a component needs with these settings."""
    kubelets = "old_kubelets" if settings.old_kubelets else "new_kubelets"
    return tuple(
        right
        for right in BY_COMPONENT[component.name]
        if (right.gate is None or settings.is_on(right.gate)) and right.only_if in ("", kubelets)
    )


def access(component: Component, settings: Settings) -> list[Json]:
    return access_for(component.name, component.full_name, rights_of(component, settings), settings)


def access_for(name: str, account: str, rights: Sequence[Right], settings: Settings) -> list[Json]:
    """A service account with these rights and no others."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": settings.namespace}
    manifests: list[Json] = [made("v1", "ServiceAccount", account, settings.namespace, component=name)]
    places = _places(settings)
    for namespace in dict.fromkeys(places.values()):
        here = [right for right in rights if places[right.where] == namespace]
        if not here:
            continue
        kind = "Role" if namespace else "ClusterRole"
        rules = rules_of(here)
        manifests.append(made(RBAC, kind, account, namespace, component=name, rules=rules))
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": account}
        manifests.append(
            made(RBAC, f"{kind}Binding", account, namespace, component=name, roleRef=ref, subjects=[subject])
        )
    return manifests


def _places(settings: Settings) -> dict[Where, str]:
    return {
        "cluster": "",
        "configuration": names.NAMESPACE_KOORDINATOR,
        "own": settings.namespace,
        "authentication": names.NAMESPACE_KUBE_SYSTEM,
    }


def rules_of(rights: Iterable[Right]) -> list[Json]:
    """One rule for each right and group."""
    rules: list[Json] = []
    for right in rights:
        by_group: dict[str, list[str]] = {}
        for text in right.resources:
            resource, group = split(text)
            by_group.setdefault(group, []).append(resource)
        for group, resources in by_group.items():
            rule: Json = {"apiGroups": [group], "resources": resources, "verbs": list(right.verbs)}
            if right.named:
                rule["resourceNames"] = list(right.named)
            if rule not in rules:
                rules.append(rule)
    return rules


def split(resource: str) -> tuple[str, str]:
    """`elasticquotas.scheduling.sigs.k8s.io/status` is (`elasticquotas/status`, `scheduling.sigs.k8s.io`)."""
    whole, slash, subresource = resource.partition("/")
    plural, _, group = whole.partition(".")
    return f"{plural}{slash}{subresource}", group
