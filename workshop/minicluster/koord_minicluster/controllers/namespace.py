"""Terminating namespaces: their remaining content, and the conditions that report it.

A namespace is removed when nothing is left in it. Pods are deleted first, because objects that they need while they
terminate (secrets, for example) must outlive them. Then its finalizer `kubernetes` is removed, which only the
subresource `finalize` can do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from koord.api.kubernetes.core import Namespace, NamespaceStatus
from koord.api.kubernetes.meta import Condition
from koord_minicluster.controllers.conditions import with_condition

FINALIZER: Final = "kubernetes"


@dataclass(frozen=True, slots=True)
class Left:
    """The remaining content of a namespace: objects per resource, finalizers that block some, and failed lookups."""

    counts: Mapping[str, int]
    finalizers: Mapping[str, int]
    undiscovered: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        return not self.counts and not self.undiscovered and not self.failures


def is_leaving(namespace: Namespace) -> bool:
    return namespace.metadata.deletion_timestamp is not None and FINALIZER in namespace.spec.finalizers


def status(namespace: Namespace, left: Left, now_s: float) -> NamespaceStatus:
    current = namespace.status.conditions
    remaining = _listed(left.counts, "{} has {} objects")
    held = _listed(left.finalizers, "{} on {} objects")
    checks: tuple[tuple[str, str, str, str], ...] = (
        (
            "NamespaceDeletionDiscoveryFailure",
            "DiscoveryFailed",
            "ResourcesDiscovered",
            f"Not described: {', '.join(left.undiscovered)}" if left.undiscovered else "",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "GroupVersionParsingFailed",
            "ParsedGroupVersions",
            "",
        ),
        ("NamespaceDeletionContentFailure", "ContentDeletionFailed", "ContentDeleted", "; ".join(left.failures)),
        ("NamespaceContentRemaining", "SomeResourcesRemain", "ContentRemoved", remaining),
        ("NamespaceFinalizersRemaining", "SomeFinalizersRemain", "ContentHasNoFinalizers", held),
    )
    for type_, bad, good, trouble in checks:
        current = _set(
            current, type_, "True" if trouble else "False", bad if trouble else good, trouble or "None.", now_s
        )
    return NamespaceStatus("Terminating", current)


def _set(
    current: tuple[Condition, ...], type_: str, status: str, reason: str, message: str, now_s: float
) -> tuple[Condition, ...]:
    """As with all conditions; but here the message has the counts, so it moves too."""
    old = next((c for c in current if c.type == type_), None)
    if old is not None and (old.status, old.message) != (status, message) and old.status == status:
        moved = Condition(type_, status, last_transition_time=old.last_transition_time, reason=reason, message=message)
        return tuple(moved if c.type == type_ else c for c in current)
    return with_condition(current, type_, status, reason, message, now_s)


def _listed(counts: Mapping[str, int], form: str) -> str:
    return ", ".join(form.format(name, count) for name, count in sorted(counts.items()))


def finalized(namespace: Namespace) -> Sequence[str]:
    """The finalizers that are left once the content is gone."""
    return [name for name in namespace.spec.finalizers if name != FINALIZER]
