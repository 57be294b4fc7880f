"""What pods ask for and use of each quota, in the whole cluster.

A pod asks for its requests from when it exists and has no scheduling gate until it is gone or has ended, and uses them
while it has a node. Pods are added up by what tells their quota: the label that names one, and their namespace. So a
quota that comes, goes or takes another namespace moves sums and not pods, and everything follows from the objects that
exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from koord.api.kubernetes.pod import Pod, PodSpec
from koord.api.kubernetes.resources import amounts as amounts_of
from koord.api.kubernetes.resources import pod_requests
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from koord.api.text.timestamp import parse_timestamp
from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.quota.forest import DEFAULT_TREE, OUTSIDE, Forest
from koord.scheduler.plugins.quota.reserved import Reserved
from koord.scheduler.plugins.quota.spec import quota_spec
from koord.scheduler.plugins.quota.tree import Amounts, Bounds, Quota, Sums, masked
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.insiders import RoomNote, StandsFor, room_note
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Row

EMPTY_KEPT: Final = 1 << 10
"How many empty buckets are kept."
_NOTHING: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Rules:
    """How quotas are counted and checked: arguments and feature gates."""

    by_runtime: bool = True
    "Whether the share bounds a quota; otherwise max does."
    scales: bool = True
    checks_parents: bool = False
    protects_default: bool = True
    "Whether pods of the default quota are never preempted for their quota's sake."
    outside: Mapping[str, Bounds] = field(default_factory=dict)
    "Bounds of the default and the system quota."
    several_trees: bool = False
    keeps: bool = False
    "Whether what is used is guaranteed."
    has_default: bool = True
    ignores_overhead: bool = False
    ignores_terminating: bool = False
    "Whether pods stop counting as soon as their deletion starts."
    ignores_overdue: bool = False
    "The same from when they should be gone."


@dataclass(slots=True, eq=False)
class Bucket:
    """Pods with the same quota label and namespace: all of them belong to the same quota."""

    label: str
    namespace: str
    quota: Quota | None
    sums: Sums = field(default_factory=Sums)
    rows: dict[Row, int] = field(default_factory=dict)
    "Where they are, and how many."


@dataclass(frozen=True, slots=True)
class Waiting:
    """What counts of a pod that has no node."""

    bucket: Bucket
    amounts: Mapping[str, int]
    fixed: bool


class Quotas(Notes):
    """All quotas of a cluster, and what pods ask for and use of them. A note is what counts of a pod instead of its
    requests."""

    name: ClassVar[str] = "ElasticQuota"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.rules: Rules | None = None
        self.forest = Forest()
        self.objects: dict[str, ElasticQuota] = {}
        "By namespace and name."
        self.overuse: dict[str, str] = {}
        "By name of quota, the report on its over-use."
        self.changes = 0
        "Counts everything that could admit a refused pod."
        self.uses = 0
        "Counts changes of what is used or asked for."
        self.regroupings = 0
        self._rooms_touched: set[str] = set()
        "Uids of reservations that came, went, or gave something to owners, for real or on trial, while a pod waits."
        self._rooms_left: dict[str, Mapping[str, int]] = {}
        "What they had at the last look."
        "Counts changes of the quotas themselves."
        self.touched: dict[str, None] = {}
        "Quotas whose pods changed since the last look."
        self.heard: dict[str, None] = {}
        "Objects that came, changed or went since the last look."
        self.somebody_waits = False
        "Whether a pod was refused, and waits for a quota to have room."
        self._buckets: dict[tuple[str, str], Bucket] = {}
        self._buckets_expected = EMPTY_KEPT
        self._of_label: dict[str, list[Bucket]] = {}
        self._of_namespace: dict[str, list[Bucket]] = {}
        self._of_quota: dict[str, list[Bucket]] = {}
        self._waiting: dict[str, Waiting] = {}
        self._homeless: dict[str, PodRecord] = {}
        self._leaving: dict[str, tuple[str, float]] = {}
        "By key, pods that are being deleted: their uid, and when they should be gone."
        self._overdue: dict[str, str] = {}
        "Uids of those that should be gone and are not: they count no more."
        self._reserved: dict[str, Reserved] = {}
        "By uid of a reservation."
        self._nodes: dict[Row, Mapping[str, int]] = {}
        self._allocatable: Amounts = {}
        self._total_is_stale = True

    def follow(self, rules: Rules) -> None:
        """Count by these rules. Called before the first object is received."""
        self.rules = rules
        self.forest = Forest(scales=rules.scales, keeps=rules.keeps, several=rules.several_trees, outside=rules.outside)

    # What is heard.

    def put_quota(self, quota: ElasticQuota) -> None:
        spec = quota_spec(quota)
        self.objects[spec.key] = quota
        self.heard[spec.key] = None
        self._regroup(self.forest.put(spec))

    def remove_quota(self, quota: ElasticQuota) -> None:
        meta = quota.metadata
        if self.objects.pop(meta.key, None) is not None:
            self.heard[meta.key] = None
            self._regroup(self.forest.remove(meta.key, meta.name))

    def put_pod(self, pod: Pod) -> None:
        key = pod.metadata.key
        if pod.metadata.deletion_timestamp is not None and self.rules is not None and self.rules.ignores_overdue:
            self._leaves(pod)
        former = self._waiting.get(key)
        if pod.spec.node_name or pod.is_finished or pod.spec.scheduling_gates or self._is_ignored(pod):
            if former is not None:
                self._wait_no_more(key, former)
            return
        try:
            waiting = Waiting(self.bucket(pod.metadata.labels, pod.metadata.namespace), self._asked(pod), is_fixed(pod))
        except BadInput:
            return
        if waiting == former:
            return
        if former is not None:
            self._wait_no_more(key, former)
        else:
            self._ask_by_record(key, -1)
        self._waiting[key] = waiting
        self._count(waiting.bucket, waiting.amounts, +1, fixed=waiting.fixed)

    def _leaves(self, pod: Pod) -> None:
        """A pod is being deleted. Its timestamp says when its grace period is over."""
        meta = pod.metadata
        try:
            due_s = float(parse_timestamp(meta.deletion_timestamp or ""))
        except ValueError:
            return
        if self._overdue.get(meta.key) != meta.uid:
            self._leaving[meta.key] = meta.uid, due_s
            self.look_at_leaving()

    def look_at_leaving(self) -> None:
        """Pods whose grace period is over count no more."""
        now_s, pods = self.cluster.now_s, self.cluster.pods
        for key in [key for key, uid in self._overdue.items() if key not in pods and key not in self._waiting]:
            if key not in self._homeless:
                del self._overdue[key]
        for key, (uid, due_s) in list(self._leaving.items()):
            if due_s > now_s:
                self.cluster.ask_again(due_s)
                continue
            del self._leaving[key]
            record = pods[key][0] if key in pods else self._homeless.get(key)
            if record is not None and record.uid == uid and record.terminating:
                self._use(self.bucket(record.labels, record.namespace), record, -1)
            self._overdue[key] = uid
            if key in self._waiting:
                self._wait_no_more(key, self._waiting[key])

    def remove_pod(self, pod: Pod) -> None:
        self._leaving.pop(pod.metadata.key, None)
        former = self._waiting.get(pod.metadata.key)
        if former is not None:
            self._wait_no_more(pod.metadata.key, former)
        if len(self._buckets) > self._buckets_expected:
            self._forget_empty()

    def of(self, pod: Pod) -> object | None:
        rules = self.rules
        if rules is None or not (rules.ignores_overhead and pod.spec.overhead):
            return None
        return tuple(sorted(pod_requests(pod, overhead=False).items()))

    def by_spec(self, spec: PodSpec) -> bool:
        """Of a pod with an overhead, what its node has granted it counts as well."""
        return not spec.overhead

    def by_name(self, pod: Pod) -> bool:
        return bool(pod.spec.overhead)

    def moved(self, note: object, record: PodRecord, row: Row, sign: int) -> None:
        """Counted with all others, by `pod_moved`."""

    def pod_moved(self, record: PodRecord, row: Row, sign: int) -> None:
        bucket = self.bucket(record.labels, record.namespace)
        rows = bucket.rows
        number = rows.get(row, 0) + sign
        if number:
            rows[row] = number
        else:
            del rows[row]
        self._use(bucket, record, sign)

    def pod_homeless(self, record: PodRecord, sign: int) -> None:
        if sign > 0:
            self._homeless[record.key] = record
        else:
            del self._homeless[record.key]
        self._use(self.bucket(record.labels, record.namespace), record, sign)

    def pod_expected(self, record: PodRecord, sign: int) -> None:
        if record.key not in self._waiting and not self._passes_over(record):
            bucket = self.bucket(record.labels, record.namespace)
            self._count(bucket, self.counted(record), sign, fixed=is_fixed_record(record))

    def node_put(self, row: Row) -> None:
        has = amounts_of(self.cluster.nodes[row].status.allocatable, capped=True)
        if has != self._nodes.get(row):
            self._node_has(row, has)

    def amounts_put(self, row: Row, changed: frozenset[str]) -> None:
        given = self.cluster.nodes[row].status.allocatable
        new = amounts_of({name: given[name] for name in changed if name in given}, capped=True)
        before = self._nodes[row]
        if all(new.get(name) == before.get(name) for name in changed):
            return
        total = self._allocatable
        for name in changed:
            total[name] = total.get(name, 0) + new.get(name, 0) - before.get(name, 0)
        self._has_changed(row, {name: amount for name, amount in before.items() if name not in changed} | new)

    def node_removed(self, row: Row) -> None:
        self._node_has(row, {})
        del self._nodes[row]

    # What is asked.

    def bucket(self, labels: Mapping[str, str], namespace: str) -> Bucket:
        label = labels.get(names.LABEL_QUOTA_NAME, "") if labels else ""
        bucket = self._buckets.get((label, namespace))
        if bucket is None:
            quota = self._resolve(label, namespace)
            bucket = self._buckets[label, namespace] = Bucket(label, namespace, quota)
            self._of_label.setdefault(label, []).append(bucket)
            self._of_namespace.setdefault(namespace, []).append(bucket)
            if quota is not None:
                self._of_quota.setdefault(quota.name, []).append(bucket)
        return bucket

    def _forget_empty(self) -> None:
        """Namespaces come and go, and pods may name any quota: empty buckets are dropped, and made again if needed."""
        held = {id(waiting.bucket) for waiting in self._waiting.values()}
        held |= {id(reserved.bucket) for reserved in self._reserved.values()}

        def is_needed(bucket: Bucket) -> bool:
            return bool(bucket.rows) or id(bucket) in held or any(any(part.values()) for part in bucket.sums.parts())

        self._buckets = {place: bucket for place, bucket in self._buckets.items() if is_needed(bucket)}
        for index in (self._of_label, self._of_namespace, self._of_quota):
            for name, those in list(index.items()):
                those[:] = [bucket for bucket in those if is_needed(bucket)]
                if not those:
                    del index[name]
        self._buckets_expected = 2 * len(self._buckets) + EMPTY_KEPT

    def counts(self, key: str) -> bool:
        """Whether a pod is counted, waiting or on a node."""
        return key in self._waiting or key in self.cluster.pods

    def quota_of(self, ask: Ask) -> Quota | None:
        return self.bucket(ask.meta.labels, ask.meta.namespace).quota

    def asked(self, ask: Ask) -> Mapping[str, int]:
        """What a pod that waits counts for."""
        rules = self.rules
        if rules is not None and rules.ignores_overhead and ask.spec.overhead:
            return pod_requests(ask.pod, overhead=False)
        return dict(ask.requests)

    @property
    def has_rooms(self) -> bool:
        """Whether there are reservations, or owners of some."""
        return bool(self._reserved)

    def with_more_reserved(self) -> set[str]:
        """Quotas with a reservation that has more for its owners than when this was asked last."""
        touched, self._rooms_touched = self._rooms_touched, set()
        eased: set[str] = set()
        for uid in touched:
            room, before = self._reserved.get(uid), self._rooms_left.pop(uid, {})
            if room is None or room.bucket is None or room.bucket.quota is None:
                continue
            left = self._rooms_left[uid] = {key: amount - room.given.get(key, 0) for key, amount in room.full.items()}
            if any(amount > before.get(key, 0) for key, amount in left.items()):
                eased.add(room.bucket.quota.name)
        return eased

    def nobody_waits(self) -> None:
        """What reservations had is of no interest any more."""
        self.somebody_waits = False
        self._rooms_touched.clear()
        self._rooms_left.clear()

    def buckets_of(self, quota: str) -> list[Bucket]:
        return self._of_quota.get(quota, [])

    def waiting_in(self, quota: Quota) -> Iterator[tuple[str, Mapping[str, int]]]:
        """Keys of pods of a quota without a node, and what they ask for."""
        for key, waiting in self._waiting.items():
            if waiting.bucket.quota is quota:
                yield key, waiting.amounts

    def sums(self, quota: Quota) -> Sums:
        """Of a quota's own pods."""
        if quota.name not in OUTSIDE:
            return quota.own
        sums = Sums()
        for bucket in self.buckets_of(quota.name):
            for into, part in zip(sums.parts(), bucket.sums.parts(), strict=True):
                for key, amount in part.items():
                    into[key] = into.get(key, 0) + amount
        return sums

    def used(self, quota: Quota) -> Amounts:
        """What a quota's pods use, of what its max speaks of."""
        return quota.used if quota.parent is not None else masked(self.sums(quota).used, quota.bounds.max)

    def fixed_used(self, quota: Quota) -> Amounts:
        if quota.parent is not None:
            return quota.fixed_used
        return masked(self.sums(quota).fixed_used, quota.bounds.max)

    def limit(self, quota: Quota) -> Mapping[str, int]:
        """What a quota's pods may use. A resource that is not in it is not bounded."""
        tree = self.forest.tree_of(quota.name)
        if tree is None or (self.rules is not None and not self.rules.by_runtime):
            return quota.bounds.max
        return self.runtime(quota)

    def runtime(self, quota: Quota) -> Amounts:
        """A quota's share; empty where it takes no part in the sharing."""
        tree = self.forest.tree_of(quota.name)
        if tree is None:
            return {}
        self.refresh()
        return tree.runtime(quota)

    def refresh(self) -> None:
        """Bring what there is to share up to date."""
        if not self._total_is_stale:
            return
        self._total_is_stale = False
        left = dict(self._allocatable)
        taken = [self.forest.others_have()]
        taken += [self.sums(self.forest.quotas[name]).used for name in OUTSIDE]
        for part in taken:
            for key, amount in part.items():
                if key in left:
                    left[key] -= amount
        self.forest.trees[DEFAULT_TREE].has({key: max(0, amount) for key, amount in left.items()})

    # How it is counted.

    def _use(self, bucket: Bucket, record: PodRecord, sign: int) -> None:
        if record.terminating and self._passes_over(record):
            return
        amounts, fixed = self.counted(record), is_fixed_record(record)
        self._count(bucket, amounts, sign, used=True, asked=record.key not in self._waiting, fixed=fixed)
        if record.notes and (note := room_note(record)) is not None:
            self._reserve(note, bucket, amounts, sign, fixed=fixed)

    def _reserve(self, note: RoomNote, bucket: Bucket, amounts: Mapping[str, int], sign: int, *, fixed: bool) -> None:
        """A reservation is on a node, or an owner of one is, or no longer."""
        room = self._reserved.setdefault(note.uid, Reserved())
        before = room.bucket, room.fixed, room.given
        if isinstance(note, StandsFor):
            room.bucket, room.full, room.fixed = (bucket, amounts, fixed) if sign > 0 else (None, {}, False)
        else:
            for key, amount in amounts.items():
                room.users[key] = room.users.get(key, 0) + sign * amount
        room.given = room.should_give()
        if self.somebody_waits:
            self._rooms_touched.add(note.uid)
            self._may_ease()
        if (room.bucket, room.fixed, room.given) != before:
            for (where, is_fixed_there, given), way in ((before, +1), ((room.bucket, room.fixed, room.given), -1)):
                if where is not None and given:
                    self._count(where, given, way, used=True, fixed=is_fixed_there)
        if room.bucket is None and not any(room.users.values()):
            del self._reserved[note.uid]

    def _passes_over(self, record: PodRecord) -> bool:
        if not record.terminating or self.rules is None:
            return False
        return self.rules.ignores_terminating or self._overdue.get(record.key) == record.uid

    def counted(self, record: PodRecord) -> Mapping[str, int]:
        for name, note in record.notes:
            if name == self.name and isinstance(note, tuple):
                return dict(note)
        return dict(record.shape.requests)

    def _wait_no_more(self, key: str, former: Waiting) -> None:
        """Where it counts on a node, it goes on asking for what it has there."""
        del self._waiting[key]
        self._count(former.bucket, former.amounts, -1, fixed=former.fixed)
        self._ask_by_record(key, +1)

    def _ask_by_record(self, key: str, sign: int) -> None:
        placed = self.cluster.pods.get(key)
        record = placed[0] if placed is not None else self._homeless.get(key)
        if record is not None and not self._passes_over(record):
            bucket = self.bucket(record.labels, record.namespace)
            self._count(bucket, self.counted(record), sign, fixed=is_fixed_record(record))

    def _count(
        self,
        bucket: Bucket,
        amounts: Mapping[str, int],
        sign: int,
        *,
        used: bool = False,
        asked: bool = True,
        fixed: bool = False,
    ) -> None:
        sums, quota = bucket.sums, bucket.quota
        for counts, whole, part in (
            (used, sums.used, sums.fixed_used),
            (asked, sums.request, sums.fixed_request),
        ):
            if counts:
                for key, amount in amounts.items():
                    whole[key] = whole.get(key, 0) + sign * amount
                    if fixed:
                        part[key] = part.get(key, 0) + sign * amount
        self.uses += 1
        if sign < 0 or asked:
            self._may_ease()
        if quota is None:
            return
        self.touched[quota.name] = None
        if quota.name in OUTSIDE:
            if used:
                self._total_is_stale = True
            return
        tree = self.forest.tree_of(quota.name) or self.forest.trees[DEFAULT_TREE]
        if used:
            tree.add(quota, amounts, sign, used=True, fixed=fixed)
        if asked:
            tree.add(quota, amounts, sign, used=False, fixed=fixed)

    def _may_ease(self) -> None:
        self.changes += 1
        if self.somebody_waits:
            self.cluster.may_ease = True

    def _regroup(self, changed: set[str]) -> None:
        """Quotas of some names or namespaces are others than they were: pods that they concern change sides."""
        if not changed:
            return
        self.regroupings += 1
        self._may_ease()
        self.uses += 1
        self._total_is_stale = True
        stale = {id(bucket): bucket for name in changed for bucket in self._of_label.get(name, ())}
        old = (old for old, current in names.OLD_QUOTAS.items() if current in changed)
        stale |= {id(bucket): bucket for name in old for bucket in self._of_label.get(name, ())}
        stale |= {id(bucket): bucket for name in changed for bucket in self._of_namespace.get(name, ())}
        for bucket in stale.values():
            quota = self._resolve(bucket.label, bucket.namespace)
            if quota is bucket.quota:
                continue
            self._shift(bucket, -1)
            if bucket.quota is not None:
                self._of_quota[bucket.quota.name].remove(bucket)
            bucket.quota = quota
            if quota is not None:
                self._of_quota.setdefault(quota.name, []).append(bucket)
            self._shift(bucket, +1)

    def _shift(self, bucket: Bucket, sign: int) -> None:
        """All that a bucket holds leaves its quota, or comes to it."""
        quota, sums = bucket.quota, bucket.sums
        if quota is None or quota.name in OUTSIDE:
            return
        tree = self.forest.tree_of(quota.name) or self.forest.trees[DEFAULT_TREE]
        for used, whole, fixed in ((False, sums.request, sums.fixed_request), (True, sums.used, sums.fixed_used)):
            loose = {key: amount - fixed.get(key, 0) for key, amount in whole.items()}
            tree.add(quota, loose, sign, used=used, fixed=False)
            tree.add(quota, fixed, sign, used=used, fixed=True)

    def _resolve(self, label: str, namespace: str) -> Quota | None:
        return self.forest.quota_of(label, namespace, default=self.rules is None or self.rules.has_default)

    def _node_has(self, row: Row, has: Mapping[str, int]) -> None:
        for sign, amounts in ((-1, self._nodes.get(row, {})), (+1, has)):
            for key, amount in amounts.items():
                self._allocatable[key] = self._allocatable.get(key, 0) + sign * amount
        self._has_changed(row, has)

    def _has_changed(self, row: Row, has: Mapping[str, int]) -> None:
        self._nodes[row] = has
        self._total_is_stale = True
        self._may_ease()
        self.uses += 1

    def _asked(self, pod: Pod) -> Mapping[str, int]:
        if self.rules is not None and self.rules.ignores_overhead and pod.spec.overhead:
            return pod_requests(pod, overhead=False)
        return dict(Ask(pod).requests)

    def _is_ignored(self, pod: Pod) -> bool:
        meta, rules = pod.metadata, self.rules
        if rules is None or meta.deletion_timestamp is None:
            return False
        return rules.ignores_terminating or self._overdue.get(meta.key) == meta.uid


def is_fixed(pod: Pod) -> bool:
    """Whether a pod must not be preempted, and so may use no more than is guaranteed."""
    labels = pod.metadata.labels
    return bool(labels) and labels.get(names.LABEL_QUOTA_PREEMPTIBLE) == "false"


def is_fixed_record(record: PodRecord) -> bool:
    """The same of one on a node."""
    return bool(record.labels) and record.labels.get(names.LABEL_QUOTA_PREEMPTIBLE) == "false"
