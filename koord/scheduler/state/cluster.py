"""Everything the scheduler knows: nodes as a table, the pods on them, and what selects pods.

Fed from outside (informers, manifests, a simulation) by `put_node`, `place` and their opposites; read by plugins. It
has no clock and does no I/O. Placing a pod is a write like any other, and can be undone.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from weakref import WeakValueDictionary
from zlib import crc32

import numpy as np
from msgspec.structs import replace

from koord.api.kubernetes.core import Namespace, Service
from koord.api.kubernetes.node import ContainerImage, Node, NodeStatus, Taint
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.policy import PodDisruptionBudget
from koord.api.kubernetes.resources import amounts
from koord.api.machinery.shield import Shield
from koord.api.protocol.annotations.cpu import NODE_RESERVATION
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.pool_on_node import pool_text, with_pool
from koord.api.text.stored import stored_amount
from koord.scheduler.state.budgets import Budgets
from koord.scheduler.state.counts import Counts
from koord.scheduler.state.extended_amounts import changed_extended, extended_amounts
from koord.scheduler.state.labels import Labels
from koord.scheduler.state.nominations import Nominations
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.owners import Owners, Workload
from koord.scheduler.state.pods import NotesOf, PodRecord, Template, scheduled_spec, template_of
from koord.scheduler.state.storage import Storage, StorageObject
from koord.scheduler.state.table import Array, Column, Reason, Row, Table
from koord.scheduler.state.watchers import Index, Watcher

if TYPE_CHECKING:
    from koord.scheduler.framework.writes import Write

CPU: Final = "cpu"
PODS: Final = "pods"
MOST_IMAGES: Final = 1 << 16
TEMPLATES_KEPT: Final = 1 << 15
IDLE_KEPT: Final = 1 << 9
"How many more columns there may be before unused ones are looked for."
_PODS: Final = int(Reason.PODS)
UNSCHEDULABLE: Final = Column("unschedulable", np.bool_, Reason.UNSCHEDULABLE)
TAINTS: Final = Column("taints", np.int32, Reason.TAINTS)
NAME_HASH: Final = Column("name hash", np.uint32, Reason.NODE)
POD_COUNT: Final = Column("pod count", np.int64, Reason.REQUESTED)
NON_ZERO_CPU: Final = Column("non-zero cpu", np.int64, Reason.REQUESTED)
NON_ZERO_MEMORY: Final = Column("non-zero memory", np.int64, Reason.REQUESTED)


def allocatable(resource: str) -> Column:
    """What a node can give of a resource: milli-cores of cpu, units of everything else."""
    return Column(("allocatable", resource), np.int64, Reason.ALLOCATABLE)


def requested(resource: str) -> Column:
    """What the pods on a node ask for."""
    return Column(("requested", resource), np.int64, Reason.REQUESTED)


def _of_resource(name: Hashable) -> Column | None:
    match name:
        case ("allocatable", str(resource)):
            return allocatable(resource)
        case ("requested", str(resource)):
            return requested(resource)
    return None


def allocatable_of(node: Node) -> dict[str, int]:
    """What a node can give to pods: without what its annotation keeps for others."""
    has = {name: stored_amount(amount) for name, amount in amounts(node.status.allocatable).items()}
    has = with_pool(node, has)
    if not _reserved(node):
        return has
    try:
        reservation = NODE_RESERVATION.read(node.metadata, "Node")
    except AnnotationError:
        return has
    if not reservation.trims_allocatable:
        return has
    kept = {**amounts(reservation.resources), CPU: reservation.cpu_milli}
    return {name: max(0, amount - kept.get(name, 0)) for name, amount in has.items()}


def _allocatable_unless_equal(old: Node | None, new: Node) -> dict[str, int] | None:
    """What a node can give, as `allocatable_of`; None where that is as before."""
    if old is not None and (old.status.allocatable, _reserved(old), pool_text(old)) == (
        new.status.allocatable,
        _reserved(new),
        pool_text(new),
    ):
        return None
    return allocatable_of(new)


def _reserved(node: Node) -> str:
    return node.metadata.annotations.get(NODE_RESERVATION.key, "")


AnIndex = TypeVar("AnIndex", bound=Index)
SomeNotes = TypeVar("SomeNotes", bound=Notes)


Move: TypeAlias = tuple[str, PodRecord, Row] | Callable[[], None]
"""A pod that came or went, or how to take back something else."""


class Cluster:
    """The state. `seed` decides ties; everything else comes from what it is fed, `now_s` too."""

    def __init__(self, seed: int = 0, shield: Shield | None = None) -> None:
        self.seed = seed
        self.shield = shield or Shield()
        "Plugins that go over objects, by the clock or because something changed, handle each of them under it."
        self.now_s = 0.0
        self.ticks: Callable[[], float] | None = None
        "A clock in seconds for plugins to measure their cost, not for decisions; None: the cost is not measured."
        self._watchers: list[Watcher] = []
        self._told_of_pods: list[Callable[[PodRecord, Row, int], None]] = []
        self._told_of_homeless: list[Callable[[PodRecord, int], None]] = []
        self._told_of_expected: list[Callable[[PodRecord, int], None]] = []
        self.noting: dict[str, Notes] = {}
        "The indexes that make and count notes of pods, by name."
        self._reading: list[Notes] = []
        "Those of them that read notes from pods, by more than annotations."
        self._by_annotation: list[Notes] = []
        "Those that note something only of pods with certain annotations, which `_heeded` holds."
        self._heeded: frozenset[str] = frozenset()
        self._settled: dict[Template, tuple[NotesOf, list[Notes]]] = {}
        self._alone: dict[tuple[str, object], NotesOf] = {}
        self._indexes: dict[type[Index], Index] = {}
        self.table = Table(_of_resource)
        self.labels = Labels(self.table)
        self.nodes: dict[Row, Node] = {}
        self.pods: dict[str, tuple[PodRecord, Row]] = {}
        self.pods_on: dict[Row, dict[str, PodRecord]] = {}
        self.counts = Counts(self.pods_on)
        self.owners = Owners(self.counts)
        self.storage = Storage()
        self.budgets = Budgets()
        self.nominations = Nominations(self.table)
        self.outbox: deque[Write] = deque()
        "What plugins want written that no pod's binding brings about: the status of another kind, say."
        self.again_s = math.inf
        "When plugins want to be asked again for writes: see `ask_again`."
        self.changed_jobs: dict[str, bool] = {}
        """Keys of jobs that changed other than by a change of a waiting pod; and whether waiting pods may belong to
        another job because of it. The feed, which queues them, reads and empties it."""
        self.may_ease = False
        "Whether a plugin that refuses pods wants to be asked which it now admits: see `Refusals.eased`."
        self.shared: WeakValueDictionary[Hashable, object] = WeakValueDictionary()
        "What several classes of pods look at, for as long as one of them does."
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self._taint_ids: dict[tuple[Taint, ...], int] = {(): 0}
        self._images: dict[ContainerImage, ContainerImage] = {}
        self._undo: list[Move] | None = None
        self._open: Transaction | None = None
        self._hashes: Counter[int] = Counter()
        self.equal_hashes = False
        "Whether two nodes have the same hash, so that it does not decide among them."
        for column in (NAME_HASH, UNSCHEDULABLE, TAINTS, POD_COUNT, NON_ZERO_CPU, NON_ZERO_MEMORY, allocatable(PODS)):
            self.table.declare(column)
        for resource in ("cpu", "memory"):
            self.resource(resource)
        self._columns_expected = len(self.table.columns) + IDLE_KEPT

    def tidy(self) -> None:
        """Forget resources that no node has and no pod takes, and labels that no node has, once there are many: users
        may put any name into a pod. Called between two decisions."""
        columns = self.table.columns
        if len(columns) < self._columns_expected:
            return
        of_resources = [name for name in columns if isinstance(name, tuple) and _of_resource(name) is not None]
        used = {"cpu", "memory", PODS, *(name[1] for name in of_resources if columns[name].any())}
        idle = [name for name in of_resources if name[1] not in used]
        self.table.forget_columns([*idle, *self.labels.give_up()])
        self._columns_expected = len(columns) + IDLE_KEPT

    def resource(self, name: str) -> None:
        """Make sure that there are columns for a resource."""
        columns = self.table.columns
        if ("allocatable", name) in columns and ("requested", name) in columns:
            return
        self.table.declare(allocatable(name))
        self.table.declare(requested(name))

    def put_node(self, node: Node) -> Row:
        """A node was added or has changed. If that fails, the state is unchanged."""
        name = node.metadata.name
        row = self.table.row_of.get(name)
        old = None if row is None else self.nodes[row]
        changed = None if old is None else changed_extended(old, node)
        if row is not None and changed is not None:
            self._put_extended(row, node, changed)
            return row
        has = _allocatable_unless_equal(old, node)
        if row is None:
            row = self.table.add_row(name)
            self.table.set("name hash", row, self._hash(name))
            self._hashes[self._hash(name)] += 1
            self.equal_hashes = len(self._hashes) != len(self.table)
            self.pods_on.setdefault(row, {})
        self._write_node(row, self._kept(node), has)
        watched = 0
        try:
            for watcher in self._watchers:
                watcher.node_put(row)
                watched += 1
        except BaseException:
            self._take_node_back(name, row, old, watched)
            raise
        return row

    def _put_extended(self, row: Row, node: Node, changed: frozenset[str]) -> None:
        """Only extended resources of a node changed."""
        old, has = self.nodes[row], extended_amounts(node, changed)
        status = NodeStatus(node.status.capacity, node.status.allocatable, images=old.status.images)
        self.nodes[row] = replace(node, status=status)
        for name in sorted(changed):
            self.resource(name)
            self.table.set(("allocatable", name), row, has.get(name, 0))
        watched = 0
        try:
            for watcher in self._watchers:
                watcher.amounts_put(row, changed)
                watched += 1
        except BaseException:
            self._take_node_back(node.metadata.name, row, old, watched)
            raise

    def _write_node(self, row: Row, node: Node, has: Mapping[str, int] | None) -> None:
        """Write a node into the table; `has` is None if its amounts are unchanged."""
        old = self.nodes.get(row)
        self.nodes[row] = node
        self.labels.put(row, node.metadata.labels)
        self.table.set("unschedulable", row, node.spec.unschedulable)
        self.table.set("taints", row, self._taint_set(node.spec.taints))
        if has is not None:
            self._put_allocatable(row, has)
        if old is None or old.status.images != node.status.images:
            self.table.touch(row, int(Reason.IMAGES))

    def _take_node_back(self, name: str, row: Row, old: Node | None, watched: int) -> None:
        """A watcher failed: the watchers before it are told to undo the change."""
        if old is None:
            for watcher in self._watchers[:watched]:
                watcher.node_removed(row)
            self._forget_node(name, row)
            return
        self._write_node(row, old, allocatable_of(old))
        for watcher in self._watchers[:watched]:
            watcher.node_put(row)

    def remove_node(self, name: str) -> None:
        """A node is gone, and its pods with it."""
        row = self.table.row_of[name]
        for key in list(self.pods_on[row]):
            self.remove_pod(key)
        self.nominations.forget_row(row)
        for watcher in self._watchers:
            watcher.node_removed(row)
        self._forget_node(name, row)

    def _forget_node(self, name: str, row: Row) -> None:
        del self.nodes[row], self.pods_on[row]
        self._hashes[self._hash(name)] -= 1
        if not self._hashes[self._hash(name)]:
            del self._hashes[self._hash(name)]
        self.labels.forget(row)
        self.table.remove_row(name)
        self.equal_hashes = len(self._hashes) != len(self.table)

    def put_namespace(self, namespace: Namespace) -> None:
        """A namespace was added or has changed: terms choose namespaces by their labels."""
        self.counts.put_namespace(namespace.metadata.name, namespace.metadata.labels)

    def remove_namespace(self, name: str) -> None:
        self.counts.remove_namespace(name)

    def put_service(self, service: Service) -> None:
        """A Service was added or has changed: by default, its pods are spread."""
        self.owners.put_service(service)

    def remove_service(self, namespace: str, name: str) -> None:
        self.owners.remove_service(namespace, name)

    def put_workload(self, workload: Workload) -> None:
        """A controller of pods was added or has changed: by default, its pods are spread."""
        self.owners.put_workload(workload)

    def remove_workload(self, workload: Workload) -> None:
        self.owners.remove_workload(workload)

    def put_budget(self, budget: PodDisruptionBudget) -> None:
        """A PodDisruptionBudget was added or has changed: preemption avoids its pods."""
        self.budgets.put(budget)

    def remove_budget(self, namespace: str, name: str) -> None:
        self.budgets.remove(namespace, name)

    def put_storage(self, thing: StorageObject) -> None:
        """A claim, a volume, a storage class, a CSINode, or a driver's storage capacity was added or has changed."""
        self.storage.put(thing)

    def remove_storage(self, thing: StorageObject) -> None:
        """Something about storage is gone."""
        self.storage.remove(thing)

    def node_hashes(self) -> Array:
        """A hash of seed and name for every row, which decides ties."""
        return self.table.columns["name hash"]

    def place(self, record: PodRecord, row: Row) -> None:
        """A pod is on a node, and counts there. Where it cannot be counted, nothing has changed."""
        before = self.pods.get(record.key)
        if before is not None:
            self.remove_pod(record.key)
        if record.placed_s is None:
            record = replace(record, placed_s=self.now_s)
        try:
            self._count(record, row, +1)
        except BaseException:
            if before is not None:
                self._put_on(*before)
            raise
        self._note(record, row)

    def place_many(self, records: Sequence[PodRecord], rows: Sequence[Row]) -> None:
        """Pods of one shape that have been nowhere get their nodes, in one step: inside a transaction, which takes all
        of it back should that fail."""
        assert self._undo is not None
        self.table.gain_many(np.array(rows, np.intp), records[0].shape.gains, _PODS)
        for record, row in zip(records, rows, strict=True):
            self.tell_of_pod(record, row, +1)
            self._note(record, row)

    def _put_on(self, record: PodRecord, row: Row) -> None:
        self._count(record, row, +1)
        self._note(record, row)

    def _note(self, record: PodRecord, row: Row) -> None:
        self.pods[record.key] = (record, row)
        self.pods_on[row][record.key] = record
        if self._undo is not None:
            self._undo.append(("place", record, row))

    def remove_pod(self, key: str) -> None:
        """A pod is gone, or has ended."""
        record, row = self.pods.pop(key)
        del self.pods_on[row][key]
        try:
            self._count(record, row, -1)
        except BaseException:
            self.pods[key] = (record, row)
            self.pods_on[row][key] = record
            raise
        if self._undo is not None:
            self._undo.append(("remove", record, row))

    def watch(self, watcher: Watcher) -> None:
        """Tell someone of every change from now on."""
        self._watchers.append(watcher)
        if getattr(type(watcher), "pod_moved", None) is not Index.pod_moved:
            self._told_of_pods.append(watcher.pod_moved)
        if isinstance(watcher, Index) and type(watcher).pod_homeless is not Index.pod_homeless:
            self._told_of_homeless.append(watcher.pod_homeless)
        if isinstance(watcher, Index) and type(watcher).pod_expected is not Index.pod_expected:
            self._told_of_expected.append(watcher.pod_expected)

    def recounted(self, row: Row) -> None:
        """An index has recounted the notes of a row's pods: they add other amounts to its columns."""
        for watcher in self._watchers:
            if isinstance(watcher, Index):
                watcher.recounted(row)

    def index(self, kind: type[AnIndex]) -> AnIndex:
        """The one index of a kind, made on first use and kept up to date."""
        index = self._indexes.get(kind)
        if index is None:
            index = self._indexes[kind] = kind(self)
            self.watch(index)
        assert isinstance(index, kind)
        return index

    def notes(self, kind: type[SomeNotes]) -> SomeNotes:
        """The one counter of a kind of notes, made on first use: before any pod that it concerns is added."""
        notes = self.noting.get(kind.name)
        if notes is None:
            notes = self.noting[kind.name] = kind(self)
            if notes.from_pod and notes.heeds:
                self._by_annotation.append(notes)
                self._heeded |= notes.heeds
            elif notes.from_pod:
                self._reading.append(notes)
                self._settled.clear()
            self.watch(notes)
        assert isinstance(notes, kind)
        return notes

    def noted(self, pod: Pod, former: PodRecord | None = None, template: Template | None = None) -> NotesOf:
        """What all who make notes say of a pod. `known`: what is kept of it, on the node where it is put. `template`:
        what it has in common with others, where that is known."""
        if template is None:
            template = template_of(pod, scheduled_spec(pod.spec))
        settled = self._settled.get(template)
        if settled is None:
            settled = self._settle(pod, template)
        notes, asking = settled
        said = pod.metadata.annotations
        if said and not self._heeded.isdisjoint(said):
            asking = [*asking, *self._by_annotation]
        kept = (
            [named_note for named_note in former.notes if not self.noting[named_note[0]].from_pod]
            if former is not None
            else None
        )
        if not asking and not kept:
            return notes
        named_notes = [
            (notes_kind.name, note) for notes_kind in asking if (note := notes_kind.of_alike(pod, template)) is not None
        ]
        if not kept:
            if not named_notes:
                return notes
            if not notes and len(named_notes) == 1 and self.noting[named_notes[0][0]].shared:
                return self._shared(named_notes[0])
        return tuple(sorted([*notes, *named_notes, *(kept or ())], key=itemgetter(0)))

    def noted_by_name(self, pod: Pod, template: Template) -> bool:
        """Whether notes of a pod may differ from those of its twins: see `Notes.by_name`."""
        settled = self._settled.get(template) or self._settle(pod, template)
        return any(notes_kind.by_name(pod) for notes_kind in settled[1])

    def settle_anew(self) -> None:
        """Indexes that make notes from the spec alone would make different ones from now on."""
        self._settled.clear()

    def _settle(self, pod: Pod, template: Template) -> tuple[NotesOf, list[Notes]]:
        """The notes of all pods of a template, and the indexes that read more than their spec."""
        if len(self._settled) >= TEMPLATES_KEPT:
            self._settled.clear()
        spec, said, asking = scheduled_spec(pod.spec), list[tuple[str, object]](), list[Notes]()
        for notes_kind in self._reading:
            if not notes_kind.by_spec(spec):
                asking.append(notes_kind)
            elif (note := notes_kind.of(pod)) is not None:
                said.append((notes_kind.name, note))
        result = self._settled[template] = tuple(sorted(said, key=itemgetter(0))), asking
        return result

    def _shared(self, note: tuple[str, object]) -> NotesOf:
        """One note alone, as one object for all pods that have it."""
        if len(self._alone) >= TEMPLATES_KEPT:
            self._alone.clear()
        return self._alone.setdefault(note, (note,))

    def changes_views(self, record: PodRecord) -> bool:
        """Whether views may show something else when a pod moves."""
        return any(self.noting[name].changes_views for name, _ in record.notes)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """All that is written inside can be taken back, until the block ends: then it stays, unless undone.

        An error that leaves the block takes everything back. A block inside another takes back its own part; what it
        leaves, the other one still can.
        """
        if self._open is not None:
            with self._open.part() as part:
                yield part
            return
        self._undo = []
        try:
            with self.table.recording() as writes:
                self._open = Transaction(self, writes, self._undo)
                with self._open.part() as part:
                    yield part
        finally:
            self._undo = self._open = None

    def undoable(self, inverse: Callable[[], None]) -> None:
        """Note how to take back a change that a plugin made outside the table, should the transaction be undone."""
        if self._undo is not None:
            self._undo.append(inverse)

    def _count(self, record: PodRecord, row: Row, sign: int) -> None:
        """Whole, or not at all."""
        self.table.gain(row, record.shape.gains, sign, _PODS)
        try:
            self.tell_of_pod(record, row, sign)
        except BaseException:
            self.table.gain(row, record.shape.gains, -sign, _PODS)
            raise

    def tell_of_pod(self, record: PodRecord, row: Row, sign: int) -> None:
        """Report a pod that came or left to all that count pods. If one fails, those before it get the opposite."""
        listened = 0
        try:
            self.counts.moved(record, row, sign)
            listened += 1
            for moved in self._told_of_pods:
                moved(record, row, sign)
                listened += 1
            for name, note in record.notes:
                self.noting[name].moved(note, record, row, sign)
                listened += 1
        except BaseException:
            noted = [partial(self.noting[name].moved, note) for name, note in record.notes]
            listeners: list[Callable[[PodRecord, Row, int], None]] = [self.counts.moved, *self._told_of_pods, *noted]
            for listener in listeners[:listened]:
                listener(record, row, -sign)
            raise

    def tell_of_homeless(self, record: PodRecord, sign: int) -> None:
        """A pod has a node that is not known, or no longer: it takes no room here, and exists all the same."""
        for listener in self._told_of_homeless:
            listener(record, sign)

    def ask_again(self, at_s: float) -> None:
        """A plugin has more to write at a time, though nothing may happen until then."""
        self.again_s = min(self.again_s, at_s)

    def expect(self, record: PodRecord, sign: int = 1) -> None:
        """In a trial: a pod that goes will be made again by its owner, and then asks for what it asks for now."""
        for listener in self._told_of_expected:
            listener(record, sign)
            self.undoable(partial(listener, record, -sign))

    def _kept(self, node: Node) -> Node:
        """A node without what no decision looks at. Nodes have the same images: those are kept once."""
        images = self._images
        if len(images) > MOST_IMAGES:
            images.clear()
        status = NodeStatus(
            capacity=node.status.capacity,
            allocatable=node.status.allocatable,
            images=tuple([images.setdefault(image, image) for image in node.status.images]),
        )
        return replace(node, status=status)

    def _hash(self, name: str) -> int:
        return crc32(name.encode(), self.seed & 0xFFFFFFFF)

    def _put_allocatable(self, row: Row, wanted: Mapping[str, int]) -> None:
        for name in wanted:
            self.resource(name)
        for column in list(self.table.columns):
            if isinstance(column, tuple) and column[0] == "allocatable":
                self.table.set(column, row, wanted.get(column[1], 0))

    def _taint_set(self, taints: tuple[Taint, ...]) -> int:
        set_id = self._taint_ids.get(taints)
        if set_id is None:
            set_id = self._taint_ids[taints] = len(self.taint_sets)
            self.taint_sets.append(taints)
        return set_id


class Transaction:
    """Writes that can be taken back: all since it began."""

    def __init__(self, cluster: Cluster, writes: list[tuple[Any, Row, Any]], moves: list[Move]) -> None:
        self._cluster, self._writes, self._moves = cluster, writes, moves
        self._first_write, self._first_move = len(writes), len(moves)

    @contextmanager
    def part(self) -> Iterator[Transaction]:
        """What is written from now on, as a transaction of its own."""
        part = Transaction(self._cluster, self._writes, self._moves)
        try:
            yield part
        except BaseException:
            part.undo()
            raise

    def undo(self) -> None:
        """Take everything back; the state is bit for bit the same as when the transaction began."""
        cluster = self._cluster
        moves = self._moves[self._first_move :]
        del self._moves[self._first_move :]
        for move in reversed(moves):
            if not isinstance(move, tuple):
                move()
                continue
            what, record, row = move
            if what == "place":
                del cluster.pods[record.key], cluster.pods_on[row][record.key]
                cluster.tell_of_pod(record, row, -1)
            else:
                cluster.pods[record.key] = (record, row)
                cluster.pods_on[row][record.key] = record
                cluster.tell_of_pod(record, row, +1)
            cluster.table.touch(row, _PODS)
        cluster.table.restore(self._writes[self._first_write :])
        del self._moves[self._first_move :]
        del self._writes[self._first_write :]
