"""All policies of batch resources, and which of them a strategy chooses for CPU and for memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from koord.api.configuration.lending_policies import policies_of
from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.manager.lending import adaptive, max_usage_request, peers, request, usage
from koord.manager.lending.policy import Policy, Resource

POLICIES: Final[Mapping[str, Policy]] = {
    policy.name: policy
    for policy in (
        usage.POLICY,
        request.POLICY,
        max_usage_request.POLICY,
        adaptive.POLICY,
        *peers.POLICIES,
    )
}

_CHOICES: Final[Mapping[Resource, Mapping[str, Policy]]] = {
    "cpu": {name: POLICIES[name] for name in policies_of("cpu")},
    "memory": {name: POLICIES[name] for name in policies_of("memory")},
}


def chosen(strategy: ColocationStrategy, resource: Resource) -> Policy:
    """The policy of a resource. A word that names none acts as `usage`, as every reader of the protocol has it."""
    name = strategy.cpu_calculate_policy if resource == "cpu" else strategy.memory_calculate_policy
    return _CHOICES[resource].get(name or "", usage.POLICY)
