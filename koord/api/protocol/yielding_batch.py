"""Batch pods whose CPU is given back when services need it: where the node holds them below a learned ceiling.

A node that lends by the policy `adaptive` is busy on purpose. The scheduler and the descheduler judge it by what is
used beside these pods: how much batch it takes is for its batch resources to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from koord.api.protocol.crd.node_metric import NodeMetricStatus, PodMetricInfo
from koord.api.protocol.priority import PriorityClass, QoSClass

_LOW: Final = (PriorityClass.BATCH.value, PriorityClass.FREE.value)


def yielding_pods(status: NodeMetricStatus) -> Sequence[PodMetricInfo]:
    """None of them where another policy is in force."""
    if status.lending_metric is None or not status.lending_metric.is_in_force:
        return ()
    return [pod for pod in status.pods_metric if pod.qos == QoSClass.BE and pod.priority in _LOW]
