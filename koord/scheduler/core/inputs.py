"""Every kind of objects that the scheduler takes in: the one table.

Each kind says how an object is put and removed, and what a change of it could do for pods that wait. Live informers,
manifests and tests all go through it, in this order, in which kinds build on one another. A kind that plugins look at
is one line here; the plugin names it in `takes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from koord.api import kinds
from koord.api.kinds import Kind
from koord.scheduler.core import events
from koord.scheduler.core.queue import ClusterEvent

if TYPE_CHECKING:
    from koord.scheduler.core.feed import Feed


@dataclass(frozen=True, slots=True)
class Input:
    kind: Kind[Any]
    put: Callable[[Feed, Any, Any | None], None]
    "An object was added or has changed: the new version, and the old one if the driver knows it."
    remove: Callable[[Feed, Any], None]
    wakes: Callable[[Any | None, Any | None], ClusterEvent | None] = lambda old, new: None
    "What old -> new could do for pods that wait."
    optional: bool = False
    "A kind of koord's own, which a cluster need not serve, or not yet."
    plugins_only: bool = False
    "Whether only plugins read it."
    named_only: bool = False
    "Whether only the objects that plugins name are read: there are many others."


def _plugins(kind: Kind[Any], wakes: Callable[[Any | None, Any | None], ClusterEvent | None]) -> Input:
    """A kind that plugins alone look at."""
    return Input(
        kind,
        lambda feed, new, old: feed.tell_plugins(kind, new),
        lambda feed, old: feed.tell_plugins_gone(kind, old),
        wakes,
        optional=True,
        plugins_only=True,
    )


def _named(kind: Kind[Any], wakes: Callable[[Any | None, Any | None], ClusterEvent | None]) -> Input:
    """A kind where plugins read single objects only."""
    return replace(_plugins(kind, wakes), named_only=True)


def _storage(kind: Kind[Any]) -> Input:
    return Input(
        kind,
        lambda feed, new, old: feed.cluster.put_storage(new),
        lambda feed, old: feed.cluster.remove_storage(old),
        events.storage_event,
    )


def _workload(kind: Kind[Any]) -> Input:
    return Input(
        kind,
        lambda feed, new, old: feed.cluster.put_workload(new),
        lambda feed, old: feed.cluster.remove_workload(old),
    )


def _placed_like_pods(kind: Kind[Any]) -> Input:
    """A kind that a plugin may have placed like pods. What a change means to others, its stand-ins say."""
    return Input(
        kind,
        lambda feed, new, old: feed.put_like_pod(kind, new, old),
        lambda feed, old: feed.remove_like_pod(kind, old),
        optional=True,
    )


INPUTS: Final[tuple[Input, ...]] = (
    Input(
        kinds.NAMESPACES,
        lambda feed, new, old: feed.cluster.put_namespace(new),
        lambda feed, old: feed.cluster.remove_namespace(old.metadata.name),
        events.namespace_event,
    ),
    Input(
        kinds.SERVICES,
        lambda feed, new, old: feed.cluster.put_service(new),
        lambda feed, old: feed.cluster.remove_service(old.metadata.namespace, old.metadata.name),
    ),
    _workload(kinds.REPLICA_SETS),
    _workload(kinds.STATEFUL_SETS),
    _workload(kinds.REPLICATION_CONTROLLERS),
    _storage(kinds.STORAGE_CLASSES),
    _storage(kinds.CSI_DRIVERS),
    _storage(kinds.CSI_NODES),
    _storage(kinds.CSI_STORAGE_CAPACITIES),
    _storage(kinds.PERSISTENT_VOLUMES),
    _storage(kinds.PERSISTENT_VOLUME_CLAIMS),
    Input(
        kinds.POD_DISRUPTION_BUDGETS,
        lambda feed, new, old: feed.cluster.put_budget(new),
        lambda feed, old: feed.cluster.remove_budget(old.metadata.namespace, old.metadata.name),
    ),
    Input(
        kinds.NODES,
        lambda feed, new, old: feed.put_node(new, old),
        lambda feed, old: feed.remove_node(old),
        events.node_event,
    ),
    _named(kinds.CONFIG_MAPS, events.config_event),
    _plugins(kinds.DEVICE_CLASSES, events.devices_event),
    _plugins(kinds.DEVICE_TAINT_RULES, events.taint_rule_event),
    _plugins(kinds.RESOURCE_SLICES, events.devices_event),
    _plugins(kinds.RESOURCE_CLAIMS, events.claim_event),
    _plugins(kinds.NODE_METRICS, events.load_event),
    _plugins(kinds.NODE_SLOS, events.slo_event),
    _plugins(kinds.DEVICES, events.device_event),
    _plugins(kinds.NODE_RESOURCE_TOPOLOGIES, events.topology_event),
    _plugins(kinds.CLUSTER_NETWORK_TOPOLOGIES, events.network_event),
    # They only score: no pod waits because of one.
    _plugins(kinds.INTERFERENCE_PAIRS, lambda old, new: None),
    # The plugin decides which jobs a change concerns: see `Cluster.changed_jobs`.
    _plugins(kinds.POD_GROUPS, lambda old, new: None),
    _placed_like_pods(kinds.RESERVATIONS),
    # Likewise: see `Refusals.eased`.
    _plugins(kinds.ELASTIC_QUOTAS, lambda old, new: None),
    Input(
        kinds.PODS,
        lambda feed, new, old: feed.put_pod(new, old),
        lambda feed, old: feed.remove_pod(old),
        events.pod_event,
    ),
)
"""Pods come last, so that pending pods are placed on the complete state."""

BY_KIND: Final[Mapping[Kind[Any], Input]] = {input_.kind: input_ for input_ in INPUTS}
