"""What a node has learned about lending, in the form of its NodeMetric.

The lines of the calculation, and what each batch pod counts for: readers count a pod that is not in the report by its
request.
"""

from __future__ import annotations

from collections.abc import Container

from koord.agent.lending.learner import LendingOutlook
from koord.api.protocol.crd.node_metric import CountedUsage, LendingMetric
from koord.api.text.quantity import Quantity, render


def lending_metric(outlook: LendingOutlook, pods: Container[str], requested_by_others: int = 0) -> LendingMetric:
    """`pods`: uids of the node's pods. `requested_by_others`: milli-cores of containers that are no pods."""
    figures, memory = outlook.figures, outlook.memory
    counted = {uid: pod.milli for uid, pod in memory.counted.items()}
    return LendingMetric(
        is_in_force=outlook.is_in_force,
        minutes=memory.minutes,
        batch_minutes=memory.batch_minutes,
        cpu_mark=_cpu(figures.mark),
        cpu_rise=_cpu(figures.rise),
        scale_permille=round(figures.scale * 1000),
        cpu_margin=_cpu(figures.margin),
        cpu_services=_cpu(figures.services),
        cpu_more=_cpu(figures.more),
        cpu_amount=_cpu(figures.amount),
        cpu_stable=_cpu(figures.stable),
        cpu_ceiling=None if outlook.ceiling_milli is None else _cpu(outlook.ceiling_milli),
        counted=tuple(CountedUsage(uid, _cpu(milli)) for uid, milli in sorted(counted.items()) if uid in pods),
        counted_of_others=_cpu(sum(milli for uid, milli in counted.items() if uid not in pods)),
        requested_by_others=_cpu(requested_by_others),
        memory_services=render("memory", int(outlook.services_memory_bytes)),
        short_permille=round(memory.short_share * 1000),
        violated_permille=round(memory.violated_share * 1000),
        got_permille=round(memory.got_mean * 1000),
    )


def _cpu(milli: float) -> Quantity:
    return render("cpu", round(milli))
