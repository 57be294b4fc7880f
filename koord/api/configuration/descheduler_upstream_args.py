"""Arguments of those plugins of the Kubernetes descheduler that koord has, under their own names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Final, Literal, Self, TypeAlias

from msgspec import Meta
from msgspec.structs import replace

from koord.api.configuration.component_config import PluginArgs, item_faults
from koord.api.configuration.descheduler_args import Namespaces
from koord.api.machinery.faults import Fault
from koord.api.machinery.struct import Struct
from koord.api.text.selector import LabelSelector, selector_faults

Seconds: TypeAlias = Annotated[int, Meta(ge=0)]
PodState: TypeAlias = Literal[
    "Running",
    "Pending",
    "Succeeded",
    "Failed",
    "Unknown",
    "NodeAffinity",
    "NodeLost",
    "Shutdown",
    "UnexpectedAdmissionError",
    "PodInitializing",
    "ContainerCreating",
    "ImagePullBackOff",
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "ErrImagePull",
    "CreateContainerError",
    "InvalidImageName",
    "OOMKilled",
    "Error",
    "Completed",
    "DeadlineExceeded",
    "Evicted",
    "ContainerCannotRun",
    "StartError",
]
"""Phases and reasons of pods, and reasons for which containers wait or have ended."""


def _pod_faults(namespaces: Namespaces | None, labels: LabelSelector | None) -> Iterator[Fault]:
    if namespaces is not None:
        yield from (fault.under("namespaces") for fault in namespaces.faults())
    if labels is not None:
        yield from (fault.under("labelSelector") for fault in selector_faults(labels))


class OwnerKinds(Struct):
    """Pods of owners of these kinds alone, or of all but these."""

    include: tuple[str, ...] = ()
    "Only these kinds."
    exclude: tuple[str, ...] = ()
    "All but these kinds."


class PodConditionFilter(Struct):
    """What a condition of a pod must say; what is left out is not asked for."""

    type: str = ""
    "Type of the condition."
    status: str = ""
    "Its status."
    reason: str = ""
    "Its reason."
    min_time_since_last_transition_seconds: Seconds | None = None
    "How long it has had this status, at least."

    def faults(self) -> Iterator[Fault]:
        if self == PodConditionFilter():
            yield Fault("", "needs one of type, status, reason and minTimeSinceLastTransitionSeconds")


class PodLifeTimeArgs(PluginArgs):
    """Removes pods that are too old, or that are in one of some states."""

    namespaces: Namespaces | None = None
    "Namespaces whose pods may move."
    label_selector: LabelSelector | None = None
    "Only pods with these labels."
    owner_kinds: OwnerKinds | None = None
    "Kinds of owners whose pods may move."
    max_pod_life_time_seconds: Seconds | None = None
    "Maximum age of a pod, in seconds."
    states: tuple[PodState, ...] = ()
    "Phases of pods, and reasons of containers."
    conditions: tuple[PodConditionFilter, ...] = ()
    "Only pods with one of these conditions."
    exit_codes: tuple[int, ...] = ()
    "Exit codes of containers."
    including_init_containers: bool = False
    "Whether init containers count."
    including_ephemeral_containers: bool = False
    "Whether ephemeral containers count."

    def faults(self) -> Iterable[Fault]:
        yield from _pod_faults(self.namespaces, self.label_selector)
        if self.owner_kinds is not None and self.owner_kinds.include and self.owner_kinds.exclude:
            yield Fault("ownerKinds", "must have only one of include and exclude")
        yield from item_faults("conditions", self.conditions, PodConditionFilter.faults)
        if self.max_pod_life_time_seconds is None and not (self.states or self.conditions or self.exit_codes):
            yield Fault("", "needs one of maxPodLifeTimeSeconds, states, conditions and exitCodes")


class RemoveDuplicatesArgs(PluginArgs):
    """Removes pods where a node has more than its share of their owner's."""

    namespaces: Namespaces | None = None
    "Namespaces whose pods may move."
    exclude_owner_kinds: tuple[str, ...] = ()
    "Kinds of owners whose pods stay."

    def faults(self) -> Iterable[Fault]:
        return _pod_faults(self.namespaces, None)


class RemovePodsHavingTooManyRestartsArgs(PluginArgs):
    """Removes pods whose containers were restarted again and again."""

    namespaces: Namespaces | None = None
    "Namespaces whose pods may move."
    label_selector: LabelSelector | None = None
    "Only pods with these labels."
    pod_restart_threshold: int = 0
    "Number of restarts that is too many."
    including_init_containers: bool = False
    "Whether init containers count."
    states: tuple[Literal["Running", "CrashLoopBackOff"], ...] = ()
    "Only pods in one of these states."

    def faults(self) -> Iterable[Fault]:
        yield from _pod_faults(self.namespaces, self.label_selector)
        if self.pod_restart_threshold < 1:
            yield Fault("podRestartThreshold", f"must be at least 1, not {self.pod_restart_threshold}")


class RemovePodsViolatingNodeAffinityArgs(PluginArgs):
    """Removes pods that their node no longer suits, or that another node would suit better."""

    namespaces: Namespaces | None = None
    "Namespaces whose pods may move."
    label_selector: LabelSelector | None = None
    "Only pods with these labels."
    node_affinity_type: tuple[
        Literal["requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"],
        ...,
    ] = ()
    "Which rules are checked."

    def faults(self) -> Iterable[Fault]:
        yield from _pod_faults(self.namespaces, self.label_selector)
        if not self.node_affinity_type:
            yield Fault("nodeAffinityType", "is required")


class RemovePodsViolatingTopologySpreadConstraintArgs(PluginArgs):
    """Removes pods where there are too many, by their own topologySpreadConstraints."""

    namespaces: Namespaces | None = None
    "Namespaces whose pods may move."
    label_selector: LabelSelector | None = None
    "Only pods with these labels."
    constraints: tuple[Literal["DoNotSchedule", "ScheduleAnyway"], ...] = ()
    "Which constraints are checked. Default: DoNotSchedule."
    topology_balance_node_fit: bool = True
    "Whether a pod moves only if it fits on a node of another domain."

    def completed(self) -> Self:
        return replace(self, constraints=self.constraints or ("DoNotSchedule",))

    def faults(self) -> Iterable[Fault]:
        return _pod_faults(self.namespaces, self.label_selector)


UPSTREAM_ARGS: Final[Mapping[str, type[PluginArgs]]] = {
    "PodLifeTime": PodLifeTimeArgs,
    "RemoveDuplicates": RemoveDuplicatesArgs,
    "RemovePodsHavingTooManyRestarts": RemovePodsHavingTooManyRestartsArgs,
    "RemovePodsViolatingNodeAffinity": RemovePodsViolatingNodeAffinityArgs,
    "RemovePodsViolatingTopologySpreadConstraint": RemovePodsViolatingTopologySpreadConstraintArgs,
}
