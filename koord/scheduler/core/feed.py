"""Objects, taken into the state and the queue.

A pod that has a node counts there. A pod that waits for this scheduler is queued, alone or with its job. A pod that
this scheduler placed counts from that moment; the confirmation of its binding changes nothing. A pod on an unknown node
counts when the node is added. The order in which objects arrive does not matter: the final state is the same as if only
the last version of each object had arrived.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from msgspec.structs import replace

from koord.api.kinds import PODS, Kind
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.faults import BadInput
from koord.scheduler.core.entity import Entity, Where
from koord.scheduler.core.inputs import BY_KIND
from koord.scheduler.core.moment import Moment
from koord.scheduler.core.patience import Patience
from koord.scheduler.core.queue import ClusterEvent, Queue
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.bounds import too_many_terms
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.plugin import Plugin, Taking
from koord.scheduler.framework.remedy import Remedy
from koord.scheduler.profiles import profile_for
from koord.scheduler.shards import Shard
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.nominations import Nomination
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.stand_ins import is_stand_in
from koord.scheduler.state.table import Reason, Row

log = logging.getLogger(__name__)

FREED: Final = int(Reason.PODS | Reason.FREED)
LENDS: Final = int(Reason.PODS | Reason.FREED | Reason.EXACT)
LET_GO: Final = "AssignedPodDelete"
"""What metrics call it when a pod gives back a place that it never took."""
EASED: Final = "PluginEased"
"""What they call it when a plugin that refused a pod may let it through."""


@dataclass(frozen=True, slots=True)
class Assumed:
    """A pod that this scheduler placed and whose binding is not confirmed yet."""

    ask: Ask
    node: str

    @property
    def uid(self) -> str:
        return self.ask.meta.uid


class Feed:
    """Keeps a cluster and a queue up to date. `now` is the time at which objects arrive."""

    cluster: Cluster

    def __init__(
        self,
        cluster: Cluster,
        queue: Queue,
        engines: Mapping[str, Engine],
        plugins: Iterable[Plugin],
        *,
        alone: bool = False,
        shard: Shard | None = None,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self.cluster, self.queue, self.engines = cluster, queue, engines
        self.now = Moment(cluster.now_s, 0.0)
        self.assumed: dict[str, Assumed] = {}
        self.patience = Patience()
        self.lost: list[str] = []
        "Keys of pods that this scheduler placed and that lost their place since this list was last read."
        self._alone, self._shard, self._wake = alone, shard, wake
        self._taking: dict[Kind[Any], list[Taking]] = {}
        self._standing: dict[Kind[Any], Callable[[Any], Pod]] = {}
        "Kinds whose objects are placed like pods, and what stands for one."
        self.objects: dict[Kind[Any], dict[str, Any]] = {}
        "The current objects of these kinds, by name."
        plugins = list(plugins)
        self._refusals = [plugin.refusals for plugin in plugins if plugin.refusals is not None]
        for plugin in plugins:
            for taking in plugin.takes():
                if taking.kind not in BY_KIND:
                    raise ValueError(f"{plugin.name} takes {taking.kind.kind}, which is not among the inputs")
                self._taking.setdefault(taking.kind, []).append(taking)
                if taking.stand_in is not None:
                    self._standing[taking.kind] = taking.stand_in
                    self.objects[taking.kind] = {}
        self._job_of: dict[str, str] = {}
        "By pod, the key of its entity, where that is a job."
        self._homeless: dict[str, dict[str, PodRecord]] = {}
        "Pods whose node is not known, by node: they count when it comes."
        self._missing_node_of: dict[str, str] = {}

    def at(self, now: Moment) -> None:
        """It is that late."""
        self.now = now
        self.cluster.now_s = now.wall_s

    def hear(self, kind: Kind[Any], new: Any | None, old: Any | None = None) -> None:
        """An object was added or has changed (`new`), or is gone (`old` alone)."""
        entry = BY_KIND[kind]
        try:
            if new is not None:
                entry.put(self, new, old)
            elif old is not None:
                entry.remove(self, old)
            event = entry.wakes(old, new)
            if event is not None:
                self._happened(event)
        except Exception as error:  # noqa: BLE001 - the shield tells
            self._cannot_take_in(kind, new if new is not None else old, error)
        if self.cluster.changed_jobs:
            self._look_at_jobs()
        if self.cluster.may_ease:
            self._wake()

    def hear_many(self, kind: Kind[Any], objects: Sequence[Any]) -> None:
        """Many objects of one kind were added: the same result as one by one, at less cost."""
        entry = BY_KIND[kind]
        if not entry.plugins_only:
            for thing in objects:
                self.hear(kind, thing)
            return
        for taking in self._taking.get(kind, ()):
            if taking.put_many is not None:
                taking.put_many(objects)
                continue
            for thing in objects:
                self._tell(taking.put, taking, kind, thing)
        for thing in objects:
            event = entry.wakes(None, thing)
            if event is not None:
                self._happened(event)
        if self.cluster.changed_jobs:
            self._look_at_jobs()

    def named(self, kind: Kind[Any]) -> Collection[tuple[str, str]]:
        """The namespaces and names of the objects that plugins read, for a kind where they read single objects only."""
        return {taking.named for taking in self._taking.get(kind, ()) if taking.named is not None}

    def tell_plugins(self, kind: Kind[Any], thing: Any) -> None:
        for taking in self._taking.get(kind, ()):
            self._tell(taking.put, taking, kind, thing)

    def tell_plugins_gone(self, kind: Kind[Any], thing: Any) -> None:
        for taking in self._taking.get(kind, ()):
            self._tell(taking.remove, taking, kind, thing)

    def _tell(self, tell_engine: Callable[[Any], None], taking: Taking, kind: Kind[Any], thing: Any) -> None:
        if taking.named is None or taking.named == (thing.metadata.namespace, thing.metadata.name):
            try:
                tell_engine(thing)
            except Exception as error:  # noqa: BLE001 - other plugins still get the object, and the shield reports it
                self._cannot_take_in(kind, thing, error)

    def _cannot_take_in(self, kind: Kind[Any], thing: Any, error: Exception) -> None:
        self.cluster.shield.failed("heed it", error, kind, thing.metadata)

    def put_like_pod(self, kind: Kind[Any], new: Any, old: Any | None) -> None:
        """An object of a kind that may be placed like pods was added or has changed."""
        self.tell_plugins(kind, new)
        stand_in = self._standing.get(kind)
        if stand_in is None:
            return
        self.objects[kind][new.metadata.name] = new
        pod, before = stand_in(new), None if old is None else stand_in(old)
        self.hear(PODS, pod, before)
        if pod.spec.node_name and not pod.is_finished and (pod != before or old is None or old.spec != new.spec):
            # It may lend others what it holds, or more of that, which no change of its pod says.
            self._happened(ClusterEvent(LENDS, pod, f"{kind.kind}Update"))

    def remove_like_pod(self, kind: Kind[Any], old: Any) -> None:
        self.tell_plugins_gone(kind, old)
        stand_in = self._standing.get(kind)
        if stand_in is None:
            return
        current = self.objects[kind].get(old.metadata.name)
        if current is not None and current.metadata.uid == old.metadata.uid:
            del self.objects[kind][old.metadata.name]
        self.hear(PODS, None, stand_in(old))

    def engine_of(self, pod: Pod | Ask) -> Engine | None:
        """The engine that decides about a pod; None if another scheduler does."""
        name = profile_for(self.engines, str(pod.spec.scheduler_name), alone=self._alone)
        return None if name is None else self.engines[name]

    def is_ours(self, pod: Pod) -> bool:
        """Whether a pod waits for a place, and for one from us."""
        if pod.spec.node_name or pod.metadata.deletion_timestamp is not None or pod.is_finished:
            return False
        if self._shard is not None and not self._shard.has_pod(pod):
            return False
        engine = self.engine_of(pod)
        return engine is not None and (engine.binds_stand_ins or not is_stand_in(pod.metadata.name))

    def put_pod(self, new: Pod, old: Pod | None) -> None:
        key = new.metadata.key
        self.tell_plugins(PODS, new)
        if old is not None and old.metadata.uid != new.metadata.uid:
            # Another pod of the same name.
            self.hear(PODS, None, old)
            old = None
        if new.is_finished:
            self._gone(key)
        elif new.spec.node_name:
            self._leave_queue(key)
            held, promise = self.assumed.pop(key, None), self.cluster.nominations.withdraw(key)
            self.patience.forget(key)
            self._count(new)
            if held is not None and held.node != new.spec.node_name:
                self._has_room(self._read(held.ask))
            if promise is not None and self.cluster.table.names[promise.row] != new.spec.node_name:
                self._has_room(promise.record)
        elif not self.is_ours(new):
            self._gone(key)
        else:
            self._waits(key, old, new)

    def remove_pod(self, old: Pod) -> None:
        self.tell_plugins_gone(PODS, old)
        self._gone(old.metadata.key)

    def put_node(self, new: Node, old: Node | None) -> None:
        if self._shard is not None and not self._shard.has_node(new):
            # Its pods count as those of nodes that are not known: in quotas, and nowhere else.
            self.remove_node(new)
            return
        name = new.metadata.name
        row = self.cluster.table.row_of.get(name)
        if row is None:
            row = self.cluster.put_node(new)
            for record in self._homeless.pop(name, {}).values():
                del self._missing_node_of[record.key]
                self.cluster.tell_of_homeless(record, -1)
                self.cluster.place(record, row)
        elif old is None or _node_differs(old, new):
            self.cluster.put_node(new)

    def remove_node(self, old: Node) -> None:
        """Its pods still exist, as far as is known: if the node comes back, they count again."""
        name = old.metadata.name
        row = self.cluster.table.row_of.get(name)
        if row is None:
            return
        for record in list(self.cluster.pods_on[row].values()):
            self._keep(record, name)
        promised = [nomination.record.key for nomination in self.cluster.nominations.on(row)]
        self.cluster.remove_node(name)
        # Room may be made for them elsewhere.
        self.activate(promised)

    def assume(self, ask: Ask, node: str, promise: Nomination | None = None) -> None:
        """An engine placed a pod. Until its binding is confirmed, only this scheduler knows the place.
        `promise`: the nomination that the pod had before, which may have been for another node."""
        self.assumed[ask.key] = Assumed(ask, node)
        if promise is not None and self.cluster.table.names[promise.row] != node:
            self._has_room(promise.record)

    def take_over(self, other: Feed) -> None:
        """What another feed assumes, this one does too, with all that plugins noted of it."""
        for key, held in other.assumed.items():
            entry = other.cluster.pods.get(key)
            record = entry[0] if entry is not None else other._homeless.get(held.node, {}).get(key)
            if record is None:
                continue
            self.assumed[key] = held
            # Plugins that are no longer there note nothing; those that are new do.
            notes = dict(self.cluster.noted(held.ask.pod, template=held.ask.template))
            notes |= {name: note for name, note in record.notes if name in self.cluster.noting}
            record = replace(record, notes=tuple(sorted(notes.items(), key=itemgetter(0))))
            row = self.cluster.table.row_of.get(held.node)
            if row is None:
                self._keep(record, held.node)
            else:
                self.cluster.place(record, row)

    def stands(self, ask: Ask, node: str) -> Row | None:
        """The row of the node where this scheduler placed a pod; None if the pod no longer has that place."""
        held = self.assumed.get(ask.key)
        if held is None or held.uid != ask.meta.uid or held.node != node:
            return None
        return self.cluster.table.row_of.get(node)

    def let_go(self, ask: Ask) -> bool:
        """A placed pod is not bound: it no longer counts. False if the pod has changed in the meantime, so that its
        assumed place is already gone."""
        held = self.assumed.get(ask.key)
        if held is None or held.uid != ask.meta.uid:
            return False
        del self.assumed[ask.key]
        self._forget_missing(ask.key)
        if ask.key in self.cluster.pods:
            record, _ = self.cluster.pods[ask.key]
            self.cluster.remove_pod(ask.key)
            self._has_room(record)
        return True

    def nominate(self, ask: Ask, engine: Engine, remedy: Remedy) -> tuple[str, ...]:
        """As `Engine.nominate`; wakes the pods that could use room which is no longer kept."""
        nominations = self.cluster.nominations
        before = nominations.of(ask.key)
        outbid = engine.nominate(ask, remedy)
        after = nominations.of(ask.key)
        if before is not None and (after is None or after.row != before.row):
            # The pod itself never had to leave that room to another pod.
            self._has_room(before.record, besides=ask.key)
        self.activate(outbid)
        return outbid

    def take_back(self, key: str) -> None:
        """A pod is promised nothing any more, and tried again; others may have the room."""
        promise = self.cluster.nominations.withdraw(key)
        if promise is not None:
            self._has_room(promise.record)
            self.activate([key])

    def activate(self, pods: Sequence[str]) -> None:
        """Have the entities of these pods tried now."""
        if pods:
            self.queue.activate([self._entity(key) for key in pods], self.now.steady_s)
            self._wake()

    def ease(self, *, idle: bool) -> bool:
        """Ask plugins which of the pods that they refused they would admit; whether there are any. `idle`: no other
        entity is ready."""
        self.cluster.may_ease = is_anybody = False
        for refusals in self._refusals:
            with self.cluster.shield.about("say which refused pods may go"):
                pods = refusals.eased(idle=idle)
                if pods:
                    is_anybody = True
                    self.queue.help(dict.fromkeys(map(self._entity, pods)), self.now.steady_s, EASED)
        return is_anybody

    def hand_over(self, key: str) -> None:
        """Another scheduler decides about a pod from now on, until an object says otherwise."""
        self._gone(key)

    def is_queued(self, key: str) -> bool:
        """Whether a pod waits, alone or with its job."""
        return self._entity(key) in self.queue

    def _is_in_queue(self, key: str) -> bool:
        """Whether a pod itself is in the entity that waits: members of a job that are bound have left it."""
        entity = self.queue.entity(self._entity(key))
        return entity is not None and any(ask.key == key for ask in entity.pods)

    def ask_again(self, ask: Ask) -> None:
        """Queue a pod in its current form."""
        engine = self.engine_of(ask)
        job, profile = (None, "") if engine is None else (engine.group(ask), engine.profile.name)
        if self._entity(ask.key) != (job or ask.key):
            self._leave_queue(ask.key)
        if job is None:
            entity = Entity.of(ask, profile)
        else:
            queued = self.queue.entity(job)
            if queued is not None and ask.key not in self._job_of:
                entity = queued.joined_by(ask)
            else:
                others = [member for member in queued.pods if member.key != ask.key] if queued is not None else []
                entity = Entity.job(job, (*others, ask), profile)
            self._job_of[ask.key] = job
        self.queue.put(entity, self.now.steady_s)
        self._wake()

    def _look_at_jobs(self) -> None:
        """Jobs are others than they were: their pods may belong to another one, or they may go."""
        changed, self.cluster.changed_jobs = self.cluster.changed_jobs, {}
        for job, regroup in changed.items():
            entity = self.queue.entity(job)
            if entity is not None:
                with self.cluster.shield.about("queue its job anew", PODS, entity.pods[0].meta):
                    self._look_at_job(job, entity, regroup=regroup)

    def _look_at_job(self, job: str, entity: Entity, *, regroup: bool) -> None:
        moved = [ask for ask in entity.pods if self._group(ask) != job] if regroup else []
        for ask in moved:
            if ask.key not in self.assumed:
                self.ask_again(ask)
        # What a job needs is something else: it may fit, or must not be tried any more.
        if not moved and (regroup or self.queue.where(job) is Where.GATED):
            self.queue.put(entity, self.now.steady_s)
            self._wake()

    def _group(self, ask: Ask) -> str | None:
        engine = self.engine_of(ask)
        return None if engine is None else engine.group(ask)

    def _entity(self, key: str) -> str:
        return self._job_of.get(key, key)

    def _leave_queue(self, key: str) -> None:
        """A pod waits no more; the other members of its job still do."""
        job = self._job_of.pop(key, None)
        entity = None if job is None else self.queue.entity(job)
        if job is None or entity is None:
            self.queue.remove(key)
            return
        left = tuple(member for member in entity.pods if member.key != key)
        if left:
            self.queue.put(Entity.job(job, left, entity.profile), self.now.steady_s)
        else:
            self.queue.remove(job)

    def _waits(self, key: str, old: Pod | None, new: Pod) -> None:
        held = self.assumed.get(key)
        if held is not None and held.uid != new.metadata.uid:
            # Another pod of the same name: the one that we placed is gone.
            self._gone(key)
            held = None
        changed = old is None or not self.is_ours(old) or _differs(old, new)
        if held is not None:
            # If its binding fails, the pod is queued in its current form; once bound, it is not queued again.
            if changed and self._is_in_queue(key):
                self.ask_again(Ask(new))
            return
        self._forget_missing(key)
        if key in self.cluster.pods:
            # It had a node by a history that is no longer true: the API server was restored from an older state.
            self.cluster.remove_pod(key)
        if changed or not self.is_queued(key):
            self.ask_again(Ask(new))
        self._promised(key, old, new)

    def _promised(self, key: str, old: Pod | None, new: Pod) -> None:
        """Promises of before our time are kept; what we promise ourselves is known before the API server says it."""
        before = old.status.nominated_node_name if old is not None else ""
        now, nominations = new.status.nominated_node_name, self.cluster.nominations
        held, row = nominations.of(key), self.cluster.table.row_of.get(now)
        if now and row is not None and held is None and now != before:
            record = self._record(new)
            if record is not None:
                nominations.put(Nomination(record, row))
        elif before and not now and held is not None and self.cluster.table.names[held.row] == before:
            self.take_back(key)

    def _count(self, pod: Pod) -> None:
        key, row = pod.metadata.key, self.cluster.table.row_of.get(pod.spec.node_name)
        counted = self.cluster.pods.get(key)
        if row is None:
            missing = self._homeless.get(pod.spec.node_name, {}).get(key)
            self._forget_missing(key)
            if counted is not None:
                self.cluster.remove_pod(key)
            record = self._record(pod, missing)
            if record is not None:
                self._keep(record, pod.spec.node_name)
            return
        self._forget_missing(key)
        same_place = counted is not None and counted[1] == row and counted[0].uid == pod.metadata.uid
        record = self._record(pod, counted[0] if counted is not None and same_place else None)
        if record is None:
            return
        if counted is not None:
            if same_place and _same(record, counted[0]):
                return
            if not same_place:
                self.cluster.remove_pod(key)
        self.cluster.place(record, row)

    def _record(self, pod: Pod, former: PodRecord | None = None) -> PodRecord | None:
        """What is kept of a pod that has a node. `known`: what was kept of it there. What cannot be understood of it is
        left out, and so are terms beyond what is supported, which would cost every other pod; its requests still
        count."""
        if former is not None and former.uid != pod.metadata.uid:
            former = None
        why = too_many_terms(pod.spec)
        if why is None:
            try:
                return self._read(Ask(pod), former)
            except BadInput as error:
                why = f"which cannot be understood: {error}"
        log.warning("counted without its affinity: %s", why, extra=_fields(pod))
        try:
            return self._read(Ask(replace(pod, spec=replace(pod.spec, affinity=None))), former)
        except BadInput as error:
            log.error("not counted, since it cannot be understood: %s", error, extra=_fields(pod))
            return None

    def _read(self, ask: Ask, former: PodRecord | None = None) -> PodRecord:
        return ask.record(self.now.wall_s, self.cluster.noted(ask.pod, former, ask.template))

    def _keep(self, record: PodRecord, node: str) -> None:
        self._homeless.setdefault(node, {})[record.key] = record
        self._missing_node_of[record.key] = node
        self.cluster.tell_of_homeless(record, +1)

    def _forget_missing(self, key: str) -> None:
        node = self._missing_node_of.pop(key, None)
        if node is not None:
            there = self._homeless[node]
            self.cluster.tell_of_homeless(there.pop(key), -1)
            if not there:
                del self._homeless[node]

    def _gone(self, key: str) -> None:
        self._leave_queue(key)
        self._forget_missing(key)
        held = self.assumed.pop(key, None)
        if held is not None:
            self.lost.append(key)
        self.patience.forget(key)
        if (promise := self.cluster.nominations.withdraw(key)) is not None:
            self._has_room(promise.record)
        if key in self.cluster.pods:
            record, row = self.cluster.pods[key]
            self.cluster.remove_pod(key)
            self._made_room(row)
            if held is not None:
                # Only this scheduler knew the place: the API server's event of the pod wakes no other pod.
                self._has_room(record)

    def _made_room(self, row: Row) -> None:
        """A pod whose victims are all gone is tried before their replacements, even during its backoff: replacements
        may take more than the amounts that are kept for the pod."""
        there = self.cluster.pods_on[row]
        for promise in self.cluster.nominations.on(row):
            left = (key for key, uid in promise.victims if key in there and there[key].uid == uid)
            if promise.victims and not any(left):
                self.patience.room_was_made(promise.record.key, self.now.steady_s)
                self.activate([promise.record.key])

    def _has_room(self, record: PodRecord, *, besides: str = "") -> None:
        """A place that was kept for a pod is free, and no change of an object says so."""
        self._happened(ClusterEvent(FREED, record, LET_GO), besides=besides)

    def _happened(self, event: ClusterEvent, *, besides: str = "") -> None:
        if self.queue.happened(event, self.now.steady_s, besides=besides):
            self._wake()


def _same(record: PodRecord, former: PodRecord) -> bool:
    """Whether two records say the same. That of a pod before it was bound has another shape, with the same amounts."""
    new, old = record.shape, former.shape
    if new is not old and (new.requests, new.non_zero) != (old.requests, old.non_zero):
        return False
    return replace(record, placed_s=former.placed_s, shape=old) == former


def _fields(pod: Pod) -> dict[str, str]:
    return {"pod": pod.metadata.key, "node": pod.spec.node_name}


def _differs(old: Pod, new: Pod) -> bool:
    """Whether a waiting pod changed in something that could change its chances. Of its status, only claims could."""
    before, now = old.metadata, new.metadata
    if old.status.resource_claim_statuses != new.status.resource_claim_statuses:
        return True
    return old.spec != new.spec or (before.labels, before.annotations, before.owner_references) != (
        now.labels,
        now.annotations,
        now.owner_references,
    )


def _node_differs(old: Node, new: Node) -> bool:
    """Whether a node changed in something that decisions look at: reports of its health are many."""
    before, now = old.metadata, new.metadata
    return (
        old.spec != new.spec
        or before.labels != now.labels
        or before.annotations != now.annotations
        or old.status.allocatable != new.status.allocatable
        or old.status.images != new.status.images
    )
