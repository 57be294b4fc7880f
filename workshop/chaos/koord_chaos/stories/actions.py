"""What can happen in a story: objects come, change and go, the scheduler restarts, everything comes to rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from koord.api.kinds import (
    DEVICES,
    ELASTIC_QUOTAS,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    RESERVATIONS,
    Kind,
)
from koord_chaos.invariants.manifests import Manifest

KINDS: Final[tuple[Kind[Any], ...]] = (
    NODES,
    NODE_RESOURCE_TOPOLOGIES,
    DEVICES,
    ELASTIC_QUOTAS,
    POD_GROUPS,
    POD_DISRUPTION_BUDGETS,
    RESERVATIONS,
    PODS,
)
"""In the order in which a story creates them."""


@dataclass(frozen=True)
class Put:
    """An object comes, whole."""

    kind: Kind[Any]
    manifest: dict[str, Any]
    lessens: bool = False
    """Whether there may be less than before of what pods are given. What was decided before is carried out, and looked
    at, before that."""


@dataclass(frozen=True)
class Change:
    """An object is changed by a merge patch."""

    kind: Kind[Any]
    key: str
    body: dict[str, Any]
    subresource: str = ""
    lessens: bool = False


@dataclass(frozen=True)
class Drop:
    """An object is deleted."""

    kind: Kind[Any]
    key: str
    lessens: bool = False


@dataclass(frozen=True)
class Restart:
    """The scheduler ends, and another one starts."""


@dataclass(frozen=True)
class Rest:
    """Nothing happens until the scheduler has nothing to do."""


Action: TypeAlias = Put | Change | Drop | Restart | Rest
Has: TypeAlias = Mapping[Kind[Any], Mapping[str, Manifest]]
"""What the API has: manifests by kind and key."""
