"""Gangs: which pods must be placed together, and how far each gang has come.

A gang is made from its pods and, where there is one, from its PodGroup. What it is follows from the objects that exist,
whatever the order in which they came: a scheduler that starts in the middle of a gang knows the same.

    settings    of the PodGroup; else of the gang's oldest pod that says a minimum
    bound       members with a node, as the API says, that have not failed
    placed      members that count on a node here: those, and the ones that are being bound
    group       the gangs that its settings list, itself included: all of them go, or none
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.words import PodPhase
from koord.api.protocol.annotations import gang as protocol
from koord.api.protocol.annotations.gang import GangDefaults, GangSpec
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.pod_group import PodGroup
from koord.scheduler.framework.ask import Ask
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Row

JOB: Final = "gang/"
"""What the keys of jobs begin with. They have more slashes than the key of any pod."""


@dataclass(frozen=True, slots=True)
class Member:
    """What matters of a pod of a gang."""

    key: str
    made: str
    phase: PodPhase
    node: str
    owners: tuple[str, ...]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    settings: GangSpec | None
    "What it says of the gang, where it does."
    why_not: str
    "Why it says nothing."

    @property
    def is_bound(self) -> bool:
        return bool(self.node) and self.phase != PodPhase.FAILED


@dataclass(slots=True)
class Gang:
    id: str
    pod_group: PodGroup | None = None
    settings: GangSpec | None = None
    members: dict[str, Member] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    placed: set[str] = field(default_factory=set)
    speaker: tuple[str, str] | None = None
    "When the pod was made whose settings count, and its key."

    @property
    def group(self) -> tuple[str, ...]:
        """The ids of all gangs that go together."""
        listed = () if self.settings is None else self.settings.groups
        return tuple(sorted({self.id, *listed}))

    @property
    def job(self) -> str:
        return JOB + ",".join(self.group)

    def held(self, asked: Iterable[str] = ()) -> int:
        """How many members have a place, apart from some."""
        having = self.bound | self.placed if self.bound != self.placed else self.bound
        return len(having) - sum(1 for key in asked if key in having)


class Gangs(Notes):
    """All gangs of a cluster. A note is the id of a pod's gang."""

    name: ClassVar[str] = "Coscheduling"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.all: dict[str, Gang] = {}
        self.of_pod: dict[str, Gang] = {}
        "By key of pod."
        self.touched: set[str] = set()
        "Gangs that changed since the last look: the status of their PodGroups may have to change."
        self.defaults: GangDefaults | None = None
        self._listing: dict[str, set[str]] = {}
        "By id, the other gangs that list it, whether it exists or not."

    def of(self, pod: Pod) -> object | None:
        return protocol.gang_id(pod.metadata) or None

    def by_name(self, pod: Pod) -> bool:
        return False

    def moved(self, note: object, record: PodRecord, row: Row, sign: int) -> None:
        placed = self._gang(str(note)).placed
        placed.add(record.key) if sign > 0 else placed.discard(record.key)
        if sign < 0:
            self._forget_empty(str(note))

    def among(self, asks: Sequence[Ask]) -> dict[str, list[int]]:
        """Which of some pods are in which gang, by their numbers."""
        members: dict[str, list[int]] = {}
        for i, ask in enumerate(asks):
            gang = self.of_pod.get(ask.key)
            if gang is not None:
                members.setdefault(gang.id, []).append(i)
        return members

    def put_pod(self, pod: Pod) -> None:
        meta = pod.metadata
        id_ = protocol.gang_id(meta)
        gang = self.of_pod.get(meta.key)
        if gang is not None and gang.id != id_:
            self._leave(meta.key, gang)
        if not id_:
            return
        gang = self._gang(id_)
        self.of_pod[meta.key] = gang
        before = gang.members.get(meta.key)
        member = self._member(pod, before)
        if member == before:
            return
        gang.members[meta.key] = member
        self.touched.add(id_)
        if before is None or before.settings != member.settings or before.made != member.made:
            self._speaks(gang, member)
        was_bound = before is not None and before.is_bound
        if member.is_bound != was_bound:
            gang.bound.add(member.key) if member.is_bound else gang.bound.discard(member.key)
            self._changed(gang)

    def remove_pod(self, pod: Pod) -> None:
        gang = self.of_pod.get(pod.metadata.key)
        if gang is not None:
            self._leave(pod.metadata.key, gang)

    def put_group(self, group: PodGroup) -> None:
        gang = self._gang(group.metadata.key)
        gang.pod_group = group
        self.touched.add(gang.id)
        self._settle(gang)

    def remove_group(self, group: PodGroup) -> None:
        gang = self.all.get(group.metadata.key)
        if gang is not None:
            gang.pod_group = None
            self._settle(gang)
            self._forget_empty(gang.id)

    def _gang(self, id_: str) -> Gang:
        gang = self.all.get(id_)
        if gang is None:
            gang = self.all[id_] = Gang(id_)
        return gang

    def _member(self, pod: Pod, before: Member | None) -> Member:
        meta = pod.metadata
        settings, why_not = None, ""
        if before is not None and (before.labels, before.annotations) == (meta.labels, meta.annotations):
            settings, why_not = before.settings, before.why_not
        elif protocol.has_pod_group(meta):
            why_not = f"the PodGroup {protocol.gang_id(meta)} does not exist"
        else:
            try:
                settings = protocol.gang_of_pod(meta, self.defaults or protocol.DEFAULTS)
            except AnnotationError as error:
                why_not = str(error)
        owners = tuple(f"{meta.namespace}/{owner.name}" for owner in meta.owner_references)
        made = meta.creation_timestamp or ""
        phase, node = pod.status.phase, pod.spec.node_name
        return Member(meta.key, made, phase, node, owners, meta.labels, meta.annotations, settings, why_not)

    def _leave(self, key: str, gang: Gang) -> None:
        del self.of_pod[key]
        member = gang.members.pop(key)
        gang.bound.discard(key)
        self.touched.add(gang.id)
        if gang.speaker == (member.made, key):
            self._find_speaker(gang)
        self._changed(gang)
        self._forget_empty(gang.id)

    def _forget_empty(self, id_: str) -> None:
        gang = self.all[id_]
        if not gang.members and not gang.placed and gang.pod_group is None:
            del self.all[id_]
            self._list(gang, gang.group, ())

    def _speaks(self, gang: Gang, member: Member) -> None:
        """A pod is new, or says something else of its gang than before. The oldest that says anything counts."""
        rank = (member.made, member.key)
        if gang.speaker is not None and gang.speaker[1] == member.key:
            self._find_speaker(gang)
        elif member.settings is not None and (gang.speaker is None or rank < gang.speaker):
            gang.speaker = rank
            self._settle(gang)

    def _find_speaker(self, gang: Gang) -> None:
        saying = ((member.made, member.key) for member in gang.members.values() if member.settings is not None)
        gang.speaker = min(saying, default=None)
        self._settle(gang)

    def _settle(self, gang: Gang) -> None:
        before, listed = gang.settings, gang.group
        if gang.pod_group is not None:
            spec = gang.pod_group.spec
            gang.settings = protocol.gang_of_pod_group(
                gang.pod_group.metadata,
                spec.min_member,
                spec.schedule_timeout_seconds,
                self.defaults or protocol.DEFAULTS,
            )
        else:
            gang.settings = None if gang.speaker is None else gang.members[gang.speaker[1]].settings
        if gang.settings != before:
            self.cluster.changed_jobs[JOB + ",".join(listed)] = True
            self._list(gang, listed, gang.group)
            self._changed(gang)

    def _list(self, gang: Gang, before: Iterable[str], after: Iterable[str]) -> None:
        for id_ in before:
            listing = self._listing.get(id_, set())
            listing.discard(gang.id)
            if not listing:
                self._listing.pop(id_, None)
        for id_ in after:
            if id_ != gang.id:
                self._listing.setdefault(id_, set()).add(gang.id)

    def _changed(self, gang: Gang) -> None:
        """Pods that wait for this gang may be admitted."""
        jobs = self.cluster.changed_jobs
        jobs.setdefault(gang.job, False)
        for id_ in self._listing.get(gang.id, ()):
            if id_ in self.all:
                jobs.setdefault(self.all[id_].job, False)
