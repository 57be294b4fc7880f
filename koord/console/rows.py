"""What the console keeps of each object: a row with the fields that its pages show, and no more.

Informers make rows of the objects' bytes, so that 50,000 pods fit into a small process. Times are seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from koord.api.kubernetes.core import Event
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.words import PodConditionType
from koord.api.protocol import names
from koord.api.protocol.annotations.colocation import COLOCATION_STRATEGY
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.priority import qos_class
from koord.api.text.quantity import QuantityError, amount
from koord.api.text.timestamp import TimestampError, parse_timestamp
from koord.operate.facts import silent_after_s
from koord.operate.top import (
    NO_USAGE,
    NodeShown,
    PodTop,
    Usage,
    amounts_of,
    band_of,
    from_node_metrics,
    requested_by,
    shown_by,
)

NO_POOL: Final = "no pool"
POOL_LABELS: Final = (
    "node.koordinator.sh/pool",
    "pool",
    "node-pool",
    "nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
)
"""Where clouds and people write the pool of a node; the first one that a node has counts."""
EVICTIONS: Final = frozenset({"evictPodSuccess", "QuotaOverused", "Preempted"})
MOVES: Final = frozenset({"Descheduled"})
SLOWDOWNS: Final = frozenset({"PodSlowed", "NoisyPod"})
ACTS: Final = frozenset({"ConsoleAct"})
SHOWN_EVENTS: Final = EVICTIONS | MOVES | SLOWDOWNS | ACTS | {"EvictionNotice", "CannotBeHandled"}


class Row(msgspec.Struct, frozen=True, gc=False):
    key: str
    uid: str
    version: str


class PodRow(Row, frozen=True, gc=False):
    namespace: str
    name: str
    node: str
    band: str
    qos: str
    phase: str
    ready: bool
    ends: bool
    "Finished, or being deleted."
    cpu_milli: int
    memory_bytes: int
    created_at_s: float
    scheduled_at_s: float | None
    since_at_s: float
    "When it became pending, or was created."
    quota: str
    "The name in its label; in the table, of the quota that counts it."
    gang: str
    owner: str
    "KIND/NAME of its controller."
    scheduler_name: str
    priority: int | None
    reason: str
    "Of the condition PodScheduled, while it is not scheduled."
    message: str

    @property
    def is_pending(self) -> bool:
        return not self.node and not self.ends

    @property
    def is_service(self) -> bool:
        return self.band in ("prod", "none") and not self.ends and bool(self.node)


class NodeRow(Row, frozen=True, gc=False):
    shown: NodeShown
    capacity_cpu_milli: int
    capacity_memory_bytes: int
    labels: Mapping[str, str]
    strategy: str
    "The annotation colocation-strategy."
    created_at_s: float

    @property
    def pool(self) -> str:
        return pool_of(self.labels)


class MetricRow(Row, frozen=True, gc=False):
    reported_at_s: float | None
    silent_after_s: float
    usage: Usage
    system_milli: int
    system_bytes: int
    held_back_milli: int | None
    suppressed: bool


class EventRow(Row, frozen=True, gc=False):
    """An event of interest; others keep only their identity, with an empty reason."""

    reason: str
    kind: str
    namespace: str
    name: str
    note: str
    at_s: float
    first_at_s: float
    count: int
    reporter: str


def identity(row: Row) -> tuple[str, str, str]:
    return row.key, row.uid, row.version


def pool_of(labels: Mapping[str, str]) -> str:
    return next((labels[label] for label in POOL_LABELS if labels.get(label)), NO_POOL)


def row_of_pod(pod: Pod) -> PodRow:
    meta, status = pod.metadata, pod.status
    scheduled = status.condition(PodConditionType.SCHEDULED)
    ready = status.condition(PodConditionType.READY)
    is_scheduled = scheduled is not None and scheduled.status == "True"
    changed_s = seconds(scheduled.last_transition_time) if scheduled is not None else None
    created_s = seconds(meta.creation_timestamp) or 0.0
    requested = requested_by(pod)
    owner = next((owner for owner in meta.owner_references if owner.controller), None)
    labels = meta.labels
    return PodRow(
        meta.key,
        meta.uid,
        meta.resource_version,
        meta.namespace,
        meta.name,
        pod.spec.node_name,
        band_of(pod),
        str(qos_class(pod)),
        str(status.phase),
        ready is not None and ready.status == "True",
        pod.is_finished or meta.deletion_timestamp is not None,
        requested["cpu"],
        requested["memory"],
        created_s,
        changed_s if is_scheduled else None,
        created_s,
        labels.get(names.LABEL_QUOTA_NAME, ""),
        labels.get(names.LABEL_POD_GROUP_NAME) or labels.get(names.LABEL_POD_GROUP, ""),
        f"{owner.kind}/{owner.name}" if owner is not None else "",
        str(pod.spec.scheduler_name),
        pod.spec.priority,
        scheduled.reason if scheduled is not None and not is_scheduled else "",
        scheduled.message if scheduled is not None and not is_scheduled else "",
    )


def pod_top(row: PodRow, usage: Usage) -> PodTop:
    requested = {"cpu": row.cpu_milli, "memory": row.memory_bytes}
    return PodTop(row.key, row.node, row.band, requested, usage.pods.get(row.key), usage.page_cache.get(row.key))


def row_of_node(node: Node) -> NodeRow:
    meta = node.metadata
    capacity = amounts_of(node.status.capacity)
    return NodeRow(
        meta.name,
        meta.uid,
        meta.resource_version,
        shown_by(node),
        capacity["cpu"],
        capacity["memory"],
        dict(meta.labels),
        meta.annotations.get(COLOCATION_STRATEGY.key, ""),
        seconds(meta.creation_timestamp) or 0.0,
    )


def row_of_metric(metric: NodeMetric) -> MetricRow:
    meta, info = metric.metadata, metric.status.node_metric
    system = amounts_of(info.system_usage.resources) if info is not None else {"cpu": 0, "memory": 0}
    best_effort = metric.status.best_effort_metric
    held_back = None
    if best_effort is not None and best_effort.cpu_held_back is not None:
        try:
            held_back = amount("cpu", best_effort.cpu_held_back)
        except QuantityError:
            held_back = None
    return MetricRow(
        meta.name,
        meta.uid,
        meta.resource_version,
        seconds(metric.status.update_time),
        silent_after_s(metric),
        from_node_metrics((metric,)) if info is not None else NO_USAGE,
        system["cpu"],
        system["memory"],
        held_back,
        bool(held_back),
    )


def row_of_event(event: Event) -> EventRow:
    meta = event.metadata
    if event.reason not in SHOWN_EVENTS:
        return EventRow(meta.key, meta.uid, meta.resource_version, "", "", "", "", "", 0.0, 0.0, 0, "")
    first_s = seconds(event.event_time) or seconds(event.deprecated_first_timestamp) or seconds(meta.creation_timestamp)
    last_s = seconds(event.series.last_observed_time) if event.series is not None else None
    last_s = last_s or seconds(event.deprecated_last_timestamp) or first_s
    about = event.regarding
    return EventRow(
        meta.key,
        meta.uid,
        meta.resource_version,
        event.reason,
        about.kind,
        about.namespace,
        about.name,
        event.note,
        last_s or 0.0,
        first_s or 0.0,
        event.series.count if event.series is not None else max(1, event.deprecated_count),
        event.reporting_controller,
    )


def seconds(text: str | None) -> float | None:
    """None where there is no time, or none that can be read."""
    try:
        return parse_timestamp(text) if text else None
    except TimestampError:
        return None
