"""All lending policies of the simulator, in the order in which tables show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from koord.sim import oracle
from koord.sim.policies import adaptive, koordinator, mid, none
from koord.sim.policies.policy import Policy

DEFAULT: Final = adaptive.POLICY.name

POLICIES: Final[Mapping[str, Policy[Any]]] = {
    policy.name: policy
    for policy in (
        none.POLICY,
        koordinator.USAGE,
        koordinator.REQUEST,
        koordinator.MAX_USAGE_REQUEST,
        mid.POLICY,
        adaptive.POLICY,
        oracle.POLICY,
    )
}
"""What a policy remembers is its own affair."""
