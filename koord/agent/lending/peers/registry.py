"""The policies of other systems, in the order in which tables show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from koord.agent.lending.peers import caster, crane, katalyst, lar
from koord.agent.lending.peers.policy import AnyPeer

PEERS: Final[Mapping[str, AnyPeer]] = {
    policy.name: policy for policy in (caster.POLICY, lar.POLICY, crane.POLICY, katalyst.POLICY)
}
