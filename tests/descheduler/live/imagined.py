"""A cluster in memory around the real code of the descheduler: an API server whose answers get lost, a scheduler, a
workload, a kubelet, and informers that lag behind. Whatever calls the API server may be killed before or after that.

One service of three replicas on eight nodes, and some jobs that move its pods. With `scale_first`, it is a Deployment
that asks for replacements before its pods go.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from koord.api import kinds
from koord.api.configuration.descheduler_args import MigrationControllerArgs, ObjectLimiter
from koord.api.kinds import (
    DEPLOYMENTS,
    JOBS,
    POD_MIGRATION_JOBS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    RESERVATIONS,
    STATEFUL_SETS,
    Kind,
)
from koord.api.kubernetes.pod_costs import DELETION_COST
from koord.api.machinery.codec import convert
from koord.api.machinery.shield import Shield
from koord.api.protocol.annotations.notice import EVICTION_DEADLINE, EVICTION_NOTICE, SCALE_FIRST
from koord.api.protocol.annotations.reservation import RESERVATION_ALLOCATED, ReservationAllocated
from koord.api.text.timestamp import from_seconds, parse_timestamp
from koord.descheduler.job_status import is_forgotten
from koord.descheduler.live.arbitrating import Arbitrating
from koord.descheduler.live.metrics import DeschedulerMetrics
from koord.descheduler.live.migrating import Migrating
from koord.descheduler.live.pace import Pace
from koord.descheduler.live.picture import Picture, _controller, _held_for, _pods_of, _reservation_of, _scaled_for
from koord.descheduler.live.scales import Scales
from koord.descheduler.live.tidying import Tidying
from koord.descheduler.rules import Rules
from koord.descheduler.scale_first import LOWEST_COST
from koord.kube.errors import ApiError, Status, error_for, unreachable
from koord.kube.metrics import Metrics
from tests.kube.manual_clock import ManualClock

REPLICAS = 3
TTL = "600s"
NOTICE, DEADLINE = str(EVICTION_NOTICE.key), str(EVICTION_DEADLINE.key)
NODES = tuple(f"n{number}" for number in range(1, 9))
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "deployment", "controller": True}
WEB = "default/web"
CONTAINER = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
METRICS = DeschedulerMetrics(Metrics(process=False))
HEARD = ("pods", "jobs", "reservations", "workloads", "nodes")
Plain = dict[str, Any]


class Killed(BaseException):
    """The process is no more."""


class WallClock(ManualClock):
    """One that people set, back or forth; its monotonic time goes on."""

    ahead_s = 0.0

    def now(self) -> float:
        return self.time + self.ahead_s


class Server:
    """Objects by kind and key, with versions; what an API server refuses is refused."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.objects: dict[Kind[Any], dict[str, Plain]] = {
            kind: {}
            for kind in (
                *(PODS, POD_MIGRATION_JOBS, RESERVATIONS, PRIORITY_CLASSES),
                *(REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS, JOBS),
            )
        }
        self.objects[kinds.NODES] = {name: {"metadata": {"name": name, "resourceVersion": "0"}} for name in NODES}
        self.version = 0
        self.evicted: list[str] = []
        self.ended: list[tuple[str, str]] = []
        "Every time that a job came to its end."
        self.late: list[str] = []
        "Jobs that ended because their time was over."
        self.deadlines: list[float] = []
        "For each pod that goes, how long the pod would still have had; negative infinity where it asks for no notice."
        self.missed: list[str] = []
        "Pods that jobs found gone, by uid."

    @staticmethod
    def told_until_s(pod: Plain) -> float:
        said = pod["metadata"].get("annotations", {})
        if NOTICE not in said or not is_ready(pod):
            return -math.inf
        return parse_timestamp(said[DEADLINE]) if DEADLINE in said else math.inf

    def note_deadline(self, pod: Plain) -> None:
        self.deadlines.append(self.told_until_s(pod) - self.clock.now())

    def find(self, kind: Kind[Any], key: str, uid: str = "") -> Plain:
        found = self.objects[kind].get(key)
        if found is None:
            raise error_for(Status(code=404, reason="NotFound", message=f"{kind.kind} {key}"))
        if uid and found["metadata"]["uid"] != uid:
            raise error_for(Status(code=409, reason="Conflict", message="uid"))
        return found

    def put(self, kind: Kind[Any], key: str, new: Plain) -> Plain:
        self.version += 1
        new = json.loads(json.dumps(new))
        new["metadata"]["resourceVersion"] = str(self.version)
        before = self.objects[kind].get(key)
        if kind is POD_MIGRATION_JOBS:
            phases = [(each or {}).get("status", {}).get("phase", "") for each in (before, new)]
            if phases[0] != phases[1] and phases[1] in ("Succeeded", "Failed"):
                self.ended.append((key, phases[1]))
                if new["status"].get("reason") == "Timeout":
                    self.late.append(key)
                if new["status"].get("reason") == "MissingPod" and "uid" in new["spec"]["podRef"]:
                    self.missed.append(new["spec"]["podRef"]["uid"])
            assert phases[0] not in ("Succeeded", "Failed") or phases[0] == phases[1], "a job ends once"
        if kind is PODS and before is not None and _cost(before) != _cost(new) == int(LOWEST_COST):
            # From here on its workload may give it up.
            self.note_deadline(before)
        if kind is DEPLOYMENTS and before is not None and before["spec"] != new["spec"]:
            new["metadata"]["generation"] = before["metadata"].get("generation", 1) + 1
        self.objects[kind][key] = new
        return new

    def create(self, kind: Kind[Any], body: Plain) -> Plain:
        meta = body["metadata"]
        key = f"{meta['namespace']}/{meta['name']}" if kind.namespaced else meta["name"]
        if key in self.objects[kind]:
            raise error_for(Status(code=409, reason="AlreadyExists", message=key))
        stamped = {"uid": f"uid-{self.version}", "creationTimestamp": from_seconds(self.clock.now()), **meta}
        return self.put(kind, key, {**body, "metadata": stamped})

    def merge(self, kind: Kind[Any], key: str, patch: Plain) -> Plain:
        found = self.find(kind, key, patch.get("metadata", {}).get("uid", ""))
        version = patch.get("metadata", {}).get("resourceVersion")
        if version is not None and version != found["metadata"]["resourceVersion"]:
            raise error_for(Status(code=409, reason="Conflict", message="version"))
        return self.put(kind, key, _merged(found, patch))

    def delete(self, kind: Kind[Any], key: str, uid: str = "") -> None:
        found = self.find(kind, key, uid)
        self.version += 1
        if kind is PODS and found["spec"].get("nodeName"):
            found["metadata"].setdefault("deletionTimestamp", from_seconds(self.clock.now()))
            self.put(kind, key, found)
            return
        del self.objects[kind][key]


def _merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    old = old if isinstance(old, dict) else {}
    found = {**old, **{key: _merged(old.get(key), value) for key, value in patch.items()}}
    return {key: value for key, value in found.items() if patch.get(key, value) is not None}


class FrailClient:
    """What the descheduler's code calls. `fate` is asked around every call."""

    def __init__(self, server: Server, fate: Callable[[], str]) -> None:
        self._server, self._fate = server, fate

    def limited(self, **_: Any) -> FrailClient:
        return self

    def _call(self, act: Callable[[], Any]) -> Any:
        fate = self._fate()
        if fate == "killed before":
            raise Killed
        if fate == "lost before":
            raise unreachable("lost on the way there", maybe_done=False)
        answer = act()
        if fate == "killed after":
            raise Killed
        if fate == "lost after":
            raise unreachable("the answer was lost", maybe_done=True)
        return answer

    @staticmethod
    def _key(kind: Kind[Any], name: str, namespace: str) -> str:
        return f"{namespace}/{name}" if kind.namespaced else name

    async def get(self, kind: Kind[Any], name: str, *, namespace: str = "") -> Any:
        return self._call(lambda: convert(kind.type, self._server.find(kind, self._key(kind, name, namespace))))

    async def list(self, kind: Kind[Any]) -> Any:
        return self._call(lambda: [convert(kind.type, each) for each in self._server.objects[kind].values()])

    async def get_bytes(self, kind: Kind[Any], name: str, *, namespace: str = "") -> bytes:
        found = self._call(lambda: self._server.find(kind, self._key(kind, name, namespace)))
        return json.dumps(found).encode()

    async def raw(self, method: str, path: str) -> Any:
        assert method == "GET", path
        return self._call(lambda: (200, {}, b'{"items": []}'))

    async def create(self, kind: Kind[Any], body: Plain) -> Any:
        return convert(kind.type, self._call(lambda: self._server.create(kind, body)))

    async def patch(
        self, kind: Kind[Any], name: str, patch: Plain, *, namespace: str = "", type: str = "merge", **_: Any
    ) -> Any:
        key = self._key(kind, name, namespace)
        if type == "strategic":
            known = self._server.objects[kind].get(key, {}).get("status", {}).get("conditions", ())
            new = patch["status"]["conditions"]
            kept = [each for each in known if each["type"] not in {one["type"] for one in new}]
            patch = {**patch, "status": {**patch["status"], "conditions": [*kept, *new]}}
        return convert(kind.type, self._call(lambda: self._server.merge(kind, key, patch)))

    async def update(self, kind: Kind[Any], obj: Any, *, subresource: str) -> Any:
        assert subresource == "status"
        meta, body = obj.metadata, kind.manifest(obj)

        def act() -> Plain:
            found = self._server.find(kind, meta.name, meta.uid)
            if found["metadata"]["resourceVersion"] != meta.resource_version:
                raise error_for(Status(code=409, reason="Conflict", message="version"))
            return self._server.put(kind, meta.name, {**found, "status": body["status"]})

        return convert(kind.type, self._call(act))

    async def delete(self, kind: Kind[Any], name: str, *, namespace: str = "", uid: str = "", **_: Any) -> None:
        self._call(lambda: self._server.delete(kind, self._key(kind, name, namespace), uid))

    async def evict(self, namespace: str, name: str, *, uid: str, options: Plain) -> None:
        key = f"{namespace}/{name}"

        def act() -> None:
            found = self._server.find(PODS, key, uid)
            ready = [each for each in self._server.objects[PODS].values() if is_ready(each)]
            if is_ready(found) and len(ready) < REPLICAS:
                raise error_for(Status(code=429, reason="TooManyRequests", message="disruption budget"))
            if "deletionTimestamp" not in found["metadata"]:
                self._server.evicted.append(uid)
                self._server.note_deadline(found)
            self._server.delete(PODS, key, uid)

        self._call(act)


def is_ready(pod: Plain) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return "deletionTimestamp" not in pod["metadata"] and any(condition["type"] == "Ready" for condition in conditions)


class Lagging:
    """An informer, as far as it has heard."""

    def __init__(self, server: Server, kind: Kind[Any], indexes: dict[str, Callable[[Any], Iterable[str]]]) -> None:
        self._server, self._kind, self._indexes = server, kind, indexes
        self._known: dict[str, Any] = {}
        self.catch_up()

    def catch_up(self) -> None:
        self._known = {key: convert(self._kind.type, each) for key, each in self._server.objects[self._kind].items()}

    def get(self, key: str) -> Any:
        return self._known.get(key)

    def by_index(self, name: str, key: str) -> list[Any]:
        return [each for each in self._known.values() if key in self._indexes[name](each)]

    def list(self) -> list[Any]:
        return list(self._known.values())


class LaggingPicture(Picture):
    def __init__(self, server: Server, clock: Any) -> None:
        self._clock, self._assumed, self.scales, self.shield = clock, {}, {}, Shield()
        self._classes: Any = Lagging(server, PRIORITY_CLASSES, {})
        picture: Any = self
        picture.nodes = Lagging(server, kinds.NODES, {})
        picture.pods = Lagging(server, PODS, {"controller": _controller})
        picture.jobs = Lagging(server, POD_MIGRATION_JOBS, {"pods": _pods_of, "reservation": _reservation_of})
        picture.reservations = Lagging(server, RESERVATIONS, {"controller": _held_for})
        picture._workloads = {
            REPLICA_SETS: Lagging(server, REPLICA_SETS, {"controller": _controller}),
            DEPLOYMENTS: Lagging(server, DEPLOYMENTS, {"scaled": _scaled_for}),
            STATEFUL_SETS: Lagging(server, STATEFUL_SETS, {}),
            JOBS: Lagging(server, JOBS, {}),
        }

    def catch_up(self, which: str) -> None:
        informers: Any = self._workloads.values() if which == "workloads" else [getattr(self, which)]
        for informer in informers:
            informer.catch_up()
        for name, (job, _) in list(self._assumed.items()):
            heard = self.jobs.get(name)
            if heard is None or int(heard.metadata.resource_version) >= int(job.metadata.resource_version):
                del self._assumed[name]


class Silent:
    def record(self, *_: Any, **__: Any) -> None: ...


class Process:
    """One descheduler, from its start to its end."""

    def __init__(
        self,
        server: Server,
        clock: ManualClock,
        args: MigrationControllerArgs,
        fate: Any,
        *,
        client: FrailClient | None = None,
        elected: bool = False,
    ) -> None:
        self.picture = LaggingPicture(server, clock)
        calls: Any = client or FrailClient(server, fate)
        events: Any = Silent()
        rules = Rules.of(args)
        self.migrating = Migrating(
            calls, self.picture, lambda _: rules, Pace(), events, METRICS, clock, elected=elected
        )
        self.arbitrating = Arbitrating(
            calls, self.picture, lambda _: rules, lambda: 0.5, Scales(calls, clock), events, METRICS, clock
        )
        self.tidying = Tidying(calls, self.picture, lambda _: args, clock)
        self._args, self._clock = args, clock

    async def work(self, chance: Random) -> None:
        for which in HEARD:
            if chance.random() < 0.7:
                self.picture.catch_up(which)
        names = [job.metadata.name for job in self.picture.all_jobs()]
        kind = chance.random()
        if kind < 0.2:
            await self.arbitrating.rule()
        elif kind < 0.9 and names:
            await self.migrating.reconcile(chance.choice(names))
        else:
            await self.tidy()

    async def tidy(self) -> None:
        for reservation in self.picture.reservations.list():
            await self.tidying._look_at(reservation.metadata.name)
        for job in self.picture.all_jobs():
            if is_forgotten(job, self._args, self._clock.now()):
                await self.tidying._remove(job)
        await self.tidying._put_back(self._clock.now())


class Imagined:
    """The whole of it."""

    def __init__(
        self,
        seed: int,
        notice: str = "",
        *,
        scale_first: bool = False,
        enemy: bool = False,
        deschedulers: int = 1,
        most_moving: int = REPLICAS,
    ) -> None:
        self.chance = Random(seed)
        self.said = {NOTICE: notice} if notice else {}
        self.clock = WallClock(1_700_000_000.0)
        self.server = Server(self.clock)
        # All of its pods may be on the move at once: their jobs must not get into each other's way.
        self.args = MigrationControllerArgs(
            skip_check_expected_replicas=True,
            object_limiters={"workload": ObjectLimiter(duration="1ms")},
            max_migrating_per_workload=most_moving,
            max_unavailable_per_workload=most_moving,
        ).completed()
        self.kills = 0
        self.enemy = enemy
        "Whether pods and reservations vanish, and the clock jumps."
        self.calm = False
        self.made = 0
        self.fewest_ready = REPLICAS
        self.held_for_nobody: list[str] = []
        self.about: list[str] = []
        spec = {"replicas": REPLICAS, "selector": {}, "template": {}}
        meta: Plain = {"name": "web", "namespace": "default", "uid": "deployment", "generation": 1}
        if scale_first:
            meta["annotations"] = {SCALE_FIRST.key: "true"}
        self.server.create(DEPLOYMENTS, {"metadata": meta, "spec": spec, "status": {}})
        meta = {"name": "web", "namespace": "default", "uid": "rs", "ownerReferences": [DEPLOYMENT]}
        self.server.create(REPLICA_SETS, {"metadata": meta, "spec": spec, "status": {"replicas": REPLICAS}})
        for _ in range(REPLICAS * 3):
            self.controller()
            self.scheduler()
            self.kubelet()
        self.fewest_ready = REPLICAS
        self.most_at_once = 0
        self.processes = [self.start() for _ in range(deschedulers)]

    def start(self) -> Process:
        return Process(self.server, self.clock, self.args, self.fate)

    def fate(self) -> str:
        if self.calm or self.chance.random() > 0.1:
            return ""
        return self.chance.choice(("killed before", "killed after", "killed after", "lost before", "lost after"))

    async def live(self, steps: int) -> None:
        for _ in range(steps):
            self.clock.advance(self.chance.choice((0.1, 0.2, 1.0)))
            actor = self.chance.random()
            if actor < 0.55:
                await self.descheduler()
            elif actor < 0.68:
                self.scheduler()
            elif actor < 0.76:
                self.controller()
            elif actor < 0.98:
                self.kubelet()
            elif self.enemy and actor > 0.99:
                self.enmity()
            else:
                self.user()
            self.look()

    async def come_to_rest(self) -> None:
        """Nobody interferes any more, and time goes on until all jobs are over and forgotten."""
        self.calm = True
        process = self.start()
        for number in range(60):
            if number == 35:
                self.held_for_nobody = self.leftovers()
            for which in HEARD:
                process.picture.catch_up(which)
            await process.arbitrating.rule()
            for job in process.picture.all_jobs():
                await process.migrating.reconcile(job.metadata.name)
            await process.tidy()
            for act in (self.controller, self.scheduler, self.kubelet):
                for _ in range(REPLICAS * 2):
                    act()
            self.clock.advance(20.0)
            self.look()

    def taken_for_vanished(self) -> set[str]:
        """Pods that a job evicted and then took for gone by themselves; not those of several jobs."""
        about = Counter(self.about)
        return {uid for uid in self.server.missed if uid in self.server.evicted and about[uid] == 1}

    def leftovers(self) -> list[str]:
        """Reservations that no pod uses, now that all jobs are over."""
        rooms = self.server.objects[RESERVATIONS]
        return [name for name, room in rooms.items() if not room.get("status", {}).get("currentOwners")]

    async def descheduler(self) -> None:
        number = self.chance.randrange(len(self.processes)) if len(self.processes) > 1 else 0
        try:
            await self.processes[number].work(self.chance)
        except* Killed:
            self.kills += 1
            self.processes[number] = self.start()
        except* ApiError:
            # As the supervisor of a controller does: it is tried again.
            pass

    def enmity(self) -> None:
        """A pod ends by itself, a reservation is deleted, or the clock is set, back or forth."""
        server, kind = self.server, self.chance.random()
        if kind < 0.4 and server.objects[PODS]:
            server.delete(PODS, self.chance.choice(list(server.objects[PODS])))
        elif kind < 0.8 and server.objects[RESERVATIONS]:
            server.delete(RESERVATIONS, self.chance.choice(list(server.objects[RESERVATIONS])))
        else:
            self.clock.ahead_s += self.chance.choice((-120.0, 120.0))

    def user(self) -> None:
        """Asks for a move, or takes it back."""
        jobs = list(self.server.objects[POD_MIGRATION_JOBS])
        if self.chance.random() < 0.2 and jobs:
            self.server.delete(POD_MIGRATION_JOBS, self.chance.choice(jobs))
            return
        pods = list(self.server.objects[PODS].values())
        if pods:
            meta = self.chance.choice(pods)["metadata"]
            mode = self.chance.choice(("ReservationFirst", "ReservationFirst", "EvictDirectly"))
            ref = {"namespace": meta["namespace"], "name": meta["name"]}
            self.made += 1
            self.about.append(meta["uid"])
            body = {"metadata": {"name": f"move-{self.made}"}, "spec": {"podRef": ref, "mode": mode, "ttl": TTL}}
            self.server.create(POD_MIGRATION_JOBS, body)

    def controller(self) -> None:
        """Of the Deployment and of the ReplicaSet: pods that are ending do not count."""
        server = self.server
        alive = {key: pod for key, pod in server.objects[PODS].items() if "deletionTimestamp" not in pod["metadata"]}
        deployment, made = server.objects[DEPLOYMENTS][WEB], server.objects[REPLICA_SETS][WEB]
        wanted, generation = deployment["spec"]["replicas"], deployment["metadata"].get("generation", 1)
        seen = {"replicas": len(alive), "updatedReplicas": len(alive), "observedGeneration": generation}
        if made["spec"]["replicas"] != wanted:
            made = server.put(REPLICA_SETS, WEB, {**made, "spec": {**made["spec"], "replicas": wanted}})
        elif deployment["status"] != seen:
            server.put(DEPLOYMENTS, WEB, {**deployment, "status": seen})
        if len(alive) < wanted:
            self.made += 1
            meta: Plain = {"name": f"web-{self.made}", "namespace": "default", "ownerReferences": [OWNER]}
            meta |= {"annotations": self.said}
            spec = {"schedulerName": "koord-scheduler", "containers": [CONTAINER]}
            server.create(PODS, {"metadata": meta, "spec": spec})
        elif len(alive) > wanted:
            server.delete(PODS, min(alive, key=lambda each: _kept_for(alive[each])))

    def scheduler(self) -> None:
        """One decision, or one write of what was decided before it was killed."""
        server = self.server
        for name, reservation in server.objects[RESERVATIONS].items():
            status = reservation.get("status", {})
            if not status.get("nodeName"):
                if self.chance.random() < 0.1 and not self.calm:
                    server.put(RESERVATIONS, name, {**reservation, "status": {"phase": "Failed"}})
                    return
                out = _not_in(reservation)
                open_to_it = [node for node in NODES if node not in out]
                if not open_to_it:
                    continue
                node = self.chance.choice(open_to_it)
                server.put(RESERVATIONS, name, {**reservation, "status": {"phase": "Available", "nodeName": node}})
                return
            users = [pod for pod in server.objects[PODS].values() if pod["metadata"].get("uses") == name]
            if users and status["phase"] == "Available":
                meta = users[0]["metadata"]
                owner = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
                told = {**status, "phase": "Succeeded", "currentOwners": [owner]}
                server.put(RESERVATIONS, name, {**reservation, "status": told})
                return
        for key, pod in server.objects[PODS].items():
            if not pod["spec"].get("nodeName"):
                free = [
                    each
                    for each in server.objects[RESERVATIONS].values()
                    if each.get("status", {}).get("phase") == "Available"
                ]
                uses = self.chance.choice(free) if free else None
                node = self.chance.choice(NODES) if uses is None else uses["status"]["nodeName"]
                meta = pod["metadata"]
                if uses is not None:
                    name, uid = uses["metadata"]["name"], uses["metadata"]["uid"]
                    said = {RESERVATION_ALLOCATED.key: RESERVATION_ALLOCATED.render(ReservationAllocated(name, uid))}
                    meta = {**meta, "uses": name, "annotations": {**meta["annotations"], **said}}
                server.put(PODS, key, {**pod, "metadata": meta, "spec": {**pod["spec"], "nodeName": node}})
                return

    def kubelet(self) -> None:
        server = self.server
        for key, pod in list(server.objects[PODS].items()):
            if "deletionTimestamp" in pod["metadata"]:
                del server.objects[PODS][key]
                server.version += 1
                return
            if pod["spec"].get("nodeName") and not is_ready(pod):
                ready = {"type": "Ready", "status": "True", "lastTransitionTime": from_seconds(self.clock.now())}
                server.put(PODS, key, {**pod, "status": {"phase": "Running", "conditions": [ready]}})
                return

    def look(self) -> None:
        ready = sum(is_ready(pod) for pod in self.server.objects[PODS].values())
        self.fewest_ready = min(self.fewest_ready, ready)
        moving = sum(
            each.get("status", {}).get("phase") == "Running"
            and f"default/{each['spec']['podRef']['name']}" in self.server.objects[PODS]
            for each in self.server.objects[POD_MIGRATION_JOBS].values()
        )
        self.most_at_once = max(self.most_at_once, moving)


def _cost(pod: Plain) -> int:
    return int(pod["metadata"].get("annotations", {}).get(DELETION_COST, "0"))


def _kept_for(pod: Plain) -> tuple[bool, bool, int, str]:
    """The rank of pods for a ReplicaSet with too many: the lowest goes."""
    is_placed = bool(pod["spec"].get("nodeName"))
    return is_placed, is_ready(pod), _cost(pod), "" if is_placed else pod["metadata"]["name"]


def _not_in(reservation: Plain) -> list[str]:
    spec = reservation["spec"]["template"]["spec"]
    required = (
        spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    )
    terms = required.get("nodeSelectorTerms", ())
    return [name for term in terms for field in term["matchFields"] for name in field["values"]]
