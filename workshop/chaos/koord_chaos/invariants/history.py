"""What happened over time: every change of an object with its author, and what the API server acknowledged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from koord_chaos.invariants.invariant import Invariant
from koord_chaos.invariants.manifests import QOS, Manifest, Objects, key_of, label, meta, node_of, priority_of, uid_of

Verb: TypeAlias = Literal["create", "update", "delete", "evict"]
SERVICE_PRIORITY: Final = 9000
"""The lowest priority of services."""
SERVICE_QOS: Final = frozenset({"LS", "LSR", "LSE"})


@dataclass(frozen=True, slots=True)
class Change:
    """One change, in the order of the API server."""

    verb: Verb
    kind: str
    manifest: Manifest
    "After the change; of a deleted or evicted object, before it."
    component: str = ""
    identity: str = ""
    "The replica of the component, as in its Lease."
    priority: int | None = None
    "Of an eviction: the priority of the pod that needs the room."


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A write that the API server answered with success."""

    verb: Verb
    kind: str
    key: str
    uid: str
    revision: int = 0


@dataclass(frozen=True, slots=True)
class History:
    changes: Sequence[Change] = ()
    acknowledged: Sequence[Acknowledged] = ()
    objects: Objects = field(default_factory=dict)
    "The state at the end."
    leases: Mapping[str, str] = field(default_factory=dict)
    "The Lease of each component that elects a leader, as `namespace/name`."


def _lost_writes(history: History) -> Iterator[str]:
    there = {
        (kind, uid_of(manifest)): manifest for kind, manifests in history.objects.items() for manifest in manifests
    }
    gone = {(change.kind, uid_of(change.manifest)) for change in history.changes if change.verb in ("delete", "evict")}
    gone |= {(write.kind, write.uid) for write in history.acknowledged if write.verb in ("delete", "evict")}
    for write in history.acknowledged:
        manifest = there.get((write.kind, write.uid))
        if write.verb in ("delete", "evict"):
            if manifest is not None and not meta(manifest).get("deletionTimestamp"):
                yield f"{write.kind} {write.key} was deleted, and is there"
        elif manifest is None:
            if (write.kind, write.uid) not in gone:
                yield f"{write.kind} {write.key} was written, and is missing"
        elif (revision := int(meta(manifest).get("resourceVersion") or 0)) < write.revision:
            yield f"{write.kind} {write.key} was written at version {write.revision}, and has version {revision}"


def _moved_pods(history: History) -> Iterator[str]:
    nodes: dict[str, str] = {}
    for change in history.changes:
        if change.kind != "Pod" or not node_of(change.manifest):
            continue
        node = nodes.setdefault(uid_of(change.manifest), node_of(change.manifest))
        if node != node_of(change.manifest):
            yield f"{key_of(change.manifest)} was bound to {node}, and then to {node_of(change.manifest)}"


def _writes_of_others(history: History) -> Iterator[str]:
    holders: dict[str, str] = {}
    for change in history.changes:
        if change.kind == "Lease":
            holders[key_of(change.manifest)] = str(change.manifest["spec"].get("holderIdentity") or "")
            continue
        lease = history.leases.get(change.component)
        if lease is None or not change.identity or lease not in holders:
            continue
        if holders[lease] != change.identity:
            leader = holders[lease] or "nobody"
            yield (
                f"{change.identity} of {change.component} wrote {change.kind} {key_of(change.manifest)} "
                f"while {leader} was the leader"
            )


def is_service(pod: Manifest) -> bool:
    return priority_of(pod) >= SERVICE_PRIORITY or label(pod, QOS) in SERVICE_QOS


def _evicted_services(history: History) -> Iterator[str]:
    for change in history.changes:
        pod = change.manifest
        if change.verb != "evict" or not is_service(pod) or change.component == "koord-descheduler":
            continue
        if change.component == "koord-scheduler" and change.priority is not None and change.priority > priority_of(pod):
            continue
        yield f"{change.component} evicted {key_of(pod)}, which is a service"


HISTORY: Final[tuple[Invariant[History], ...]] = (
    Invariant("durable-writes", "What the API server acknowledged is never lost.", _lost_writes),
    Invariant("one-binding-ever", "A pod that was bound never gets another node.", _moved_pods),
    Invariant(
        "one-leader", "Of several replicas of a component, only the one that holds the Lease writes.", _writes_of_others
    ),
    Invariant(
        "protected-services",
        "A service is evicted only by the descheduler, in a migration, and by the scheduler for a pod with higher "
        "priority.",
        _evicted_services,
    ),
)
