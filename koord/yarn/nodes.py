"""Nodes and pods as the operator sees them: pools and claims, NodeManagers, and what batch pods hold.

A NodeManager is declared by a pod with the label `app.kubernetes.io/component: node-manager`, or by an annotation of
the node where it runs as a host process. Its name at the ResourceManager is the annotation
`yarn.hadoop.apache.org/node-id`; without it, the one NodeManager there whose host is the node's or the pod's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import pod_requests
from koord.api.machinery.struct import Struct
from koord.api.protocol import names
from koord.api.protocol.annotations.colocation import (
    ORIGIN_EXTENDED_ALLOCATABLE,
    THIRD_PARTY_ALLOCATIONS,
    ThirdPartyAllocation,
    ThirdPartyAllocations,
)
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.priority import PriorityClass
from koord.api.text.quantity import QuantityError, ResourceList, render, value
from koord.api.text.timestamp import from_seconds as timestamp
from koord.yarn.amount import NOTHING, Amount
from koord.yarn.hadoop.address import is_address
from koord.yarn.hadoop.messages import NodeReport

ENTRY: Final = "hadoop-yarn"
NODE_MANAGER: Final = "node-manager"
CONDITION: Final = names.CONDITION_YARN
UNKNOWN: Final = "UnknownNodeManager"
"""Why a node has no part: the ResourceManager does not know its NodeManager, or not yet."""
WITHDRAWN: Final = ("", "", "")
"""The condition of a node that has nothing to do with YARN: none."""


class Declared(Struct):
    """A NodeManager that is declared for a node."""

    cluster: str
    node_id: str
    "host:port, empty where it is not said."
    hosts: tuple[str, ...]
    "Names under which the ResourceManager may know it."
    where: str
    "The object that says so, as in `pod hadoop/nm-1`."
    fault: str = ""


class NodeFacts(Struct):
    name: str
    uid: str
    version: str
    pool: Amount
    allocatable: Amount
    claim: Amount
    others: Amount
    allocations: tuple[ThirdPartyAllocation, ...]
    "Of other systems."
    recorded: tuple[str, str] | None
    "Cluster and node id of the NodeManager that the claim is for."
    declared: Declared | None
    "By the node itself."
    addresses: tuple[str, ...]
    condition: tuple[str, str, str] = WITHDRAWN
    "Status, reason and message."
    fault: str = ""
    "Why what is reclaimed of it cannot be read."


class PodFacts(Struct):
    key: str
    uid: str
    version: str
    node: str
    held: Amount
    is_node_manager: bool
    declared: Declared | None


def node_facts(node: Node) -> NodeFacts:
    meta = node.metadata
    fault = ""
    allocations: tuple[ThirdPartyAllocation, ...] = ()
    claim, others, pool = NOTHING, NOTHING, NOTHING
    try:
        origin = ORIGIN_EXTENDED_ALLOCATABLE.read(meta)
        pool = batch(node.status.allocatable if origin is None else origin.resources)
    except (AnnotationError, QuantityError) as error:
        fault = str(error)
    try:
        allocations = THIRD_PARTY_ALLOCATIONS.read(meta).allocations
        for allocation in allocations:
            if allocation.name == ENTRY:
                claim = claim.plus(batch(allocation.resources))
            elif allocation.priority == PriorityClass.BATCH:
                others = others.plus(batch(allocation.resources))
    except (AnnotationError, QuantityError):
        # It holds nothing, as the manager has it, until the claim is written again.
        allocations, claim, others = (), NOTHING, NOTHING
    hosts = (meta.name, *(address.address for address in node.status.addresses))
    condition = node.status.condition(CONDITION)
    return NodeFacts(
        meta.name,
        meta.uid,
        meta.resource_version,
        pool,
        batch(node.status.allocatable),
        claim,
        others,
        tuple(allocation for allocation in allocations if allocation.name != ENTRY),
        _recorded(meta.annotations.get(names.OWN_ANNOTATION_YARN_NODE, "")),
        _declared(meta.annotations, f"node {meta.name}", hosts) if _says(meta.annotations) else None,
        tuple(dict.fromkeys(hosts)),
        (condition.status, condition.reason, condition.message) if condition is not None else WITHDRAWN,
        fault,
    )


def pod_facts(pod: Pod) -> PodFacts:
    meta = pod.metadata
    is_node_manager = meta.labels.get(names.LABEL_COMPONENT) == NODE_MANAGER
    declared = None
    if is_node_manager:
        hosts = tuple(host for host in (meta.name, pod.status.pod_ip) if host)
        declared = _declared(meta.annotations, f"pod {meta.key}", hosts)
    requests = pod_requests(pod, capped=True)
    held = Amount(requests.get(names.RESOURCE_BATCH_CPU, 0), requests.get(names.RESOURCE_BATCH_MEMORY, 0))
    return PodFacts(meta.key, meta.uid, meta.resource_version, pod.spec.node_name, held, is_node_manager, declared)


def batch(resources: ResourceList) -> Amount:
    return Amount(
        max(value(resources.get(names.RESOURCE_BATCH_CPU, 0)), 0),
        max(value(resources.get(names.RESOURCE_BATCH_MEMORY, 0)), 0),
    )


def declared_on(node: NodeFacts, pods: Iterable[PodFacts]) -> Declared | None:
    """The pod that is first by name, else the node's own word."""
    declaring = sorted((pod for pod in pods if pod.declared is not None), key=lambda candidate: candidate.key)
    if not declaring or declaring[0].declared is None:
        return node.declared
    said = declaring[0].declared
    return Declared(said.cluster, said.node_id, (*said.hosts, *node.addresses), said.where, said.fault)


class Unmatched(Struct):
    """Why a declared NodeManager is not found, and what to set."""

    reason: str
    message: str


def candidates(declared: Declared, reports: Mapping[str, NodeReport]) -> list[str]:
    """Ids of NodeManagers that may be the declared one."""
    if declared.node_id:
        return [declared.node_id] if declared.node_id in reports else []
    return [node_id for node_id in reports if node_id.rpartition(":")[0] in declared.hosts]


def match(declared: Declared, reports: Mapping[str, NodeReport]) -> str | Unmatched:
    """The node id at the ResourceManager."""
    if declared.fault:
        return Unmatched("InvalidNodeID", declared.fault)
    key = names.ANNOTATION_YARN_NODE_ID
    if declared.node_id:
        # It may be lost, or not have come yet: then it is not among the reports, but its name is known.
        return declared.node_id
    near = candidates(declared, reports)
    if len(near) == 1:
        return near[0]
    listed = ", ".join(sorted(reports)[:3]) or "no node"
    if near:
        return Unmatched(
            "AmbiguousNodeManager",
            f"the ResourceManager has {' and '.join(sorted(near))}: set {key} on {declared.where} to the right one",
        )
    return Unmatched(
        UNKNOWN,
        f"the ResourceManager has no NodeManager on {' or '.join(dict.fromkeys(declared.hosts))}; it has {listed}."
        f" If one of these is this node's, set {key} on {declared.where}",
    )


def unknown(node_id: str, declared: Declared, reports: Mapping[str, NodeReport]) -> Unmatched:
    """A NodeManager that is named and not there."""
    report = reports.get(node_id)
    if report is not None:
        return Unmatched("NodeManagerNotRunning", f"NodeManager {node_id} is {report.state}: its share is kept for it")
    port = node_id.rpartition(":")[2]
    near = [
        node_id
        for node_id in reports
        if node_id.rpartition(":")[0] in declared.hosts or node_id.rpartition(":")[2] == port
    ]
    hint = f"; it has {', '.join(sorted(near)[:3])}" if near else ""
    return Unmatched(
        UNKNOWN,
        f"the ResourceManager has no NodeManager {node_id} running{hint}. Start it, or set"
        f" {names.ANNOTATION_YARN_NODE_ID} on {declared.where} to its name there",
    )


def claim_patch(node: NodeFacts, claim: Amount, of: tuple[str, str] | None) -> dict[str, object]:
    """The patch that writes a claim, for the version of the node that was looked at."""
    entries = list(node.allocations)
    if claim != NOTHING:
        amounts: dict[str, str | int | float] = {
            names.RESOURCE_BATCH_CPU: render(names.RESOURCE_BATCH_CPU, claim.cpu_milli),
            names.RESOURCE_BATCH_MEMORY: render(names.RESOURCE_BATCH_MEMORY, claim.memory_bytes),
        }
        entries.append(ThirdPartyAllocation(ENTRY, PriorityClass.BATCH.value, amounts))
    record = None if of is None or claim == NOTHING else f"{of[0]}/{of[1]}" if of[0] else of[1]
    annotations = {
        names.ANNOTATION_THIRD_PARTY_ALLOCATIONS: THIRD_PARTY_ALLOCATIONS.render(ThirdPartyAllocations(tuple(entries)))
        if entries
        else None,
        names.OWN_ANNOTATION_YARN_NODE: record,
    }
    return {"metadata": {"uid": node.uid, "resourceVersion": node.version, "annotations": annotations}}


def condition_patch(node: NodeFacts, condition: tuple[str, str, str], now_s: float) -> dict[str, object]:
    """The strategic patch of the node's status that says it, or takes it back."""
    status, reason, message = condition
    written: dict[str, str] = {"type": CONDITION}
    if condition == WITHDRAWN:
        written["$patch"] = "delete"
    else:
        written |= {"status": status, "reason": reason, "message": message[:1000]}
        if node.condition[0] != status:
            written["lastTransitionTime"] = timestamp(now_s)
    return {"metadata": {"uid": node.uid}, "status": {"conditions": [written]}}


def _says(annotations: Mapping[str, str]) -> bool:
    return names.ANNOTATION_YARN_NODE_ID in annotations


def _declared(annotations: Mapping[str, str], where: str, hosts: tuple[str, ...]) -> Declared:
    node_id = annotations.get(names.ANNOTATION_YARN_NODE_ID, "").strip()
    cluster = annotations.get(names.ANNOTATION_YARN_CLUSTER_ID, "").strip()
    if node_id and not is_address(node_id):
        fault = f"{names.ANNOTATION_YARN_NODE_ID} on {where} is {node_id[:80]!r}: it must be host:port"
        return Declared(cluster, "", hosts, where, fault)
    return Declared(cluster, node_id, hosts, where)


def _recorded(text: str) -> tuple[str, str] | None:
    cluster, _, node_id = text.rpartition("/")
    return (cluster, node_id) if is_address(node_id) else None
