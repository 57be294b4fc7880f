"""PodGroup: pods that start together or not at all (a gang)."""

from __future__ import annotations

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.words import Word
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol.crd.fields import Int32
from koord.api.text.quantity import ResourceList
from koord.api.text.timestamp import Timestamp


class PodGroupPhase(Word):
    """`NEW` is the phase of a group that the scheduler has not seen yet."""

    NEW = ""
    PENDING = "Pending"
    PRE_SCHEDULING = "PreScheduling"
    SCHEDULING = "Scheduling"
    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    FINISHED = "Finished"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class PodGroupSpec(Struct):
    min_member: Int32 = 0
    "How many pods must be placeable at once before any of them is started."
    min_resources: ResourceList = EMPTY
    "What the group needs together, for people: the scheduler places its pods and does not look at this."
    schedule_timeout_seconds: Int32 | None = None
    "How long placed pods wait for the rest of the group, in seconds. Absent: the scheduler's default, 600."


class PodGroupStatus(Struct):
    phase: PodGroupPhase = PodGroupPhase.NEW
    "Pending, PreScheduling, Scheduling, Scheduled, Running, Finished, Failed or Unknown."
    occupied_by: str = ""
    "The workload whose pods make up the group."
    scheduled: Int32 = 0
    "How many pods have a node."
    running: Int32 = 0
    "How many pods run."
    succeeded: Int32 = 0
    "How many pods have ended well."
    failed: Int32 = 0
    "How many pods have failed."
    schedule_start_time: Timestamp | None = None
    "When the scheduler first tried to place the group."


class PodGroup(Struct):
    """Pods that start together, at least `minMember` at once, or not at all."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    "What the group needs before it starts."
    status: PodGroupStatus = PodGroupStatus()
    "How far the group has come. Written by the scheduler."
