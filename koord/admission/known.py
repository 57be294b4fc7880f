"""What rules may look up: the state of the cluster, as far as admission asks for it.

All of it is plain mappings: a live server keeps them in step with its informers, `koord admit` fills them from
manifests, a test from what it likes.
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
"""What every cluster has without a manifest."""

LABEL_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class Known:
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    "Labels, by name."
    leaving: Collection[str] = frozenset()
    "Namespaces that are being deleted."
    profiles: tuple[CompiledProfile, ...] = ()
    "In the order of their names."
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    default_priority: int | None = None
    "Of pods that name no class, where that is known."
    trees: QuotaTrees = field(default_factory=QuotaTrees)
    quotas: QuotaTopology = field(default_factory=QuotaTopology)
    quota_pods: QuotaPods = field(default_factory=QuotaPods)
    namespace_denials: Mapping[str, str] = field(default_factory=dict)
    "By namespace that a quota newly lists, why its writer may not list it."
    node_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    pods: Mapping[str, ObjectMeta] = field(default_factory=dict)
    "By `namespace/name`, for those who want to bind them."
    slo_config: Mapping[str, str] = field(default_factory=dict)
    "The data of slo-controller-config as it is stored."
    recommendations: AppliedRecommendations = field(default_factory=AppliedRecommendations)
    enhanced: EnhancedRules = field(default_factory=EnhancedRules)
    binding: BindingSettings = field(default_factory=BindingSettings)
    schedulers: Schedulers = field(default_factory=Schedulers)
    config_namespace: str = names.NAMESPACE_KOORDINATOR
    slo_config_name: str = names.CONFIGMAP_SLO_CONTROLLER
    strategy_names_required: bool = False
    "Whether every node entry of slo-controller-config must have a name of its own."

    def priority(self, priority: int | None, class_name: str) -> int | None:
        """A pod's priority: as it says, else as its class does. API servers fill that in; manifests are without it."""
        if priority is not None:
            return priority
        if not class_name:
            return self.default_priority
        found = self.priority_classes.get(class_name)
        return found.value if found is not None else None


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
    """The number for pods that name no class, where a class is meant for them: of several such, the lowest."""
    return min((each.value for each in classes if each.global_default), default=None)
