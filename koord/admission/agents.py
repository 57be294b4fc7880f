"""What agents may write: what is about their own node.

All agents have one service account, so rights cannot tell them apart, but an agent's token names the node that its
pod runs on (Kubernetes 1.30 and later). An agent of another node is refused: an attacker who owns one machine does
not taint or label others, report for them, or evict their pods. Tokens that name no node (older servers, tokens of
files) say nothing about it, and are let through.

The entries are called for agents alone, and for their writes alone. Without a manager, agents' reports are stored, and
all else of theirs is refused: no agent needs that at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from koord.admission.hook import IN_PASSING_S, Hook
from koord.admission.plain import part
from koord.admission.request import FORBIDDEN, Operation, Refused, Request
from koord.admission.resource import AdmissionResource
from koord.admission.rule import CREATE, UPDATE, WRITES, RuleContext, Validating
from koord.api.configuration.features import ManagerGate
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.faults import Fault
from koord.api.machinery.struct import Struct
from koord.api.protocol import names

ACCOUNT: Final = "koord-agent"
_TIMEOUT_S: Final = 2
_GATE: Final = ManagerGate.AGENT_NODE_RESTRICTION
_REPORTS: Final = (
    ("nodemetrics/status", "slo.koordinator.sh", "v1alpha1", UPDATE),
    ("devices", "scheduling.koordinator.sh", "v1alpha1", WRITES),
    ("noderesourcetopologies", "topology.node.k8s.io", "v1alpha1", WRITES),
)
"""Objects with the name of their node."""
_ACTS: Final[tuple[tuple[str, tuple[Operation, ...]], ...]] = (
    ("nodes", UPDATE),
    ("pods/status", UPDATE),
    ("pods/eviction", CREATE),
)


class _Named(Struct):
    metadata: ObjectMeta = ObjectMeta()


def _user(namespace: str) -> str:
    return f"system:serviceaccount:{namespace}:{ACCOUNT}"


def _hooks(namespace: str) -> Iterator[Hook]:
    act = Hook(
        name="",
        path=names.WEBHOOK_VALIDATE_AGENT,
        mutating=False,
        gate=_GATE,
        operations=(),
        resource="",
        object_type="agent",
        fails_closed=True,
        timeout_s=_TIMEOUT_S,
        conditions=(("by-an-agent", f"request.userInfo.username == '{_user(namespace)}'"),),
    )
    for resource, operations in _ACTS:
        yield replace(act, name=_name(resource), resource=resource, operations=operations)
    report = replace(act, fails_closed=False, timeout_s=IN_PASSING_S)
    for resource, group, version, operations in _REPORTS:
        yield replace(
            report, name=_name(resource), resource=resource, group=group, version=version, operations=operations
        )


def _name(resource: str) -> str:
    return f"vagent-{resource.replace('/', '-')}.koordinator.sh"


def asks_for_node(request: Request) -> bool:
    """Whether a request is about a pod whose node only the cluster knows."""
    return request.resource == "pods" and request.subresource == "eviction" and bool(request.node)


def _own_node(context: RuleContext) -> Iterator[Fault]:
    request, facts = context.request, context.facts
    if not request.node or request.user != _user(facts.schedulers.namespace):
        return
    key = f"{request.namespace}/{request.name}"
    if request.resource != "pods":
        node: str | None = request.name or part(request.object or {}, "metadata").get("name", "")
    elif asks_for_node(request):
        node = facts.pod_nodes.get(key)
    else:
        node = part(request.old or request.object or {}, "spec").get("nodeName", "")
    if node != request.node:
        what = f"pod {key}" if request.resource == "pods" else f"{request.resource} {node}"
        where = "is not on" if request.resource == "pods" else "is not of"
        raise Refused(
            [Fault("", f"{what} {where} node {request.node}, and its agent may write nothing else")], FORBIDDEN
        )
    yield from ()


RESOURCE: Final = AdmissionResource(
    "agents",
    _Named,
    _hooks,
    validating=tuple(
        Validating("AgentNode", resource, operations, subresource=subresource, gate=_GATE, run=_own_node)
        for path, operations in (*_ACTS, *((report[0], report[3]) for report in _REPORTS))
        for resource, _, subresource in (path.partition("/"),)
    ),
)
