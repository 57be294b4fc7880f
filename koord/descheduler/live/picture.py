"""What the descheduler knows of the cluster: informers, and the scheduler's own state fed from them.

Jobs that were just written count as written until the watch reports them: a slow watch does not cause a second request
for the same move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from koord.api import kinds
from koord.api.configuration.scheduler_config import SchedulerConfiguration
from koord.api.kinds import Kind
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.workloads import Deployment, ReplicaSet
from koord.api.machinery.shield import Shield
from koord.api.protocol.annotations.notice import SCALE_FIRST
from koord.api.protocol.annotations.reservation import RESERVATION_ALLOCATED
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.api.protocol.crd.reservation import Reservation, ReservationControllerReference
from koord.api.text.whole_number import natural_number
from koord.descheduler.held_room import Sibling, reservation_name
from koord.descheduler.moves import Move, Moves, moves_asked_for, moves_of, pod_of
from koord.descheduler.places import Places
from koord.descheduler.scale_first import record_of
from koord.descheduler.sight import Sight
from koord.descheduler.workloads import KINDS as WORKLOADS
from koord.descheduler.workloads import Workload, Workloads, scaled, wanted_by, workload_from, workloads_of
from koord.kube.clock import Clock
from koord.kube.informer import Informer
from koord.kube.informers import Informers
from koord.kube.malformed import MalformedTeller
from koord.kube.store import Delta
from koord.scheduler.core.core import Core
from koord.scheduler.live.sources import OPTIONAL, Sources, moment, together
from koord.scheduler.profiles import profiles_of

ASSUMED_FOR_S: Final = 60.0
REQUIRED: Final[tuple[Kind[Any], ...]] = (kinds.POD_MIGRATION_JOBS, kinds.RESERVATIONS)
"""Without these nothing can be moved."""
OTHERS: Final[tuple[Kind[Any], ...]] = tuple(kind for kind in OPTIONAL if kind not in REQUIRED)
"""Kinds that the scheduler uses and that a cluster need not serve."""


class Picture:
    def __init__(
        self,
        informers: Informers,
        clock: Clock,
        scheduler: SchedulerConfiguration,
        *,
        alone: bool,
        shield: Shield | None = None,
    ) -> None:
        """`shield`: handles failures over single objects."""
        self._clock, self._informers = clock, informers
        self.shield = shield or Shield()
        self._sources = Sources(informers, clock)
        self._sources.add(kinds.RESERVATIONS)
        self.nodes, self.pods = informers.get(kinds.NODES), informers.get(kinds.PODS)
        self.pods.add_index("controller", _controller)
        self.reservations = informers.get(kinds.RESERVATIONS)
        self.reservations.add_index("controller", _held_for)
        self.jobs = informers.get(kinds.POD_MIGRATION_JOBS)
        self.jobs.add_index("pods", _pods_of)
        self.jobs.add_index("reservation", _reservation_of)
        self._workloads = {kind: informers.get(kind) for kind in WORKLOADS}
        self._workloads[kinds.REPLICA_SETS].add_index("controller", _controller)
        self._workloads[kinds.DEPLOYMENTS].add_index("scaled", _scaled_for)
        self._classes = informers.get(kinds.PRIORITY_CLASSES)
        self._has_metrics = False
        self._core = Core(profiles_of(scheduler), alone=alone, now=moment(clock), hints=False, shield=self.shield)
        self.scales: dict[str, int] = {}
        "Replicas of workloads of other kinds, by uid."
        self._assumed: dict[str, tuple[PodMigrationJob, float]] = {}
        self._disconnect: Callable[[], None] = lambda: None

    def serve(self, kind: Kind[Any]) -> None:
        """One of `OTHERS` is served here, from before `connect`."""
        self._sources.add(kind)
        self._has_metrics |= kind == kinds.NODE_METRICS

    def serve_late(self, kind: Kind[Any]) -> None:
        """Likewise, after that."""
        self.serve(kind)
        self._disconnect = together(self._disconnect, self._sources.connect_added(kind, self._core))

    def connect(self) -> None:
        """Everything is there: the scheduler's state is fed from now on."""
        self._disconnect = together(self._sources.connect(self._core), self.jobs.add_handler(self._heard))

    def sight(self) -> Sight:
        """What a round looks at."""
        core = self._core
        core.at(moment(self._clock))
        # Nobody writes here what the scheduler's plugins would have written.
        core.take_writes()
        pods = self.pods.list()
        pods_on: dict[str, list[Pod]] = {}
        finished_on: dict[str, list[Pod]] = {}
        for pod in pods:
            if pod.spec.node_name:
                (finished_on if pod.is_finished else pods_on).setdefault(pod.spec.node_name, []).append(pod)
        metrics = self._informers.get(kinds.NODE_METRICS).list() if self._has_metrics else []
        workloads: list[Any] = [workload for informer in self._workloads.values() for workload in informer.list()]
        return Sight(
            self._clock.now(),
            {node.metadata.name: node for node in self.nodes.list()},
            pods_on,
            {metric.metadata.name: metric for metric in metrics},
            workloads_of(workloads, pods, self.scales, has_all_pods=True),
            Places(core.cluster, core.feed.engine_of),
            self.moving(),
            finished_on,
            self.priorities(),
            has_all_pods=True,
        )

    def priorities(self) -> dict[str, int]:
        return {class_.metadata.name: class_.value for class_ in self._classes.list()}

    def workloads_of(self, pods: Iterable[Pod]) -> Workloads:
        """The workloads of some pods, with all of their pods."""
        workloads_by_uid: dict[str, Any] = {}
        owners: dict[str, None] = {}
        for pod in pods:
            if pod.metadata.controller is not None:
                owners[pod.metadata.controller.uid] = None
                self._climb(pod, workloads_by_uid)
        pods_found = [
            pod for uid in owners | dict.fromkeys(workloads_by_uid) for pod in self.pods.by_index("controller", uid)
        ]
        return workloads_of(workloads_by_uid.values(), pods_found, self.scales, has_all_pods=True)

    def workload_of(self, pod: Pod) -> Workload | None:
        """The workload of a pod, without its pods."""
        owner = pod.metadata.controller
        if owner is None:
            return None
        workload = self._workload(owner.kind, f"{pod.metadata.namespace}/{owner.name}", owner.uid)
        above = workload.metadata.controller if isinstance(workload, ReplicaSet) else None
        if above is not None:
            workload = self._workload(above.kind, f"{pod.metadata.namespace}/{above.name}", above.uid) or workload
        if workload is not None:
            return workload_from(workload)
        replicas = self.scales.get(owner.uid)
        return None if replicas is None else scaled(owner, pod.metadata.namespace, replicas)

    def _climb(self, pod: Pod, workloads: dict[str, Any]) -> None:
        """A pod's controller, what is above it, and what else that has."""
        owner = pod.metadata.controller
        if owner is None or owner.uid in workloads:
            return
        workload = self._workload(owner.kind, f"{pod.metadata.namespace}/{owner.name}", owner.uid)
        if workload is None:
            return
        workloads[owner.uid] = workload
        above = workload.metadata.controller
        if not isinstance(workload, ReplicaSet) or above is None or above.uid in workloads:
            return
        deployment = self._workload(above.kind, f"{pod.metadata.namespace}/{above.name}", above.uid)
        if deployment is not None:
            workloads[above.uid] = deployment
            for replica_set in self._workloads[kinds.REPLICA_SETS].by_index("controller", above.uid):
                workloads[replica_set.metadata.uid] = replica_set

    def deployment_of(self, job: PodMigrationJob, pod: Pod | None) -> Deployment | None:
        """The Deployment of a job's pod, if pods are replaced first there, or it is scaled for this job already."""
        owner = None if pod is None or pod.metadata.uid != job.spec.pod_ref.uid else pod.metadata.controller
        if owner is not None and owner.kind == "ReplicaSet":
            replica_set = self._workload(owner.kind, f"{job.spec.pod_ref.namespace}/{owner.name}", owner.uid)
            above = None if replica_set is None else replica_set.metadata.controller
            if above is not None and above.kind == "Deployment":
                deployment = self._workload(above.kind, f"{job.spec.pod_ref.namespace}/{above.name}", above.uid)
                if isinstance(deployment, Deployment) and SCALE_FIRST.read(deployment.metadata, "Deployment"):
                    return deployment
        scaled = self._workloads[kinds.DEPLOYMENTS].by_index("scaled", job.metadata.uid)
        return next(iter(scaled), None)

    def tell_malformed(self, teller: MalformedTeller) -> Callable[[], None]:
        """Of all kinds whose labels and annotations are read; returns what ends it."""
        read: tuple[tuple[Kind[Any], Informer[Any]], ...] = (
            (kinds.NODES, self.nodes),
            (kinds.PODS, self.pods),
            (kinds.POD_MIGRATION_JOBS, self.jobs),
            (kinds.DEPLOYMENTS, self._workloads[kinds.DEPLOYMENTS]),
        )
        return together(*(informer.add_handler(teller.hear(kind)) for kind, informer in read))

    def scaled(self) -> list[Deployment]:
        """Deployments with a replica that some job added."""
        return [
            deployment for deployment in self._workloads[kinds.DEPLOYMENTS].list() if record_of(deployment) is not None
        ]

    def _workload(self, kind: str, key: str, uid: str) -> Any | None:
        for workload_kind, informer in self._workloads.items():
            if workload_kind.kind == kind:
                workload = informer.get(key)
                return workload if workload is not None and workload.metadata.uid == uid else None
        return None

    def moving(self) -> list[Move]:
        """The moves that are under way, and those that wait."""
        return list(moves_asked_for(self.all_jobs(), self.pods.get, self._clock.now(), self.shield))

    def moves(self) -> Moves:
        """The moves that are under way."""
        return moves_of(self.all_jobs(), self.pods.get, self._clock.now(), self.shield)

    def job(self, name: str) -> PodMigrationJob | None:
        assumed = self._assumed.get(name)
        return self.jobs.get(name) if assumed is None else assumed[0]

    def jobs_with(self, reservation: str) -> list[PodMigrationJob]:
        """The jobs that refer to a reservation."""
        names = {job.metadata.name for job in self.jobs.by_index("reservation", reservation)}
        names |= {name for name, (job, _) in self._assumed.items() if reservation_name(job) == reservation}
        return [job for name in names if (job := self.job(name)) is not None and reservation_name(job) == reservation]

    def siblings(self, job: PodMigrationJob, reservation: Reservation) -> tuple[Sibling, ...]:
        """Other jobs that hold room for the same workload."""
        rooms = {
            room.metadata.name: room
            for uid in _held_for(reservation)
            for room in self.reservations.by_index("controller", uid)
        }
        if len(rooms) < 2:
            return ()
        jobs = {job.metadata.name: job for name in rooms for job in self.jobs_with(name)}
        return tuple(
            Sibling(
                other,
                rooms.get(reservation_name(other)),
                rooms.get(other.metadata.uid) if reservation_name(other) != other.metadata.uid else None,
                (pod := pod_of(other, self.pods.get)) is not None and pod.metadata.deletion_timestamp is None,
            )
            for other in jobs.values()
            if other.metadata.uid != job.metadata.uid
        )

    def whole(self, reservation: Reservation) -> tuple[Pod, ...] | None:
        """The pods of the workload that a reservation is for, if all of them are on nodes and none of them uses it."""
        for owner in reservation.spec.owners:
            if owner.controller is None:
                continue
            pods = [pod for pod in self.pods.by_index("controller", owner.controller.uid) if not pod.is_finished]
            wanted = self._wanted(owner.controller)
            pods = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
            if wanted is None or len(pods) < wanted or not all(pod.spec.node_name for pod in pods):
                return None
            return None if any(_uses(pod, reservation) for pod in pods) else tuple(pods)
        return None

    def _wanted(self, controller: ReservationControllerReference) -> int | None:
        """How many pods a controller should have, 0 if it is gone; None if that is not known."""
        key = f"{controller.namespace}/{controller.name}"
        workload = self._workload(controller.kind, key, controller.uid)
        if workload is not None:
            return wanted_by(workload)
        kind = controller.api_version.rpartition("/")[0], controller.kind
        is_gone = (
            controller.uid
            and controller.namespace
            and kind in {(workload.group, workload.kind) for workload in WORKLOADS}
        )
        return 0 if is_gone else self.scales.get(controller.uid)

    def all_jobs(self) -> list[PodMigrationJob]:
        self._forget_late()
        if not self._assumed:
            return self.jobs.list()
        jobs = {job.metadata.name: job for job in self.jobs.list()}
        return list((jobs | {name: job for name, (job, _) in self._assumed.items()}).values())

    def written(self, job: PodMigrationJob) -> None:
        """Takes over a job that was just written."""
        heard = self.jobs.get(job.metadata.name)
        if heard is None or _is_older(heard, job):
            self._assumed[job.metadata.name] = job, self._clock.monotonic() + ASSUMED_FOR_S

    def _heard(self, delta: Delta[PodMigrationJob]) -> None:
        assumed = self._assumed.get(delta.key)
        if assumed is not None and (delta.new is None or not _is_older(delta.new, assumed[0])):
            del self._assumed[delta.key]

    def _forget_late(self) -> None:
        now_s = self._clock.monotonic()
        for name in [name for name, (_, until_s) in self._assumed.items() if until_s < now_s]:
            del self._assumed[name]


def _is_older(job: PodMigrationJob, than: PodMigrationJob) -> bool:
    if job.metadata.uid != than.metadata.uid:
        return False
    own, other = natural_number(job.metadata.resource_version), natural_number(than.metadata.resource_version)
    return own is not None and other is not None and own < other


def _controller(thing: Any) -> tuple[str, ...]:
    owner = thing.metadata.controller
    return () if owner is None else (owner.uid,)


def _scaled_for(deployment: Deployment) -> tuple[str, ...]:
    """The job for which a Deployment has one replica more."""
    record = record_of(deployment)
    return () if record is None else (record.job,)


def _held_for(reservation: Reservation) -> tuple[str, ...]:
    """The controller whose next pod may use a reservation."""
    return tuple(owner.controller.uid for owner in reservation.spec.owners if owner.controller is not None)


def _uses(pod: Pod, reservation: Reservation) -> bool:
    try:
        said = RESERVATION_ALLOCATED.read(pod.metadata)
    except AnnotationError:
        return False
    return said is not None and said.name == reservation.metadata.name


def _pods_of(job: PodMigrationJob) -> tuple[str, ...]:
    """The pod that moves, and the one that comes for it."""
    refs = (job.spec.pod_ref, job.status.pod_ref)
    return tuple({f"{ref.namespace}/{ref.name}" for ref in refs if ref is not None})


def _reservation_of(job: PodMigrationJob) -> tuple[str, ...]:
    return (reservation_name(job),)
