"""Recommendation: what the containers of a workload should request, judged by what they use."""

from __future__ import annotations

from typing import Literal

from koord.api.kubernetes.meta import Condition, ObjectMeta
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.text.quantity import ResourceList
from koord.api.text.selector import LabelSelector
from koord.api.text.timestamp import Timestamp


class WorkloadReference(Struct):
    kind: str
    "Kind of the workload, for example Deployment."
    name: str
    "Name of the workload, in the namespace of the recommendation."
    api_version: str = ""
    "API version of the workload, for example apps/v1."


class RecommendationTarget(Struct):
    type: Literal["workload", "podSelector"]
    "How the pods are named: by their workload, or by a selector."
    workload: WorkloadReference | None = None
    "The workload whose pods are meant, for type workload."
    pod_selector: LabelSelector | None = None
    "Labels of the pods that are meant, for type podSelector."


class RecommendationSpec(Struct):
    target: RecommendationTarget
    "The pods to make a recommendation for."
    apply: Literal["off", "admission"] = "off"
    (
        "Whether new pods get the recommended requests: off, or admission, with the manager's gate "
        "RecommendedRequests. An addition of koord."
    )


class RecommendedContainerStatus(Struct):
    container_name: str = ""
    "Name of the container."
    resources: ResourceList = EMPTY
    "What the container should request."
    lower_bound: ResourceList = EMPTY
    "With less than this the container is slowed down or killed. An addition of koord, as all that follows."
    upper_bound: ResourceList = EMPTY
    "More than this is wasted."
    confidence: int = 0
    "How far the recommendation can be trusted, in percent: 100 after a week of history."
    history_hours: int = 0
    "Hours in which usage was measured."
    judged_hours: int = 0
    "Hours in which usage was compared with the recommendation that held at their beginning."
    under_provisioned_hours: int = 0
    "How many of these hours used more CPU, on average, or more memory than was recommended."


class RecommendedPodStatus(Struct):
    container_statuses: tuple[RecommendedContainerStatus, ...] = ()
    "The recommendation for each container of the pods."


class RecommendationStatus(Struct):
    pod_status: RecommendedPodStatus | None = None
    "The recommendation."
    update_time: Timestamp | None = None
    "When the recommendation was last computed."
    conditions: tuple[Condition, ...] = ()
    (
        "How far the recommendation can be trusted. Types: LowConfidence, NoObjectsMatched, FetchingHistory, "
        "ConfigDeprecated, ConfigUnsupported."
    )
    history: str = ""
    "What the manager remembers of past usage, for its next start. An addition of koord; not meant for people."


class Recommendation(Struct, kw_only=True):
    """What the containers of a workload should request, judged by what they use."""

    metadata: ObjectMeta = ObjectMeta()
    spec: RecommendationSpec
    "Whom the recommendation is for."
    status: RecommendationStatus = RecommendationStatus()
    "The recommendation. Written by the manager."
