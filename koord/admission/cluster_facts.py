"""What rules may look up about the cluster.

All of it is plain mappings: the manager fills them from its informers, `koord admit` from manifests, a test by hand. A
resource lists the objects that a field is made from as a `Lookup`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from koord.admission.binding import BindingSettings
from koord.admission.pod_enhanced import EnhancedRules
from koord.admission.profiles import CompiledProfile
from koord.admission.quota_objects import QuotaPods
from koord.admission.quota_topology import QuotaTopology
from koord.admission.quota_tree_affinity import QuotaTrees
from koord.admission.recommended_requests import AppliedRecommendations
from koord.admission.scheduler_annotations import Schedulers
from koord.api.kubernetes.core import PriorityClass
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.words import PreemptionPolicy
from koord.api.protocol import names
from koord.api.protocol.priority import BANDS

SYSTEM_PRIORITIES: Final[Mapping[str, int]] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""Priority classes that every cluster has."""

LABEL_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    "Labels, by name."
    leaving: Collection[str] = frozenset()
    "Namespaces that are being deleted."
    profiles: tuple[CompiledProfile, ...] = ()
    "In the order of their names."
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    default_priority: int | None = None
    "Priority of pods without a class, if known."
    trees: QuotaTrees = field(default_factory=QuotaTrees)
    quotas: QuotaTopology = field(default_factory=QuotaTopology)
    quota_pods: QuotaPods = field(default_factory=QuotaPods)
    namespace_denials: Mapping[str, str] = field(default_factory=dict)
    "By namespace that a quota newly lists: why its author may not list it."
    node_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    pods: Mapping[str, ObjectMeta] = field(default_factory=dict)
    "Pods that a request wants to bind, by `namespace/name`."
    pod_nodes: Mapping[str, str] = field(default_factory=dict)
    "Nodes of pods that an agent wants to evict, by `namespace/name`."
    slo_config: Mapping[str, str] = field(default_factory=dict)
    "The stored data of slo-controller-config."
    recommendations: AppliedRecommendations = field(default_factory=AppliedRecommendations)
    enhanced: EnhancedRules = field(default_factory=EnhancedRules)
    binding: BindingSettings = field(default_factory=BindingSettings)
    schedulers: Schedulers = field(default_factory=Schedulers)
    config_namespace: str = names.NAMESPACE_KOORDINATOR
    slo_config_name: str = names.CONFIGMAP_SLO_CONTROLLER
    strategy_names_required: bool = False
    "Whether every node entry of slo-controller-config must have a name of its own."

    def priority(self, priority: int | None, class_name: str) -> int | None:
        """A pod's priority: its own, else that of its class. API servers fill it in; manifests lack it."""
        if priority is not None:
            return priority
        if not class_name:
            return self.default_priority
        priority_class = self.priority_classes.get(class_name)
        return priority_class.value if priority_class is not None else None


def shipped_priority_classes() -> dict[str, PriorityClass]:
    """The classes that a cluster with koord has: Kubernetes' own two, and one for each band, at its lowest number."""
    numbers = {**SYSTEM_PRIORITIES, **{str(band): range_.start for band, range_ in BANDS.items()}}
    return {
        name: PriorityClass(
            value=number,
            metadata=ObjectMeta(name=name),
            preemption_policy=PreemptionPolicy.PREEMPT_LOWER_PRIORITY,
        )
        for name, number in numbers.items()
    }


def default_priority(classes: Iterable[PriorityClass]) -> int | None:
    """The priority of pods without a class: the lowest of the classes that are the global default."""
    return min((class_.value for class_ in classes if class_.global_default), default=None)
