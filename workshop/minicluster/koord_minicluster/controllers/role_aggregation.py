"""ClusterRoles that are gathered from others: their rules are those of every role that their selectors choose."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from koord.api.kinds import CLUSTER_ROLES
from koord.api.kubernetes.rbac import ClusterRole, PolicyRule
from koord.api.text.selector import NOTHING, compile_labels
from koord_minicluster.controllers.actions import Patch


def gathered(role: ClusterRole, others: Iterable[ClusterRole]) -> tuple[PolicyRule, ...]:
    """The rules that a role has by aggregation, each once: by selector, then by the name of the role they are from."""
    rules: dict[PolicyRule, None] = {}
    by_name = sorted(others, key=lambda role: role.metadata.name)
    for selector in role.aggregation_rule.cluster_role_selectors if role.aggregation_rule else ():
        matcher = compile_labels(selector, absent=NOTHING)
        for other in by_name:
            if other.metadata.name != role.metadata.name and matcher.matches(other.metadata.labels):
                rules.update(dict.fromkeys(other.rules))
    return tuple(rules)


def aggregated(role: ClusterRole, others: Iterable[ClusterRole]) -> list[Patch]:
    """What brings a role's rules up to date; nothing where it has none by aggregation, or has them already."""
    if role.aggregation_rule is None:
        return []
    rules = gathered(role, others)
    if rules == role.rules:
        return []
    body = {"metadata": {"uid": role.metadata.uid}, "rules": msgspec.to_builtins(rules)}
    return [Patch(CLUSTER_ROLES, "", role.metadata.name, body, type="merge", gone_ok=True)]
