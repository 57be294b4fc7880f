"""What the manager keeps of objects: rows made straight from bytes, as the informers hand them over."""

from __future__ import annotations

import msgspec

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import decode
from koord.api.machinery.struct import Struct
from koord.api.protocol.crd.device import Device
from koord.api.protocol.crd.node_metric import NodeMetric, NodeMetricSpec
from koord.api.protocol.crd.node_resource_topology import NodeResourceTopology
from koord.api.protocol.slowed_by import SLOWED_BY, Blame, blames_in
from koord.kube.store import Identity
from koord.manager.node_state import (
    DeviceFacts,
    MetricRow,
    NodeFacts,
    PodRow,
    TopologyFacts,
    device_facts,
    metric_row,
    node_facts,
    pod_row,
    topology_facts,
)
from koord.manager.quota_profile import NodePart, node_part

ON_NODE = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Pods that use resources of a node. A pod that ends leaves the selection."""


class NodeRecord(Struct):
    facts: NodeFacts
    part: NodePart


class MetricRecord(Struct):
    row: MetricRow
    spec: NodeMetricSpec
    blames: tuple[Blame, ...] = ()
    "Interference on the node, as its agent reports it."


def node_record(raw: msgspec.Raw) -> NodeRecord:
    node = decode(Node, memoryview(raw))
    return NodeRecord(node_facts(node), node_part(node))


def metric_record(raw: msgspec.Raw) -> MetricRecord:
    metric = decode(NodeMetric, memoryview(raw))
    blames = [blame for pod in metric.status.pods_metric if SLOWED_BY in pod.extensions for blame in blames_in(pod)]
    return MetricRecord(metric_row(metric), metric.spec, tuple(blames))


def pod_record(raw: msgspec.Raw) -> PodRow:
    return pod_row(decode(Pod, memoryview(raw)))


def topology_record(raw: msgspec.Raw) -> TopologyFacts:
    return topology_facts(decode(NodeResourceTopology, memoryview(raw)))


def device_record(raw: msgspec.Raw) -> DeviceFacts:
    return device_facts(decode(Device, memoryview(raw)))


def of_node(record: NodeRecord) -> Identity:
    return record.facts.name, record.facts.uid, record.facts.version


def of_metric(record: MetricRecord) -> Identity:
    return record.row.name, record.row.uid, record.row.version


def of_pod(row: PodRow) -> Identity:
    return row.key, row.uid, row.version


def of_named(facts: TopologyFacts | DeviceFacts) -> Identity:
    return facts.name, facts.uid, facts.version


def by_node(row: PodRow) -> tuple[str, ...]:
    return (row.node,) if row.node else ()
