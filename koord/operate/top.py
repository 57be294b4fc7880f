"""Capacity, requests and usage of nodes and pods, by priority band: the figures of `koord top` and of the console.

Batch and mid pods request resources with names of their own (kubernetes.io/batch-cpu); here these count as cpu and
memory. cpu is in milli-cores, memory in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import pod_requests
from koord.api.protocol import names
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.priority import priority_class
from koord.api.text.quantity import QuantityError, amount, render
from koord.yarn.nodes import node_facts

BANDS: Final[tuple[str, ...]] = ("prod", "mid", "batch", "free", "none")
RESOURCES: Final = ("cpu", "memory")
LENT: Final[Mapping[str, Mapping[str, str]]] = {
    "mid": {str(names.RESOURCE_MID_CPU): "cpu", str(names.RESOURCE_MID_MEMORY): "memory"},
    "batch": {str(names.RESOURCE_BATCH_CPU): "cpu", str(names.RESOURCE_BATCH_MEMORY): "memory"},
}
"""The bands that nodes lend to, and the names of the lent resources."""
_SAME: Final[Mapping[str, str]] = {name: same for of_band in LENT.values() for name, same in of_band.items()}

Amounts = dict[str, int]
"""cpu and memory."""


class PageCache(msgspec.Struct, frozen=True):
    """Bytes."""

    total: int
    cold: int | None = None
    "None if the node's kernel does not report it."


class Usage(msgspec.Struct, frozen=True):
    """Measured usage, and its source."""

    source: str
    nodes: Mapping[str, Amounts]
    pods: Mapping[str, Amounts]
    page_cache: Mapping[str, PageCache] = {}
    "Keys are node names, and namespace/name of pods."


NO_USAGE: Final = Usage("", {}, {})


class PodTop(msgspec.Struct, frozen=True):
    key: str
    node: str
    band: str
    requested: Amounts
    used: Amounts | None
    page_cache: PageCache | None = None
    "Page cache that `used` does not include."


class NodeTop(msgspec.Struct, frozen=True):
    name: str
    ready: bool
    cordoned: bool
    pods: int
    allocatable: Amounts
    lent_by_band: dict[str, Amounts]
    "The part lent to batch and mid pods, beyond the requests of other pods."
    requested: dict[str, Amounts]
    "By band."
    used: Amounts | None
    "Of the whole node, including processes outside pods."
    used_by_band: dict[str, Amounts]
    yarn: Amounts = msgspec.field(default_factory=lambda: dict.fromkeys(RESOURCES, 0))
    "YARN's part of the reclaimed resources, apart from what is lent to pods."
    page_cache: PageCache | None = None

    @property
    def lent(self) -> Amounts:
        return _sum(self.lent_by_band.values())

    def has(self, band: str, resource: str) -> int | None:
        """What all pods of a band together may request; None for bands without resources of their own."""
        if band == "prod":
            return self.allocatable[resource]
        return self.lent_by_band[band][resource] if band in self.lent_by_band else None

    def left(self, band: str, resource: str) -> int | None:
        """The amount that no pod requests; negative if less is lent than before. Pods of no band count as prod pods."""
        has = self.has(band, resource)
        if has is None:
            return None
        asked = ("prod", "none") if band == "prod" else (band,)
        return has - sum(self.requested[band][resource] for band in asked)

    def requested_in_all(self, resource: str) -> int:
        return sum(amounts_of_band[resource] for amounts_of_band in self.requested.values())

    def share(self, number: int, resource: str) -> float:
        has = self.allocatable[resource]
        return number / has if has else 0.0


class Top(msgspec.Struct, frozen=True):
    nodes: tuple[NodeTop, ...]
    pods: tuple[PodTop, ...]
    source: str
    "Where the usage comes from; empty if it was not measured."

    @property
    def silent(self) -> tuple[str, ...]:
        """Nodes that report no usage, while others do. The usage of all nodes does not include theirs."""
        return tuple(node.name for node in self.nodes if node.used is None) if self.source else ()


class NodeShown(msgspec.Struct, frozen=True):
    """What a node itself says."""

    name: str
    ready: bool
    cordoned: bool
    allocatable: Amounts
    lent_by_band: dict[str, Amounts]
    yarn: Amounts


def top_of(nodes: Iterable[Node], pods: Iterable[Pod], usage: Usage = NO_USAGE) -> Top:
    """The figures of a cluster. Finished pods take nothing, and are left out."""
    pod_tops = tuple(_pod(pod, usage) for pod in pods if not pod.is_finished)
    on: dict[str, list[PodTop]] = {}
    for pod in pod_tops:
        on.setdefault(pod.node, []).append(pod)
    return Top(
        tuple(node_top(shown_by(node), on.get(node.metadata.name, []), usage) for node in nodes),
        pod_tops,
        usage.source,
    )


def in_all(top: Top) -> NodeTop:
    """All nodes as if they were one."""
    used = [node.used for node in top.nodes if node.used is not None]
    return NodeTop(
        "all",
        all(node.ready for node in top.nodes),
        any(node.cordoned for node in top.nodes),
        sum(node.pods for node in top.nodes),
        _sum(node.allocatable for node in top.nodes),
        {band: _sum(node.lent_by_band[band] for node in top.nodes) for band in LENT},
        {band: _sum(node.requested[band] for node in top.nodes) for band in BANDS},
        _sum(used) if used else None,
        {band: _sum(node.used_by_band[band] for node in top.nodes) for band in BANDS},
        _sum(node.yarn for node in top.nodes),
        _all_cache([node.page_cache for node in top.nodes if node.page_cache is not None]),
    )


def _all_cache(caches: list[PageCache]) -> PageCache | None:
    if not caches:
        return None
    cold = [cache.cold for cache in caches if cache.cold is not None]
    return PageCache(sum(cache.total for cache in caches), sum(cold) if cold else None)


SORTS: Final[Mapping[str, Callable[[NodeTop], tuple[object, ...]]]] = {
    "name": lambda node: (),
    "cpu": lambda node: (-node.share((node.used or {}).get("cpu", 0), "cpu"),),
    "memory": lambda node: (-node.share((node.used or {}).get("memory", 0), "memory"),),
    "requested-cpu": lambda node: (-node.share(node.requested_in_all("cpu"), "cpu"),),
    "requested-memory": lambda node: (-node.share(node.requested_in_all("memory"), "memory"),),
    "pods": lambda node: (-node.pods,),
}
"""Sort keys for nodes, fullest first; equal nodes are sorted by name."""

POD_SORTS: Final[Mapping[str, Callable[[PodTop], tuple[object, ...]]]] = {
    "name": lambda pod: (),
    "cpu": lambda pod: (-(pod.used or {}).get("cpu", 0),),
    "memory": lambda pod: (-(pod.used or {}).get("memory", 0),),
    "requested-cpu": lambda pod: (-pod.requested["cpu"],),
    "requested-memory": lambda pod: (-pod.requested["memory"],),
    "node": lambda pod: (pod.node,),
}


def from_node_metrics(metrics: Iterable[NodeMetric]) -> Usage:
    """Usage as reported by koord's agents."""
    nodes: dict[str, Amounts] = {}
    pods: dict[str, Amounts] = {}
    page_cache: dict[str, PageCache] = {}
    for metric in metrics:
        own = metric.status.node_metric
        if own is not None:
            nodes[metric.metadata.name] = amounts_of(own.node_usage.resources)
            if own.page_cache is not None and (cache := _cache(own.page_cache.total, own.page_cache.cold)):
                page_cache[metric.metadata.name] = cache
        for pod in metric.status.pods_metric:
            key = f"{pod.namespace}/{pod.name}"
            pods[key] = amounts_of(pod.pod_usage.resources)
            reported = pod.extensions.get("pageCache")
            if isinstance(reported, Mapping) and (cache := _cache(reported.get("total"), reported.get("cold"))):
                page_cache[key] = cache
    return Usage("NodeMetric", nodes, pods, page_cache)


def _cache(total: object, cold: object) -> PageCache | None:
    """Extensions are free-form: an invalid quantity counts as missing."""
    bytes_of = [_bytes(part) for part in (total, cold)]
    return None if bytes_of[0] is None else PageCache(bytes_of[0], bytes_of[1])


def _bytes(quantity: object) -> int | None:
    if not isinstance(quantity, str | int | float) or isinstance(quantity, bool):
        return None
    try:
        return amount("memory", quantity)
    except QuantityError:
        return None


class _Head(msgspec.Struct):
    name: str
    namespace: str = ""


class _Container(msgspec.Struct):
    usage: dict[str, str] = {}


class _Measured(msgspec.Struct):
    metadata: _Head
    usage: dict[str, str] = {}
    containers: list[_Container] = []


class _MeasuredList(msgspec.Struct):
    items: list[_Measured] = []


def from_metrics_server(nodes: bytes, pods: bytes) -> Usage:
    """Usage from metrics.k8s.io, for nodes and pods."""
    by_node = msgspec.json.decode(nodes, type=_MeasuredList).items
    by_pod = msgspec.json.decode(pods, type=_MeasuredList).items
    return Usage(
        "metrics.k8s.io",
        {measured.metadata.name: amounts_of(measured.usage) for measured in by_node},
        {
            f"{measured.metadata.namespace}/{measured.metadata.name}": _sum(
                amounts_of(one.usage) for one in measured.containers
            )
            for measured in by_pod
        },
    )


def for_programs(top: Top) -> dict[str, object]:
    """The figures for JSON: canonical quantities, stable keys."""
    return {
        "nodes": {node.name: _node_told(node) for node in top.nodes},
        "total": _node_told(in_all(top)),
        "usageFrom": top.source or None,
        "withoutUsage": list(top.silent),
    }


def pods_for_programs(top: Top) -> dict[str, object]:
    pods_shown = {
        pod.key: {
            "node": pod.node or None,
            "band": pod.band,
            "requested": _told(pod.requested),
            "used": None if pod.used is None else _told(pod.used),
            "pageCache": _cache_told(pod.page_cache),
        }
        for pod in top.pods
    }
    return {"pods": pods_shown, "usageFrom": top.source or None}


def _node_told(node: NodeTop) -> dict[str, object]:
    return {
        "ready": node.ready,
        "cordoned": node.cordoned,
        "pods": node.pods,
        "allocatable": _told(node.allocatable),
        "lent": _told(node.lent),
        "yarn": _told(node.yarn),
        "bands": {band: _band_told(node, band) for band in BANDS},
        "requested": {band: _told(amounts) for band, amounts in node.requested.items()},
        "used": None if node.used is None else _told(node.used),
        "usedByBand": {band: _told(amounts) for band, amounts in node.used_by_band.items()},
        "pageCache": _cache_told(node.page_cache),
    }


def _cache_told(cache: PageCache | None) -> dict[str, str | None] | None:
    if cache is None:
        return None
    return {
        "total": render("memory", cache.total),
        "cold": None if cache.cold is None else render("memory", cache.cold),
    }


def _band_told(node: NodeTop, band: str) -> dict[str, object]:
    """What a band may request, uses and has left; null if it has no resources of its own or no measurement."""
    shown: dict[str, object] = {}
    for word, of in (("lent", node.has), ("left", node.left)):
        amounts = {name: number for name in RESOURCES if (number := of(band, name)) is not None}
        shown[word] = _told(amounts) if amounts else None
    return {**shown, "used": None if node.used is None else _told(node.used_by_band[band])}


def _told(amounts: Amounts) -> dict[str, str]:
    return {name: render(name, amounts[name]) for name in RESOURCES}


def _pod(pod: Pod, usage: Usage) -> PodTop:
    key = pod.metadata.key
    return PodTop(
        key, pod.spec.node_name, band_of(pod), requested_by(pod), usage.pods.get(key), usage.page_cache.get(key)
    )


def requested_by(pod: Pod) -> Amounts:
    """cpu and memory, including lent ones, which have other names."""
    requested = dict.fromkeys(RESOURCES, 0)
    for name, number in pod_requests(pod).items():
        same = _SAME.get(name, name)
        if same in requested:
            requested[same] += number
    return requested


def band_of(pod: Pod) -> str:
    return priority_class(pod).removeprefix("koord-") or "none"


def shown_by(node: Node) -> NodeShown:
    allocatable = node.status.allocatable
    lent = {
        band: {same: amount(name, allocatable.get(name, 0)) for name, same in of_band.items()}
        for band, of_band in LENT.items()
    }
    ready = any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)
    return NodeShown(node.metadata.name, ready, node.spec.unschedulable, amounts_of(allocatable), lent, _yarn(node))


def node_top(node: NodeShown, pods: list[PodTop], usage: Usage) -> NodeTop:
    """The figures of a node with the unfinished pods on it."""
    return NodeTop(
        node.name,
        node.ready,
        node.cordoned,
        len(pods),
        node.allocatable,
        node.lent_by_band,
        {band: _sum(pod.requested for pod in pods if pod.band == band) for band in BANDS},
        usage.nodes.get(node.name),
        {band: _sum(pod.used for pod in pods if pod.band == band and pod.used is not None) for band in BANDS},
        node.yarn,
        usage.page_cache.get(node.name),
    )


def _yarn(node: Node) -> Amounts:
    claim = node_facts(node).claim
    return {"cpu": claim.cpu_milli, "memory": claim.memory_bytes}


def amounts_of(quantities: Mapping[str, str | int | float]) -> Amounts:
    return {name: amount(name, quantities[name]) if name in quantities else 0 for name in RESOURCES}


def _sum(several: Iterable[Amounts]) -> Amounts:
    total = dict.fromkeys(RESOURCES, 0)
    for amounts in several:
        for name in RESOURCES:
            total[name] += amounts[name]
    return total
