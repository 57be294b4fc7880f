"""Pools: the devices that one node can use, from the slices that drivers publish.

Of a pool, the slices count that the node's name and labels match, of the highest generation among them. A pool is

    complete     all of its slices exist: as many match as the pool has, or the rest exist for other nodes
    incomplete   some do not exist yet: the driver is at work
    invalid      two devices or counter sets of one name, or a device that consumes counters which do not exist
    outdated     a newer generation exists, for other nodes only so far: nothing of it is used here

Only complete pools are used. Devices are in the order in which they are tried: pools by driver and name, slices by
name, devices as listed; pools with a device that must be prepared before binding come last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from koord.api.kubernetes.dynamic_resources import Device, DeviceTaintRule, ResourceSlice
from koord.api.kubernetes.node import Node, Taint
from koord.api.text.selector import NodeMatcher, NodeSelector, SelectorError, compile_nodes
from koord.scheduler.plugins.dynamic_resources.expressions import device_value, selects
from koord.scheduler.plugins.dynamic_resources.quantities import exact


class PoolId(NamedTuple):
    driver: str
    name: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"


class DeviceId(NamedTuple):
    driver: str
    pool: str
    name: str

    @property
    def pool_id(self) -> PoolId:
        return PoolId(self.driver, self.pool)

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.name}"


_NO_COUNTERS: Final[Mapping[tuple[str, str], int]] = {}


@lru_cache(4096)
def _answers(pairs: tuple[tuple[str, bool | str], ...]) -> Mapping[str, bool | str]:
    """Answers by expression. Most devices have equal ones, and share them."""
    return dict(pairs)


class SlicedDevice:
    """A device of a slice, with what is worked out once for all nodes and claims."""

    __slots__ = ("_answers", "counters", "device", "id", "slice", "taints")

    def __init__(self, device: Device, slice_: ResourceSlice, rules: Iterable[DeviceTaintRule] = ()) -> None:
        self.device, self.slice = device, slice_
        self.id = DeviceId(slice_.spec.driver, slice_.spec.pool.name, device.name)
        self.taints: tuple[Taint, ...] = (*device.taints, *(rule.spec.taint for rule in rules if _means(rule, self.id)))
        self.counters = _NO_COUNTERS
        if device.consumes_counters:
            self.counters = {
                (consumption.counter_set, name): exact(counter.value)
                for consumption in device.consumes_counters
                for name, counter in consumption.counters.items()
            }
        self._answers = _answers(())

    def is_selected(self, expression: str) -> bool | str:
        """Whether a CEL expression means it; in words, why that cannot be told. Evaluated once."""
        answer = self._answers.get(expression)
        if answer is None:
            # The form for expressions takes more memory than the device, and is seldom needed: it is not kept.
            answer = selects(expression, device_value(self.id.driver, self.device))
            self._answers = _answers((*self._answers.items(), (expression, answer)))
        return answer

    @property
    def is_bound_to_node(self) -> bool:
        """Whether a claim that has it can be used on one node only."""
        return bool(self.slice.spec.node_name or self.device.node_name or self.device.binds_to_node)

    @property
    def node_selector(self) -> NodeSelector | None:
        return self.device.node_selector if self.slice.spec.per_device_node_selection else self.slice.spec.node_selector


def _means(rule: DeviceTaintRule, device: DeviceId) -> bool:
    chosen = rule.spec.device_selector
    if chosen is None:
        return True
    pairs = zip((chosen.driver, chosen.pool, chosen.device), device, strict=True)
    return all(wanted is None or wanted == name for wanted, name in pairs)


Problem = Literal["", "incomplete", "invalid"]


@dataclass(slots=True)
class Pool:
    """A pool as one node sees it."""

    id: PoolId
    devices: Sequence[SlicedDevice]
    "Those that the node can use, in order; all that match, if the pool has a problem."
    counters: Mapping[tuple[str, str], int] = field(default_factory=dict)
    "What its counter sets have, by set and counter."
    all_devices: Mapping[str, SlicedDevice] = field(default_factory=dict)
    "Those of all nodes, of the same generation: allocated ones consume counters."
    problem: Problem = ""
    prepares: bool = False
    "Whether a device in the slices that the node sees must be prepared before a pod is bound."


def is_for(slice_: ResourceSlice, node: Node) -> bool:
    """Whether a node can use some of a slice."""
    spec = slice_.spec
    if spec.per_device_node_selection:
        return any(device_is_for(device, node) for device in spec.devices)
    return _matches(spec.node_name, spec.node_selector, spec.all_nodes, node)


def device_is_for(device: Device, node: Node) -> bool:
    """Whether a node can use a device that says so itself."""
    return _matches(device.node_name, device.node_selector, device.all_nodes, node)


def _matches(name: str, selector: NodeSelector | None, all_nodes: bool, node: Node) -> bool:
    if name:
        return name == node.metadata.name
    return all_nodes if selector is None else selects_node(selector, node)


def selects_node(selector: NodeSelector, node: Node) -> bool:
    """Whether a node selector means a node. One that cannot be understood means none."""
    matcher = _matcher(selector)
    return matcher is not None and matcher.matches(node.metadata.labels, node.metadata.name)


@lru_cache(4096)
def _matcher(selector: NodeSelector) -> NodeMatcher | None:
    try:
        return compile_nodes(selector)
    except SelectorError:
        return None


def pool_for(
    pool_id: PoolId,
    slices: Sequence[ResourceSlice],
    node: Node,
    devices_of: Callable[[ResourceSlice], Sequence[SlicedDevice]],
) -> Pool | None:
    """A pool as a node sees it; None: the node does not use it. `slices`: all of the pool, sorted by name."""
    matching = [slice_ for slice_ in slices if is_for(slice_, node)]
    # Slices with counters have no devices and often no node of their own: they matter where devices do.
    if not matching:
        return None
    newest = max(slice_.spec.pool.generation for slice_ in matching)
    matching = [slice_ for slice_ in matching if slice_.spec.pool.generation == newest]
    count = matching[0].spec.pool.resource_slice_count
    current = matching
    problem: Problem = ""
    if len(matching) != count:
        if any(slice_.spec.pool.generation > newest for slice_ in slices):
            return None
        current = [slice_ for slice_ in slices if slice_.spec.pool.generation == newest]
        if len(current) != count:
            problem = "incomplete"
    usable = [
        device
        for slice_ in matching
        for device in devices_of(slice_)
        if not slice_.spec.per_device_node_selection or device_is_for(device.device, node)
    ]
    counters, doubled = _counters(current)
    everywhere = [device for slice_ in current for device in devices_of(slice_)]
    if not problem and (doubled or _is_invalid(matching, everywhere, counters, devices_of)):
        problem = "invalid"
    prepares = any(device.binding_conditions for slice_ in matching for device in slice_.spec.devices)
    return Pool(pool_id, usable, counters, {device.id.name: device for device in everywhere}, problem, prepares)


def _counters(slices: Iterable[ResourceSlice]) -> tuple[dict[tuple[str, str], int], bool]:
    """What counter sets have, and whether one is there twice."""
    counters: dict[tuple[str, str], int] = {}
    names: set[str] = set()
    doubled = False
    for slice_ in slices:
        for counter_set in slice_.spec.shared_counters:
            doubled |= counter_set.name in names
            names.add(counter_set.name)
            counters |= {
                (counter_set.name, name): exact(counter.value) for name, counter in counter_set.counters.items()
            }
    return counters, doubled


def _is_invalid(
    matching: Sequence[ResourceSlice],
    everywhere: Sequence[SlicedDevice],
    counters: Mapping[tuple[str, str], int],
    devices_of: Callable[[ResourceSlice], Sequence[SlicedDevice]],
) -> bool:
    names = [device.id.name for slice_ in matching for device in devices_of(slice_)]
    return len(set(names)) != len(names) or any(not device.counters.keys() <= counters.keys() for device in everywhere)


def in_order(pools: Iterable[Pool]) -> list[Pool]:
    """Pools in the order in which they are tried."""
    return sorted(pools, key=lambda pool: (pool.prepares, pool.id))
