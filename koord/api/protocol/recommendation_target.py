"""Which pods a Recommendation is about: those of a workload, or those that a selector names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from koord.api.kubernetes.owners import Workload
from koord.api.protocol.crd.recommendation import Recommendation
from koord.api.text.selector import NOTHING, SelectorError, compile_labels


class Target(NamedTuple):
    namespace: str
    workload: Workload | None
    selects: Callable[[Mapping[str, str]], bool] | None
    "Of labels, where there is no workload."
    fault: str = ""
    "Why it names no pods."
    identity: str = ""
    "The same for targets that name the same pods: what is known of their past is known by it."

    def concerns(self, namespace: str, labels: Mapping[str, str], workloads: Sequence[Workload]) -> bool:
        """Whether a pod with these labels, of these workloads, is meant."""
        if self.workload is not None:
            return self.workload in workloads
        return self.selects is not None and namespace == self.namespace and self.selects(labels)


def target_of(recommendation: Recommendation) -> Target:
    namespace, target = recommendation.metadata.namespace, recommendation.spec.target
    if target.type == "workload":
        if target.workload is None or not target.workload.name or not target.workload.kind:
            fault = "spec.target.workload: must name the kind and the name of a workload, for type workload"
            return Target(namespace, None, None, fault)
        workload = Workload(namespace, target.workload.kind, target.workload.name)
        return Target(namespace, workload, None, identity=str(workload))
    if target.pod_selector is None:
        fault = "spec.target.podSelector: must say which pods are meant, for type podSelector"
        return Target(namespace, None, None, fault)
    try:
        selects = compile_labels(target.pod_selector, absent=NOTHING).matches
        said = msgspec.json.encode(target.pod_selector, order="deterministic").decode()
        return Target(namespace, None, selects, identity=said)
    except SelectorError as error:
        return Target(namespace, None, None, f"spec.target.podSelector: {error}")
