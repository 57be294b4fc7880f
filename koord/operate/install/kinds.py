"""API paths of the kinds of an installation: for requests, and for the rights that an installation needs."""

from __future__ import annotations

from typing import Any, Final

from koord.api.kinds import Kind, find
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.struct import Struct
from koord.operate.install.manifest import Key


class Head(Struct):
    """An object; only its metadata is read."""

    metadata: ObjectMeta = ObjectMeta()


RBAC: Final = "rbac.authorization.k8s.io"
MONITORING: Final = "monitoring.coreos.com"
ROLES: Final[Kind[Head]] = Kind(RBAC, "v1", "Role", "roles", True, Head)
ROLE_BINDINGS: Final[Kind[Head]] = Kind(RBAC, "v1", "RoleBinding", "rolebindings", True, Head)
CLUSTER_ROLE_BINDINGS: Final[Kind[Head]] = Kind(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", False, Head)
SERVICE_MONITORS: Final[Kind[Head]] = Kind(MONITORING, "v1", "ServiceMonitor", "servicemonitors", True, Head)
PROMETHEUS_RULES: Final[Kind[Head]] = Kind(MONITORING, "v1", "PrometheusRule", "prometheusrules", True, Head)
OF_OTHERS: Final = {
    SERVICE_MONITORS: "install the Prometheus operator first, or leave out --with monitoring",
    PROMETHEUS_RULES: "install the Prometheus operator first, or leave out --with monitoring",
}
"""Kinds that other projects define, and what to do if they are missing."""
_FURTHER: Final = {
    (kind.api_version, kind.kind): kind for kind in (ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS, *OF_OTHERS)
}


def kind_of(key: Key) -> Kind[Any]:
    match = find(key.api_version, key.kind) or _FURTHER.get((key.api_version, key.kind))
    if match is None:
        raise LookupError(f"no kind {key.api_version} {key.kind} in koord.operate.install.kinds")
    return Kind(match.group, match.version, match.kind, match.plural, match.namespaced, Head)
