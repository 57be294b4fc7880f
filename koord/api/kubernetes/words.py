"""Words that stand on every object: phases, effects, policies.

A `Word` is an open enumeration: its known words are decoded to one shared object each (a cluster has millions of
`"True"`s), and a word that a newer Kubernetes may say is kept rather than refused. All are plain strings:
`pod.status.phase == "Running"` holds.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache


class Word(StrEnum):
    """Base of open enumerations."""

    @classmethod
    def _missing_(cls, value: object) -> Word | None:
        return _unknown(cls, value) if isinstance(value, str) else None


# Bounded: words come from outside. Sharing matters for them too, since a cluster repeats its own words.
@lru_cache(maxsize=4096)
def _unknown(cls: type[Word], value: str) -> Word:
    word = str.__new__(cls, value)
    word._name_ = word._value_ = value
    return word


class ConditionStatus(Word):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class PodPhase(Word):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class PodConditionType(Word):
    SCHEDULED = "PodScheduled"
    READY_TO_START_CONTAINERS = "PodReadyToStartContainers"
    INITIALIZED = "Initialized"
    CONTAINERS_READY = "ContainersReady"
    READY = "Ready"
    DISRUPTION_TARGET = "DisruptionTarget"
    RESIZE_PENDING = "PodResizePending"
    RESIZE_IN_PROGRESS = "PodResizeInProgress"


class NotScheduled(Word):
    """Why a pod has no node: reasons of its condition PodScheduled."""

    UNSCHEDULABLE = "Unschedulable"
    "Autoscalers add nodes for it."
    QUOTA_EXCEEDED = "QuotaExceeded"
    "koord's: its quota may have no more, however many nodes there are."


class NodeConditionType(Word):
    READY = "Ready"
    MEMORY_PRESSURE = "MemoryPressure"
    DISK_PRESSURE = "DiskPressure"
    PID_PRESSURE = "PIDPressure"
    NETWORK_UNAVAILABLE = "NetworkUnavailable"


class KubeQoS(Word):
    """Kubernetes' own quality of service, which shapes kubelet's cgroup tree."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


class RestartPolicy(Word):
    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


class PreemptionPolicy(Word):
    PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"
    NEVER = "Never"


class TaintEffect(Word):
    """`ALL` stands in tolerations only: any effect."""

    ALL = ""
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class TaintKey(Word):
    """Keys of the taints that Kubernetes sets itself; in a toleration, `ANY` with the operator Exists is every key."""

    ANY = ""
    NOT_READY = "node.kubernetes.io/not-ready"
    UNREACHABLE = "node.kubernetes.io/unreachable"
    UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
    MEMORY_PRESSURE = "node.kubernetes.io/memory-pressure"
    DISK_PRESSURE = "node.kubernetes.io/disk-pressure"
    PID_PRESSURE = "node.kubernetes.io/pid-pressure"
    NETWORK_UNAVAILABLE = "node.kubernetes.io/network-unavailable"
    OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
    UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"


class TopologyKey(Word):
    HOSTNAME = "kubernetes.io/hostname"
    ZONE = "topology.kubernetes.io/zone"
    REGION = "topology.kubernetes.io/region"


class SchedulerName(Word):
    DEFAULT = "default-scheduler"
    KOORD = "koord-scheduler"


class TolerationOperator(Word):
    EQUAL = "Equal"
    EXISTS = "Exists"
    LESS = "Lt"
    GREATER = "Gt"


class Protocol(Word):
    TCP = "TCP"
    UDP = "UDP"
    SCTP = "SCTP"


class WhenUnsatisfiable(Word):
    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class NodeInclusion(Word):
    """Whether nodes that a pod cannot run on count as places over which pods are spread."""

    HONOR = "Honor"
    IGNORE = "Ignore"
