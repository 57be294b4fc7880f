"""ClusterNetworkTopology: the layers of the cluster's network (spine, block, ...), read from node labels.

Gangs that ask for it are placed close together in that tree. The layers form one chain from ClusterTopologyLayer,
the whole cluster, down to NodeTopologyLayer, a single node.
"""

from __future__ import annotations

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.struct import Struct
from koord.api.protocol.crd.fields import Int32


class NetworkTopologySpec(Struct):
    topology_layer: str
    "Name of the layer. NodeTopologyLayer is built in and stands for single nodes."
    parent_topology_layer: str = ""
    "Name of the layer above. ClusterTopologyLayer is built in and stands for the whole cluster."
    label_key: tuple[str, ...] = ()
    "Node labels that name the node's place in this layer. The first that a node has counts."


class ClusterNetworkTopologySpec(Struct):
    network_topology_spec: tuple[NetworkTopologySpec, ...]
    "The layers of the network."


class TopologyInfo(Struct):
    topology_layer: str
    "Name of the layer."
    topology_name: str
    "Name of the place in the layer."


class ClusterNetworkTopologyDetailStatus(Struct):
    topology_info: TopologyInfo
    "The place that this entry is about."
    node_num: Int32
    "How many nodes are below the place."
    parent_topology_info: TopologyInfo | None = None
    "The place above."
    child_topology_layer: str = ""
    "Name of the layer below."
    child_topology_names: tuple[str, ...] = ()
    "Names of the places directly below."


class ClusterNetworkTopologyStatus(Struct):
    detail_status: tuple[ClusterNetworkTopologyDetailStatus, ...] = ()
    "The tree that the nodes' labels make, one entry for each place in it."


class ClusterNetworkTopology(Struct, kw_only=True):
    """The layers of the cluster's network, so that pods which talk much can be placed close together."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClusterNetworkTopologySpec
    "The layers, and the node labels that they are read from."
    status: ClusterNetworkTopologyStatus = ClusterNetworkTopologyStatus()
    "The tree that was found. Written by the scheduler."
