"""Pods and reports as recommendations need them: followed from the first Recommendation on, and not before.

Only pods with a Recommendation are read from a report, so a cluster pays only for the workloads that it asks about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from koord.api import kinds
from koord.api.kubernetes.owners import Workload
from koord.api.machinery.codec import decode
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.kube.informer import Informer
from koord.kube.informers import Informers
from koord.kube.store import Identity
from koord.manager.recommend.pods import PodFacts, pod_facts
from koord.manager.recommend.reports import UsageReport, usage_report

WORKLOAD: Final = "workload"
NAMESPACE: Final = "namespace"
NOT_DONE: Final = "spec.nodeName!=,status.phase!=Succeeded"
"""A pod that failed is among them: one that is not started again says only then that it was killed for memory."""


class UsageSource:
    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self.wanted: Callable[[str], PodFacts | None] = lambda key: None
        "A pod by its key, if a recommendation is about it."
        self.pods: Informer[PodFacts] | None = None
        self.reports: Informer[UsageReport] | None = None

    def start(self) -> tuple[Informer[PodFacts], Informer[UsageReport]]:
        """The same two, however often it is asked."""
        if self.pods is None or self.reports is None:
            self.pods = self._informers.get(
                kinds.PODS,
                transform=pod_facts,
                identity=_of_pod,
                fields=NOT_DONE,
                indexes={WORKLOAD: _by_workload, NAMESPACE: _by_namespace},
            )
            self.reports = self._informers.get(kinds.NODE_METRICS, transform=self._report, identity=_of_report)
        return self.pods, self.reports

    def of_workload(self, workload: Workload) -> list[PodFacts]:
        return [] if self.pods is None else self.pods.by_index(WORKLOAD, str(workload))

    def in_namespace(self, namespace: str) -> list[PodFacts]:
        return [] if self.pods is None else self.pods.by_index(NAMESPACE, namespace)

    def _report(self, raw: msgspec.Raw) -> UsageReport:
        return usage_report(decode(NodeMetric, memoryview(raw)), self.wanted)


def _of_pod(pod: PodFacts) -> Identity:
    return pod.key, pod.uid, pod.version


def _of_report(report: UsageReport) -> Identity:
    return report.node, report.uid, report.version


def _by_workload(pod: PodFacts) -> Iterable[str]:
    return map(str, pod.workloads)


def _by_namespace(pod: PodFacts) -> Iterable[str]:
    return (pod.namespace,)
