"""DaemonSets and nodes: where does its pod belong, and which node is a pod meant for?

A daemon's pod is bound by the scheduler like any other, but its affinity leaves it one node: the name of that node in
`matchFields`. It tolerates what happens to nodes, because it is often what helps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from koord.api.kinds import DAEMON_SETS
from koord.api.kubernetes.core import Node, Pod
from koord.api.kubernetes.pod import PodTemplateSpec, Toleration
from koord.api.kubernetes.taints import untolerated
from koord.api.kubernetes.words import TaintEffect, TaintKey, TolerationOperator
from koord.api.kubernetes.workloads import DaemonSet, template_of
from koord.api.text.selector import SelectorError, compile_nodes, match_labels
from koord.api.workloads.new_pods import managing, name_prefix, pod_from
from koord.api.workloads.revision import POD_LABEL, Revision

AUTOMATIC: Final[tuple[tuple[TaintKey, TaintEffect], ...]] = (
    (TaintKey.NOT_READY, TaintEffect.NO_EXECUTE),
    (TaintKey.UNREACHABLE, TaintEffect.NO_EXECUTE),
    (TaintKey.DISK_PRESSURE, TaintEffect.NO_SCHEDULE),
    (TaintKey.MEMORY_PRESSURE, TaintEffect.NO_SCHEDULE),
    (TaintKey.PID_PRESSURE, TaintEffect.NO_SCHEDULE),
    (TaintKey.UNSCHEDULABLE, TaintEffect.NO_SCHEDULE),
)
FOR_HOST_NETWORK: Final = (TaintKey.NETWORK_UNAVAILABLE, TaintEffect.NO_SCHEDULE)


def automatic(template: PodTemplateSpec) -> tuple[tuple[TaintKey, TaintEffect], ...]:
    """The taints that a daemon's pod tolerates without being told to."""
    return (*AUTOMATIC, FOR_HOST_NETWORK) if template.spec.host_network else AUTOMATIC


def belongs(template: PodTemplateSpec, node: Node) -> tuple[bool, bool]:
    """Whether a pod should be made on the node, and whether an existing one may stay."""
    spec = template.spec
    if spec.node_name and spec.node_name != node.metadata.name:
        return False, False
    if not _matches(template, node):
        return False, False
    tolerations = (
        *spec.tolerations,
        *(Toleration(key, TolerationOperator.EXISTS, effect=effect) for key, effect in automatic(template)),
    )
    taints = node.spec.taints
    stays = untolerated(taints, tolerations, (TaintEffect.NO_EXECUTE,)) is None
    return stays and untolerated(taints, tolerations) is None, stays


def _matches(template: PodTemplateSpec, node: Node) -> bool:
    spec, labels = template.spec, node.metadata.labels
    if not match_labels(spec.node_selector).matches(labels):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if required is None:
        return True
    try:
        return compile_nodes(required).matches(labels, node.metadata.name)
    except SelectorError:
        return False


def target_node(pod: Pod) -> str:
    """The node that a daemon's pod is on, or is meant for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    for term in required.node_selector_terms if required else ():
        for field in term.match_fields:
            if field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1:
                return field.values[0]
    return ""


def pinned(spec: Mapping[str, Any], template: PodTemplateSpec, node: str) -> dict[str, Any]:
    """A pod's spec that only `node` satisfies, with the automatic tolerations."""
    only = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    affinity = dict(spec.get("affinity") or {})
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    alternatives: list[dict[str, Any]] = list(required.get("nodeSelectorTerms") or [{}])
    terms = [{**term, "matchFields": only} for term in alternatives]
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    given = list(spec.get("tolerations") or ())
    added = [{"key": str(key), "operator": "Exists", "effect": str(effect)} for key, effect in automatic(template)]
    new = [toleration for toleration in added if toleration not in given]
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}, "tolerations": [*given, *new]}


def new_pod(set_: DaemonSet, revision: Revision, node: str) -> dict[str, Any]:
    """The pod for one node, which no other node can take."""
    meta = set_.metadata
    body = pod_from(revision.template, name_prefix(meta), managing(DAEMON_SETS, meta))
    body["metadata"]["labels"] = {**body["metadata"].get("labels", {}), POD_LABEL: revision.hash}
    body["spec"] = pinned(body["spec"], template_of(revision.template), node)
    return body
