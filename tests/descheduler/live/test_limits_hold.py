"""Random histories of moves: limits hold at every moment, whatever happens to pods, workloads and the descheduler.

A Deployment, a StatefulSet and a Job in two namespaces. Pods fail, vanish and stop being ready, reservations fail,
workloads are deleted, paused and left with pods missing, jobs are paused, and the descheduler is killed anywhere. The
checker reads only pods, workloads and jobs, and shares no code with the descheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.configuration.descheduler_args import MigrationControllerArgs, ObjectLimiter
from koord.api.kinds import (
    DEPLOYMENTS,
    JOBS,
    POD_MIGRATION_JOBS,
    PODS,
    REPLICA_SETS,
    RESERVATIONS,
    STATEFUL_SETS,
    Kind,
)
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.api.text.timestamp import from_seconds
from koord.kube.errors import ApiError
from tests.descheduler.live.imagined import FrailClient, Killed, Plain, Process, Server
from tests.kube.manual_clock import ManualClock

NODES = ("n1", "n2", "n3")
EVICT = "descheduler.alpha.kubernetes.io/evict"
PASSED = "descheduler.koordinator.sh/passed-arbitration"
OWNERS: dict[str, tuple[str, str, str, Kind[Any]]] = {
    "web": ("apps/v1", "ReplicaSet", "default", DEPLOYMENTS),
    "db": ("apps/v1", "StatefulSet", "default", STATEFUL_SETS),
    "sum": ("batch/v1", "Job", "jobs", JOBS),
}
SIZE = {"web": 5, "db": 4, "sum": 6}


def limit_of(configured: int | str | None, replicas: int) -> int:
    assert not isinstance(configured, str)
    if configured is None:
        configured = replicas // 10 if replicas > 10 else 2 if replicas >= 4 else 1
    return min(configured, replicas)


def is_available(pod: Plain) -> bool:
    ready = [each["status"] for each in pod.get("status", {}).get("conditions", ()) if each["type"] == "Ready"]
    is_running = pod.get("status", {}).get("phase") not in ("Failed", "Succeeded")
    return is_running and "deletionTimestamp" not in pod["metadata"] and ready == ["True"]


class Checker:
    """Looks at what the API server has after every write."""

    def __init__(self, server: Server, args: MigrationControllerArgs) -> None:
        self._server, self._args = server, args
        self._under_way: set[str] = set()
        self._leaving: set[str] = set()
        self._pods: dict[str, Plain] = {}
        "The last state of each job's pod."
        self.let_through = self.left = self.outlived = 0
        "How many jobs were let through, how many pods left, and how often a job counted without its pod."

    def look(self) -> None:
        jobs = self._server.objects[POD_MIGRATION_JOBS]
        pods = self._server.objects[PODS]
        there: set[str] = set()
        for name, job in jobs.items():
            ref = job["spec"]["podRef"]
            pod = pods.get(f"{ref['namespace']}/{ref['name']}")
            if pod is not None and ref.get("uid") in (None, pod["metadata"]["uid"]):
                self._pods[name] = pod
                there.add(name)
        under_way = {name for name, job in jobs.items() if self._counts(job, name in there)}
        for name in under_way - self._under_way:
            self._may_begin(name, under_way - {name})
        leaving = {name for name in under_way if any(c["type"] == "Eviction" for c in _conditions(jobs[name]))}
        for name in leaving - self._leaving:
            self._may_leave(name)
        self.let_through += len(under_way - self._under_way)
        self.left += len(leaving - self._leaving)
        self.outlived += len(under_way - there)
        self._under_way, self._leaving = under_way, leaving

    @staticmethod
    def _counts(job: Plain, is_there: bool) -> bool:
        phase = job.get("status", {}).get("phase", "")
        if phase in ("Succeeded", "Failed"):
            return False
        passed = job["metadata"].get("annotations", {}).get(PASSED) == "true" and "uid" in job["spec"]["podRef"]
        return phase == "Running" or (passed and is_there)

    def _may_begin(self, name: str, others: set[str]) -> None:
        pod = self._pods[name]
        if EVICT in pod["metadata"].get("annotations", {}):
            return
        args, moving = self._args, {self._pods[other]["metadata"]["uid"]: self._pods[other] for other in others}
        moving.pop(pod["metadata"]["uid"], None)
        owner, wanted = self._workload(pod)
        for limit, alike in (
            (args.max_migrating_globally, list(moving.values())),
            (args.max_migrating_per_namespace, [each for each in moving.values() if _space(each) == _space(pod)]),
            (args.max_migrating_per_node, [each for each in moving.values() if _node(each) == _node(pod) != ""]),
        ):
            assert not limit or len(alike) < limit, f"{name} beside {sorted(others)}"
        of_workload = [each for each in moving.values() if _owner(each) == owner]
        assert not of_workload or len(of_workload) < limit_of(args.max_migrating_per_workload, SIZE[owner]), name
        self._is_enough(name, owner, wanted, set(moving))

    def _may_leave(self, name: str) -> None:
        """When a job begins to evict its pod. Pods that only wait to be moved still serve."""
        pod = self._pods[name]
        if EVICT not in pod["metadata"].get("annotations", {}):
            owner, wanted = self._workload(pod)
            self._is_enough(name, owner, wanted, {self._pods[other]["metadata"]["uid"] for other in self._leaving})

    def _is_enough(self, name: str, owner: str, wanted: int, going: set[str]) -> None:
        going = {*going, self._pods[name]["metadata"]["uid"]}
        serving = [each for each in self._server.objects[PODS].values() if _owner(each) == owner and is_available(each)]
        others = [each for each in serving if each["metadata"]["uid"] not in going]
        limit = limit_of(self._args.max_unavailable_per_workload, SIZE[owner])
        assert wanted - len(others) <= limit, f"{name}: of {wanted} only {len(others)} others stay (limit {limit})"

    def _workload(self, pod: Plain) -> tuple[str, int]:
        name = _owner(pod)
        *_, namespace, kind = OWNERS[name]
        found = self._server.objects[kind].get(f"{namespace}/{name}")
        assert found is not None, f"{pod['metadata']['name']}: its workload is gone"
        if kind is not JOBS:
            return name, found["spec"]["replicas"]
        left = found["spec"]["completions"] - found.get("status", {}).get("succeeded", 0)
        return name, min(found["spec"]["parallelism"], left)


def _conditions(job: Plain) -> list[Plain]:
    return list(job.get("status", {}).get("conditions", ()))


def _space(pod: Plain) -> str:
    return str(pod["metadata"]["namespace"])


def _node(pod: Plain) -> str:
    return str(pod["spec"].get("nodeName", ""))


def _owner(pod: Plain) -> str:
    return str(pod["metadata"]["ownerReferences"][0]["name"])


class Watched(Server):
    """The checker looks after every write."""

    look: Callable[[], None] = staticmethod(lambda: None)

    def put(self, kind: Kind[Any], key: str, new: Plain) -> Plain:
        written = super().put(kind, key, new)
        self.look()
        return written


class Unbudgeted(FrailClient):
    """Nobody but the descheduler's own limits keeps pods from being evicted."""

    async def evict(self, namespace: str, name: str, *, uid: str, options: Plain) -> None:
        key = f"{namespace}/{name}"

        def act() -> None:
            self._server.find(PODS, key, uid)
            self._server.delete(PODS, key, uid)

        self._call(act)


class History:
    def __init__(self, seed: int, limits: Mapping[str, Any]) -> None:
        self.chance, self.clock = Random(seed), ManualClock(1_700_000_000.0)
        self.server = Watched(self.clock)
        self.args = MigrationControllerArgs(
            object_limiters={"workload": ObjectLimiter(duration="0s")}, evict_burst=100, **limits
        ).completed()
        self.calm, self.made = True, 0
        for name, (_, _, namespace, kind) in OWNERS.items():
            spec: Plain = {"selector": {}, "template": {}, "replicas": SIZE[name]}
            if kind is JOBS:
                spec = {"parallelism": SIZE[name], "completions": 40, "template": {}}
            self.server.create(kind, {"metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": spec})
        above = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": True}
        meta = {"name": "web", "namespace": "default", "uid": "rs-web", "ownerReferences": [above]}
        self.server.create(REPLICA_SETS, {"metadata": meta, "spec": {"replicas": SIZE["web"]}})
        for _ in range(20):
            self.controllers()
            self.scheduler()
            self.kubelet()
        self.checker = Checker(self.server, self.args)
        self.server.look = self.checker.look
        self.process = self.start()
        self.calm = False

    def start(self) -> Process:
        client = Unbudgeted(self.server, self.fate)
        return Process(self.server, self.clock, self.args, self.fate, client=client, elected=True)

    def fate(self) -> str:
        if self.calm or self.chance.random() > 0.06:
            return ""
        return self.chance.choice(("killed before", "killed after", "lost before", "lost after"))

    async def live(self, steps: int) -> None:
        acts: list[tuple[float, Callable[[], None]]] = [
            (0.06, self.user),
            (0.12, self.controllers),
            (0.12, self.scheduler),
            (0.14, self.kubelet),
            (0.05, self.trouble),
        ]
        for _ in range(steps):
            self.clock.advance(self.chance.choice((0.5, 1.0, 4.0)))
            dice = self.chance.random()
            for share, act in acts:
                if dice < share:
                    act()
                    break
                dice -= share
            else:
                await self.descheduler()
            self.checker.look()

    async def descheduler(self) -> None:
        """Pods and workloads are up to date; writes of others to jobs may not have arrived."""
        picture = self.process.picture
        for which in ("pods", "reservations", "workloads", "nodes"):
            picture.catch_up(which)
        if self.chance.random() < 0.6:
            picture.catch_up("jobs")
        names = [job.metadata.name for job in picture.all_jobs() if not job.is_over]
        try:
            if self.chance.random() < 0.3 or not names:
                await self.process.arbitrating.rule()
            else:
                for name in self.chance.sample(names, min(3, len(names))):
                    await self.process.migrating.reconcile(name)
        except* Killed:
            self.process = self.start()
        except* ApiError:
            pass

    def user(self) -> None:
        pods = list(self.server.objects[PODS].values())
        if not pods:
            return
        meta = self.chance.choice(pods)["metadata"]
        ref = {"namespace": meta["namespace"], "name": meta["name"]}
        if self.chance.random() < 0.5:
            ref["uid"] = meta["uid"]
        self.made += 1
        mode = self.chance.choice(("ReservationFirst", "EvictDirectly"))
        spec = {"podRef": ref, "mode": mode, "ttl": self.chance.choice(("120s", "0s"))}
        self.server.create(POD_MIGRATION_JOBS, {"metadata": {"name": f"move-{self.made}"}, "spec": spec})

    def trouble(self) -> None:
        server, dice = self.server, self.chance.random()
        pods, jobs = list(server.objects[PODS]), list(server.objects[POD_MIGRATION_JOBS])
        rooms = list(server.objects[RESERVATIONS])
        key = self.chance.choice(pods) if pods else ""
        if dice < 0.25 and key:
            self._becomes(key, "Running", "False")
        elif dice < 0.35 and key:
            self._becomes(key, "Failed", "False")
        elif dice < 0.5 and key:
            server.delete(PODS, key)
        elif dice < 0.6 and key:
            server.merge(PODS, key, {"metadata": {"annotations": {EVICT: "true"}}})
        elif dice < 0.75 and jobs:
            paused = self.chance.random() < 0.5
            server.merge(POD_MIGRATION_JOBS, self.chance.choice(jobs), {"spec": {"paused": paused}})
        elif dice < 0.85 and rooms:
            server.merge(RESERVATIONS, self.chance.choice(rooms), {"status": {"phase": "Failed"}})
        elif dice < 0.9 and "default/web" in server.objects[DEPLOYMENTS]:
            server.merge(DEPLOYMENTS, "default/web", {"spec": {"paused": self.chance.random() < 0.5}})
        elif dice > 0.99:
            *_, namespace, kind = OWNERS[name := self.chance.choice(tuple(OWNERS))]
            server.objects[kind].pop(f"{namespace}/{name}", None)

    def controllers(self) -> None:
        for name, (version, kind, namespace, stored) in OWNERS.items():
            workload = self.server.objects[stored].get(f"{namespace}/{name}")
            mine = [each for each in self.server.objects[PODS].values() if _owner(each) == name]
            if workload is None:
                for each in mine:
                    if "deletionTimestamp" not in each["metadata"]:
                        self.server.delete(PODS, f"{namespace}/{each['metadata']['name']}")
                        break
                continue
            if kind == "StatefulSet":
                names = {each["metadata"]["name"]: each for each in mine}
                free = [f"db-{number}" for number in range(SIZE[name]) if f"db-{number}" not in names]
                failed = [name for name in names.values() if name["status"].get("phase") == "Failed"]
                if failed:
                    self.server.delete(PODS, f"{namespace}/{failed[0]['metadata']['name']}")
                new = free[0] if free else ""
            else:
                alive = [each for each in mine if "deletionTimestamp" not in each["metadata"]]
                alive = [each for each in alive if each["status"].get("phase") != "Failed"]
                self.made += 1
                new = f"{name}-{self.made}" if len(alive) < SIZE[name] else ""
            if new:
                uid = "rs-web" if kind == "ReplicaSet" else name
                owner = {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}
                meta = {"name": new, "namespace": namespace, "ownerReferences": [owner]}
                container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
                spec = {"schedulerName": "koord-scheduler", "containers": [container]}
                self.server.create(PODS, {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})

    def scheduler(self) -> None:
        server = self.server
        for name, room in server.objects[RESERVATIONS].items():
            if not room.get("status", {}).get("phase"):
                node, dice = self.chance.choice(NODES), self.chance.random()
                status: Plain = {"phase": "Available", "nodeName": node}
                if dice < 0.1 and not self.calm:
                    status = {"phase": "Failed"}
                elif dice < 0.15 and not self.calm:
                    status = {"phase": "Succeeded"}
                server.put(RESERVATIONS, name, {**room, "status": status})
                return
        for key, pod in server.objects[PODS].items():
            if not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
                rooms = [each for each in server.objects[RESERVATIONS].values() if _is_for(each, pod)]
                node = self.chance.choice(NODES)
                for room in rooms[:1]:
                    meta, node = pod["metadata"], room["status"]["nodeName"]
                    owner = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
                    used = {**room["status"], "phase": "Succeeded", "currentOwners": [owner]}
                    server.put(RESERVATIONS, room["metadata"]["name"], {**room, "status": used})
                server.put(PODS, key, {**pod, "spec": {**pod["spec"], "nodeName": node}})
                return

    def kubelet(self) -> None:
        for key, pod in list(self.server.objects[PODS].items()):
            if self.chance.random() < 0.3:
                continue
            if "deletionTimestamp" in pod["metadata"]:
                del self.server.objects[PODS][key]
                self.server.version += 1
            elif _node(pod) and not is_available(pod) and pod["status"].get("phase") != "Failed":
                self._becomes(key, "Running", "True")

    def _becomes(self, key: str, phase: str, ready: str) -> None:
        at = from_seconds(self.clock.now())
        conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": at}]
        pod = self.server.objects[PODS][key]
        if pod["spec"].get("nodeName"):
            self.server.put(PODS, key, {**pod, "status": {"phase": phase, "conditions": conditions}})


def _is_for(room: Plain, pod: Plain) -> bool:
    owner = room["spec"]["owners"][0]
    available = room.get("status", {}).get("phase") == "Available"
    uid = owner.get("controller", {}).get("uid") or owner.get("object", {}).get("uid")
    return available and uid in (pod["metadata"]["ownerReferences"][0]["uid"], pod["metadata"]["uid"])


LIMITS = st.fixed_dictionaries(
    {
        "max_migrating_globally": st.sampled_from([0, 1, 2, 3]),
        "max_migrating_per_node": st.sampled_from([0, 1, 2]),
        "max_migrating_per_namespace": st.sampled_from([0, 1, 2]),
        "max_migrating_per_workload": st.sampled_from([None, 1, 2, 3]),
        "max_unavailable_per_workload": st.sampled_from([None, 1, 2, 3]),
    }
)


@settings(max_examples=8)
@given(st.integers(0, 2**32 - 1), LIMITS)
async def test_limits_hold_at_every_moment(seed: int, limits: dict[str, Any]) -> None:
    history = History(seed, limits)
    await history.live(150)


async def test_histories_move_pods_and_have_moves_that_outlive_their_pods() -> None:
    """Or the property would say nothing."""
    limits = dict.fromkeys(("max_migrating_globally", "max_migrating_per_node", "max_migrating_per_namespace"), 0)
    history = History(3, {**limits, "max_unavailable_per_workload": 2})
    await history.live(300)
    checker = history.checker
    assert checker.let_through > 10
    assert checker.left > 5
    assert checker.outlived > 20


async def test_a_job_counts_if_the_answer_to_letting_it_through_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer job arrives before that, and would pass first."""
    history = History(1, {"max_migrating_globally": 1, "max_migrating_per_node": 0})
    fates = ["lost after"]
    monkeypatch.setattr(history, "fate", lambda: fates.pop() if fates else "")
    process = history.start()
    jobs: Any = process.picture.jobs
    for key in ("default/web-1", "default/web-3"):
        history.clock.advance(10.0)
        namespace, _, name = key.partition("/")
        spec = {"podRef": {"namespace": namespace, "name": name}}
        made = history.server.create(POD_MIGRATION_JOBS, {"metadata": {"name": f"move-{name}"}, "spec": spec})
        jobs._known[f"move-{name}"] = convert(PodMigrationJob, made)
        await process.arbitrating.rule()
    assert fates == []
    assert history.checker.let_through == 1
