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
    exclude: tuple[str, ...] = ()


class PodConditionFilter(Struct):
    """What a condition of a pod must say; what is left out is not asked for."""

    type: str = ""
    status: str = ""
    reason: str = ""
    min_time_since_last_transition_seconds: Seconds | None = None

    def faults(self) -> Iterator[Fault]:
        if self == PodConditionFilter():
            yield Fault("", "needs one of type, status, reason and minTimeSinceLastTransitionSeconds")


class PodLifeTimeArgs(PluginArgs):
    """Removes pods that are too old, or that are in one of some states."""

    namespaces: Namespaces | None = None
    label_selector: LabelSelector | None = None
    owner_kinds: OwnerKinds | None = None
    max_pod_life_time_seconds: Seconds | None = None
    states: tuple[PodState, ...] = ()
    conditions: tuple[PodConditionFilter, ...] = ()
    exit_codes: tuple[int, ...] = ()
    including_init_containers: bool = False
    including_ephemeral_containers: bool = False

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
    exclude_owner_kinds: tuple[str, ...] = ()

    def faults(self) -> Iterable[Fault]:
        return _pod_faults(self.namespaces, None)


class RemovePodsHavingTooManyRestartsArgs(PluginArgs):
    """Removes pods whose containers were restarted again and again."""

    namespaces: Namespaces | None = None
    label_selector: LabelSelector | None = None
    pod_restart_threshold: int = 0
    including_init_containers: bool = False
    states: tuple[Literal["Running", "CrashLoopBackOff"], ...] = ()

    def faults(self) -> Iterable[Fault]:
        yield from _pod_faults(self.namespaces, self.label_selector)
        if self.pod_restart_threshold < 1:
            yield Fault("podRestartThreshold", f"must be at least 1, not {self.pod_restart_threshold}")


class RemovePodsViolatingNodeAffinityArgs(PluginArgs):
    """Removes pods that their node no longer suits, or that another node would suit better."""

    namespaces: Namespaces | None = None
    label_selector: LabelSelector | None = None
    node_affinity_type: tuple[
        Literal["requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"],
        ...,
    ] = ()

    def faults(self) -> Iterable[Fault]:
        yield from _pod_faults(self.namespaces, self.label_selector)
        if not self.node_affinity_type:
            yield Fault("nodeAffinityType", "is required")


class RemovePodsViolatingTopologySpreadConstraintArgs(PluginArgs):
    """Removes pods where there are too many, by their own topologySpreadConstraints."""

    namespaces: Namespaces | None = None
    label_selector: LabelSelector | None = None
    constraints: tuple[Literal["DoNotSchedule", "ScheduleAnyway"], ...] = ()
    topology_balance_node_fit: bool = True

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
