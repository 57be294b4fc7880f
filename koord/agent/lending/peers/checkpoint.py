"""What a node has learned for the policy of another system, as JSON: what survives the agent's restart.

A file that is damaged, of another version or with impossible amounts is not used: learning starts again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from koord.agent.lending.checkpoint import MOST, CheckpointError
from koord.agent.lending.peers.learned import PeerLearned
from koord.agent.lending.peers.registry import PEERS
from koord.api.machinery.codec import UNREADABLE

VERSION: Final = 1


class _Kept(msgspec.Struct, frozen=True, rename="camel"):
    version: int
    policy: str
    at_s: float
    memory: msgspec.Raw


def of_learned(learned: PeerLearned) -> bytes:
    memory = msgspec.Raw(msgspec.json.encode(learned.memory))
    return msgspec.json.encode(_Kept(VERSION, learned.policy, learned.at_s, memory))


def learned_in(data: bytes) -> PeerLearned:
    """Raises CheckpointError."""
    try:
        kept = msgspec.json.decode(data, type=_Kept)
        policy = PEERS.get(kept.policy)
        if kept.version != VERSION or policy is None:
            raise CheckpointError(
                f"must be version {VERSION} of {', '.join(PEERS)}, not {kept.version} of {kept.policy}"
            )
        if not all(
            math.isfinite(amount) and 0 <= amount < MOST for amount in _numbers(msgspec.json.decode(kept.memory))
        ):
            raise CheckpointError("amounts must be finite, and not negative")
        return PeerLearned(kept.policy, msgspec.json.decode(kept.memory, type=policy.memory_type), kept.at_s)
    except UNREADABLE as error:
        raise CheckpointError(str(error)) from error


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, int | float):
        yield value
