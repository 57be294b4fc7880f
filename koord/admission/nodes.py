"""Admission of nodes: amplified resources in the status, conflicts of node settings, unreadable annotations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from koord.admission import node_amplification, node_config, readable, typed
from koord.admission.hook import Hook
from koord.admission.plain import labels_of
from koord.admission.resource import AdmissionResource
from koord.admission.rule import UPDATE, WRITES, Mutating, RuleContext, Validating
from koord.api.configuration.features import ManagerGate
from koord.api.kubernetes.node import Node
from koord.api.machinery.faults import Fault
from koord.api.protocol import names


def _hooks(namespace: str) -> Iterator[Hook]:
    yield Hook(
        name="mnode-status.koordinator.sh",
        path=names.WEBHOOK_MUTATE_NODE_STATUS,
        mutating=True,
        gate=ManagerGate.NODE_MUTATING_WEBHOOK,
        operations=("CREATE", "UPDATE"),
        resource="nodes/status",
        object_type="node",
        fails_closed=False,
        timeout_s=2,
    )
    yield Hook(
        name="vnode.koordinator.sh",
        path=names.WEBHOOK_VALIDATE_NODE,
        mutating=False,
        gate=ManagerGate.NODE_VALIDATING_WEBHOOK,
        operations=("CREATE", "UPDATE"),
        resource="nodes",
        object_type="node",
        fails_closed=False,
        timeout_s=2,
    )


def _node_config(context: RuleContext) -> Iterator[Fault]:
    request = context.request
    labels, old = labels_of(request.object or {}), labels_of(request.old or {})
    if request.operation == "UPDATE" and labels == old:
        return
    for fault in node_config.conflicts(labels, context.facts.slo_config):
        # A machine must be able to join. Its labels can be corrected later.
        if request.operation == "CREATE":
            context.warnings.append(str(fault))
        else:
            yield fault


def _readable_node(context: RuleContext) -> Iterable[Fault]:
    new, old = (typed.typed(Node, obj or {}).metadata for obj in (context.request.object, context.request.old))
    context.warnings += readable.warnings("Node", new, old if context.request.operation == "UPDATE" else None)
    return ()


RESOURCE: Final = AdmissionResource(
    "nodes",
    Node,
    _hooks,
    mutating=(
        Mutating(
            "NodeResourceAmplificationPlugin",
            "nodes",
            UPDATE,
            subresource="status",
            run=lambda context, node: node_amplification.amplified(node, context.request.old),
        ),
    ),
    validating=(
        Validating("SLOManagerConfigConflictForNode", "nodes", WRITES, run=_node_config),
        Validating("ReadableAnnotations", "nodes", WRITES, run=_readable_node),
    ),
)
