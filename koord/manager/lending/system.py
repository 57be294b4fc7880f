"""What a node uses beside its pods: the system, and applications outside of Kubernetes that come before a band."""

from __future__ import annotations

from koord.api.protocol.priority import PriorityClass
from koord.manager.node_state import Amounts, MetricRow


def system_used(metric: MetricRow, above: PriorityClass) -> Amounts:
    """What the node itself uses, with what runs beside Kubernetes and comes before a band."""
    cpu, memory = metric.system.cpu_milli, metric.system.memory_bytes
    for application in metric.host:
        if application.is_above(above):
            cpu += application.used.cpu_milli
            memory += application.used.memory_bytes
    return Amounts(cpu, memory)
