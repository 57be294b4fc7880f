"""The figures of another system's policy, in the form of the node's NodeMetric."""

from __future__ import annotations

from koord.agent.lending.peers.learned import PeerOutlook
from koord.agent.lending.peers.policy import Lines
from koord.api.protocol.crd.node_metric import PolicyLine, PolicyMetric
from koord.api.text.quantity import render


def policy_metric(outlook: PeerOutlook) -> PolicyMetric:
    return PolicyMetric(
        policy=outlook.policy,
        cpu=_lines(outlook.cpu, "cpu"),
        memory=_lines(outlook.memory, "memory"),
        box=_lines(outlook.box, "cpu"),
    )


def _lines(lines: Lines, resource: str) -> tuple[PolicyLine, ...]:
    return tuple(PolicyLine(line.op, line.name, render(resource, round(line.amount)), line.why) for line in lines)
