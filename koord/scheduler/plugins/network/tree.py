"""The tree of the network: domains by layer, from the whole cluster down to single nodes, read from nodes' labels.

    ClusterTopologyLayer  >  spine s1, s2  >  block b1, b2, ...  >  NodeTopologyLayer: n1, n2, ...

A node's domain in a layer is the first label of the layer that is not empty. A node without a domain directly above it
gets one of its own; a node without one further up is left out of the tree. A domain is identified by its layer and its
name. Where nodes disagree on what is above it, the first node by name counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from koord.api.protocol.crd.network_topology import (
    ClusterNetworkTopologyDetailStatus,
    ClusterNetworkTopologySpec,
    ClusterNetworkTopologyStatus,
    TopologyInfo,
)
from koord.scheduler.state.table import Array

ROOT: Final = "ClusterTopologyLayer"
NODE: Final = "NodeTopologyLayer"


class BadLayers(ValueError):
    """The layers do not make a chain from nodes to the cluster."""


@dataclass(frozen=True, slots=True)
class Level:
    """All domains of one layer, by name."""

    layer: str
    names: tuple[str, ...]
    parent: Array
    "Of each, the number of the domain above it, in the level above."


@dataclass(frozen=True, slots=True)
class Tree:
    levels: tuple[Level, ...]
    "The cluster first, nodes last."
    outside: tuple[str, ...] = ()
    "Nodes without a place in it."

    def level_of(self, layer: str) -> int | None:
        return next((i for i, level in enumerate(self.levels) if level.layer == layer), None)

    def ancestors(self, level: int) -> Array:
        """Of every node, the number of its domain in a level."""
        domain: Array = np.arange(len(self.levels[-1].names))
        for depth in range(len(self.levels) - 1, level, -1):
            domain = self.levels[depth].parent[domain]
        return domain

    def summed(self, of_nodes: Array) -> list[Array]:
        """By level, a number of every node added up for every domain."""
        sums = [of_nodes]
        for i in range(len(self.levels) - 1, 0, -1):
            above = np.bincount(self.levels[i].parent, sums[0], len(self.levels[i - 1].names))
            sums.insert(0, above.astype(np.int64))
        return sums


def layers_of(spec: ClusterNetworkTopologySpec) -> list[tuple[str, tuple[str, ...]]]:
    """Layers above the nodes, with their labels, the lowest first; without the cluster as a whole."""
    by_name = {layer.topology_layer: layer for layer in spec.network_topology_spec}
    if len(by_name) != len(spec.network_topology_spec):
        raise BadLayers("spec.networkTopologySpec names a layer twice")
    if NODE not in by_name:
        raise BadLayers(f"spec.networkTopologySpec has no layer {NODE}, where the chain of layers starts")
    labels: list[tuple[str, tuple[str, ...]]] = []
    above = by_name[NODE].parent_topology_layer
    while above and above != ROOT:
        if above not in by_name:
            raise BadLayers(f"spec.networkTopologySpec has no layer {above}, which another one has as its parent")
        if any(above == layer for layer, _ in labels) or above == NODE:
            raise BadLayers(f"spec.networkTopologySpec: layer {above} is above itself")
        labels.append((above, by_name[above].label_key))
        above = by_name[above].parent_topology_layer
    return labels


def tree_of(spec: ClusterNetworkTopologySpec, nodes: Mapping[str, Mapping[str, str]]) -> Tree:
    """The tree of some nodes, given by name with their labels. Raises `BadLayers`."""
    layers = layers_of(spec)
    above: list[dict[str, str]] = [{} for _ in layers]
    "By layer, the lowest first: the domain above each domain."
    of_node: dict[str, str] = {}
    outside = []
    for node in sorted(nodes):
        path = _path(node, nodes[node], layers)
        if path is None:
            outside.append(node)
            continue
        of_node[node] = path[0] if path else ""
        for i, name in enumerate(path):
            above[i].setdefault(name, path[i + 1] if i + 1 < len(path) else "")
    levels, number_of = [Level(ROOT, ("",), np.zeros(1, np.intp))], {"": 0}
    for (layer, _), codes in zip(reversed(layers), reversed(above), strict=True):
        levels.append(_level(layer, codes, number_of))
        number_of = {name: i for i, name in enumerate(levels[-1].names)}
    levels.append(_level(NODE, of_node, number_of))
    return Tree(tuple(levels), tuple(outside))


def _level(layer: str, above: Mapping[str, str], number_of: Mapping[str, int]) -> Level:
    names = tuple(sorted(above))
    return Level(layer, names, np.array([number_of[above[name]] for name in names], np.intp))


def _path(node: str, labels: Mapping[str, str], layers: Sequence[tuple[str, tuple[str, ...]]]) -> list[str] | None:
    """The domains of a node, the lowest first; None where it has no place in the tree."""
    path = []
    for i, (_, keys) in enumerate(layers):
        name = next((labels[key] for key in keys if labels.get(key)), "")
        if not name and i > 0:
            return None
        path.append(name or node)
    return path


def status_of(tree: Tree) -> ClusterNetworkTopologyStatus:
    """What the object says of its tree: every domain above the nodes."""
    numbers = tree.summed(np.ones(len(tree.levels[-1].names), np.int64))
    details = []
    for i, level in enumerate(tree.levels[:-1]):
        below = tree.levels[i + 1]
        children: list[list[str]] = [[] for _ in level.names]
        for name, parent in zip(below.names, below.parent.tolist(), strict=True):
            children[parent].append(name)
        for number in range(len(level.names)):
            above = None if i == 0 else _info(tree.levels[i - 1], int(level.parent[number]))
            names = () if below.layer == NODE else tuple(children[number])
            nodes = int(numbers[i][number])
            details.append(ClusterNetworkTopologyDetailStatus(_info(level, number), nodes, above, below.layer, names))
    return ClusterNetworkTopologyStatus(tuple(details))


def _info(level: Level, number: int) -> TopologyInfo:
    return TopologyInfo(level.layer, level.names[number])


def named(domains: Iterable[tuple[str, int]]) -> str:
    """`b1 6, b2 8`, for messages."""
    return ", ".join(f"{name or 'the cluster'} {offer}" for name, offer in domains)
