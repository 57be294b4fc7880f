"""Changes of nodes that only change what they give of extended resources: the most frequent ones by far.

A manager writes lent resources every few minutes, and nothing else of a node changes then. Whoever reads neither these
resources nor anything that follows from them need not look at the node again.
"""

from __future__ import annotations

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.resources import amounts
from koord.api.protocol.annotations.cpu import NODE_RESERVATION
from koord.api.protocol.names import OLD_RESOURCES
from koord.api.protocol.pool_on_node import has_other_names
from koord.api.text.stored import stored_amount


def changed_extended(old: Node, new: Node) -> frozenset[str] | None:
    """The extended resources whose amounts differ, if nothing else does that decisions look at; None otherwise."""
    before, after = old.status.allocatable, new.status.allocatable
    meta, other = old.metadata, new.metadata
    if meta is not other and (meta.labels != other.labels or meta.annotations != other.annotations):
        return None
    if (old.spec is not new.spec and old.spec != new.spec) or old.status.images != new.status.images:
        return None
    if NODE_RESERVATION.key in meta.annotations or has_other_names(before) or has_other_names(after):
        return None
    changed = {name for name, amount in after.items() if before.get(name) != amount}
    changed.update(name for name in before if name not in after)
    if any("/" not in name or name in OLD_RESOURCES for name in changed):
        return None
    return frozenset(changed)


def extended_amounts(node: Node, names: frozenset[str]) -> dict[str, int]:
    """What a node gives of some extended resources, without those that it does not have."""
    given = node.status.allocatable
    has = amounts({name: given[name] for name in names if name in given})
    return {name: stored_amount(amount) for name, amount in has.items()}
