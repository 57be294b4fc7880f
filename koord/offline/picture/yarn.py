"""YARN's part of what a node lends: what it claims, what Kubernetes gets, and which NodeManager it is for."""

from __future__ import annotations

from koord.offline.picture.section import Line, NodeView, Section, Span
from koord.yarn.amount import NOTHING, Amount
from koord.yarn.nodes import NodeFacts, node_facts


def yarn(seen: NodeView) -> Section | None:
    node = node_facts(seen.node)
    if node.claim == NOTHING and node.recorded is None and not node.condition[0]:
        return None
    status, reason, message = node.condition
    lines: list[Line] = [
        (Span(f"{'reclaimed':<11}{_said(node.pool)}"),),
        (Span(f"{'YARN':<11}{_said(node.claim)}, in whole vcores and MiB"),),
        (Span(f"{'Kubernetes':<11}{_said(node.allocatable)}"),),
    ]
    if node.others != NOTHING:
        lines.append((Span(f"{'others':<11}{_said(node.others)}"),))
    if status and status != "True":
        lines.append((Span(f"{reason}: {message}", "yellow"),))
    elif reason and reason != "Shared":
        lines.append((Span(f"{reason}: {message}"),))
    if not node.claim.plus(node.allocatable).plus(node.others).fits(node.pool):
        lines.append((Span("more is told than is left: the manager has yet to lower it", "yellow"),))
    return Section("yarn", _title(node), tuple(lines), _data(node))


def _title(node: NodeFacts) -> str:
    if node.recorded is None:
        return "no NodeManager has a part of this node"
    cluster, node_id = node.recorded
    return f"NodeManager {node_id}" + (f" of the cluster {cluster}" if cluster else "")


def _said(amount: Amount) -> str:
    return f"{amount.cpu_milli / 1000:g} cores, {amount.memory_bytes / (1 << 30):.1f} GiB"


def _data(node: NodeFacts) -> dict[str, object]:
    status, reason, message = node.condition
    return {
        "nodeManager": node.recorded[1] if node.recorded else None,
        "cluster": node.recorded[0] if node.recorded else None,
        "reclaimed": _amounts(node.pool),
        "yarn": _amounts(node.claim),
        "kubernetes": _amounts(node.allocatable),
        "condition": {"status": status, "reason": reason, "message": message} if status else None,
    }


def _amounts(amount: Amount) -> dict[str, int]:
    return {"cpuMilli": amount.cpu_milli, "memoryBytes": amount.memory_bytes}
