"""Disruption budgets: how many pods of an application may be away at once."""

from __future__ import annotations

from collections.abc import Mapping

from koord.api.kubernetes.meta import Condition, ObjectMeta
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.text.selector import LabelSelector


class PodDisruptionBudgetSpec(Struct):
    """`selector` None selects no pod, an empty one all of the namespace."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = ""


class PodDisruptionBudgetStatus(Struct):
    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: Mapping[str, str | None] = EMPTY
    "Pods whose eviction was granted but not yet seen, with the time of the grant."
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
