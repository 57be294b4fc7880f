"""What a node uses beside its pods: the system, and applications outside of Kubernetes that come before a band."""

from __future__ import annotations

from koord.api.protocol.priority import PriorityClass
from koord.manager.node_resource.state import Amounts, MetricRow


def system_used(metric: MetricRow, above: PriorityClass) -> Amounts:
    """What the node itself uses, with what runs beside Kubernetes and comes before a band."""
    cpu, memory = metric.system.cpu_milli, metric.system.memory_bytes
    for each in metric.host:
        if each.is_above(above):
            cpu += each.used.cpu_milli
            memory += each.used.memory_bytes
    return Amounts(cpu, memory)
