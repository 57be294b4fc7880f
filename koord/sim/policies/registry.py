"""All lending policies of the simulator, in the order in which tables show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from koord.sim import oracle
from koord.sim.policies import adaptive, koordinator, mid, none, peers
from koord.sim.policies.policy import Policy

DEFAULT: Final = adaptive.POLICY.name

_ALL: Final[tuple[Policy[Any], ...]] = (
    none.POLICY,
    koordinator.USAGE,
    koordinator.REQUEST,
    koordinator.MAX_USAGE_REQUEST,
    mid.POLICY,
    *peers.POLICIES,
    adaptive.POLICY,
    oracle.POLICY,
)
POLICIES: Final[Mapping[str, Policy[Any]]] = {policy.name: policy for policy in _ALL}
"""What a policy remembers is its own affair."""
