"""NodeResourceTopology: the NUMA nodes of one node and what each has. Named as the node; the node agent writes it.

The kind belongs to the Kubernetes ecosystem and other agents write it too. It is stored as v1alpha2 and used as
v1alpha1. One type serves both versions, so that no field is lost between them.
"""

from __future__ import annotations

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.struct import Struct
from koord.api.text.quantity import Quantity


class TopologyAttribute(Struct):
    name: str
    "Name of the attribute."
    value: str
    "Value of the attribute."


class ZoneCost(Struct):
    name: str
    "Name of the other zone."
    value: int
    "Distance to the other zone, as firmware reports it: 10 is local."


class ZoneResource(Struct):
    name: str
    "Name of the resource."
    capacity: Quantity
    "All that the zone has."
    allocatable: Quantity
    "What the zone has for pods."
    available: Quantity
    "What the zone has for pods and is not allocated."


class Zone(Struct):
    name: str
    "Name of the zone, such as node-0."
    type: str
    "What the zone is. Node stands for a NUMA node."
    parent: str = ""
    "Name of the zone that this one is a part of."
    costs: tuple[ZoneCost, ...] = ()
    "Distances to the zones."
    attributes: tuple[TopologyAttribute, ...] = ()
    "Further facts about the zone."
    resources: tuple[ZoneResource, ...] = ()
    "What the zone has."


class NodeResourceTopology(Struct, kw_only=True):
    """The NUMA nodes of one node and what each of them has, named as the node."""

    metadata: ObjectMeta = ObjectMeta()
    zones: tuple[Zone, ...]
    "The parts of the node, such as its NUMA nodes."
    topology_policies: tuple[str, ...] = ()
    "The kubelet's topology manager policy and scope. Newer writers give them as attributes instead."
    attributes: tuple[TopologyAttribute, ...] = ()
    "Further facts about the node."
