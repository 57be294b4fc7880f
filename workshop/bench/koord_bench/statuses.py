"""How far behind the truth are the statuses of quotas and PodGroups while pods come and go, and are they it at rest?

On the embedded API server, with thousands of quotas in five levels: jobs of eight pods come, get nodes, and go. Whoever
watches knows from the pods what each object should say, and since when. An object that says what was true until a
second ago is a second late. At rest, what a new scheduler would say of the same objects is compared with what all say.
"""

from __future__ import annotations

import asyncio
import random
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import ELASTIC_QUOTAS, NODES, POD_GROUPS, PODS, Kind
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import pod_requests
from koord.api.protocol import names
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from koord.api.protocol.crd.pod_group import PodGroup
from koord.kube.client import Client
from koord.kube.informers import Informers
from koord.kube.locate import locate
from koord.kube.store import Delta
from koord.scheduler.core.core import Core
from koord.scheduler.plugins import gang_status
from koord.scheduler.plugins.gangs import Gangs
from koord.scheduler.plugins.quota.quotas import Quotas
from koord.scheduler.plugins.quota.status import said_by, status_of
from koord.scheduler.profiles import profiles_of
from koord_bench.api_load import Target, encode
from koord_bench.api_servers import RunningServer
from koord_bench.bursts import CLIENTS, NAMESPACE, WITHIN_S, make_namespace
from koord_bench.every_plugin import create
from koord_minicluster.up.bootstrap import bootstrap

JOB: Final = 8
LIVES_S: Final = 4.0
"""Of a job."""
LOOK_EVERY_S: Final = 0.1
SETTLES_WITHIN_S: Final = 60.0
Figure: TypeAlias = tuple[str, str]
"""An object, and which of its figures."""


@dataclass(frozen=True, slots=True)
class Lateness:
    quotas: int
    pods: int
    quota_s: float
    "The longest time that a quota said something that was true no more."
    group_s: float
    rest_s: float
    "From the last change until all was said."
    wrong: int
    "Objects that say something else at rest than a new scheduler would."


@dataclass(frozen=True, slots=True)
class Churn:
    seconds: float
    jobs_a_second: float
    lives_s: float
    "Of a job."


@dataclass(slots=True)
class Truth:
    """What was true of one figure of an object, and since when; what the object says."""

    since_s: list[float] = field(default_factory=list)
    was: list[int] = field(default_factory=list)
    says: int | None = None
    says_since_s: float = 0.0

    def becomes(self, now_s: float, value: int) -> None:
        if not self.was or self.was[-1] != value:
            self.since_s.append(now_s)
            self.was.append(value)

    def says_so(self, now_s: float, value: int) -> None:
        if value != self.says:
            self.says, self.says_since_s = value, now_s

    def late_s(self, now_s: float) -> float:
        """How long ago it was that what it says was true. What was never true is what a scheduler knows sooner: it
        counts pods from its decision on, and others hear of them when they are bound."""
        if not self.was or self.says is None or self.was[-1] == self.says:
            return 0.0
        for number in range(len(self.was) - 2, -1, -1):
            if self.was[number] == self.says:
                return now_s - self.since_s[number + 1]
        return now_s - self.says_since_s

    def forget(self, before_s: float) -> None:
        """Drops values that were true so long ago that an object which still has them is at least that late."""
        cut = bisect_right(self.since_s, before_s) - 1
        if cut > 0 and self.says not in self.was[:cut]:
            del self.since_s[:cut], self.was[:cut]


class Onlooker:
    """Hears of everything, and keeps the truth beside what is said."""

    def __init__(self) -> None:
        self.quotas: dict[Figure, Truth] = defaultdict(Truth)
        self.groups: dict[Figure, Truth] = defaultdict(Truth)
        self._pods: dict[str, Pod] = {}
        self._used: dict[str, int] = defaultdict(int)
        self._asked: dict[str, int] = defaultdict(int)
        self._members: dict[str, dict[str, Pod]] = defaultdict(dict)
        self.quota_s = self.group_s = 0.0
        self.changed_s = 0.0

    def pod(self, delta: Delta[Pod]) -> None:
        now_s = time.monotonic()
        self.changed_s = now_s
        for pod, sign in ((self._pods.pop(delta.key, None), -1), (delta.new, +1)):
            if pod is None or pod.is_finished:
                continue
            cpu = sign * pod_requests(pod).get("cpu", 0)
            for name in path(pod.metadata.labels.get(names.LABEL_QUOTA_NAME, "")):
                self._asked[name] += cpu
                self._used[name] += cpu if pod.spec.node_name else 0
        for pod in (delta.old, delta.new):
            if pod is None:
                continue
            for name in path(pod.metadata.labels.get(names.LABEL_QUOTA_NAME, "")):
                self.quotas[name, "used"].becomes(now_s, self._used[name])
                self.quotas[name, "request"].becomes(now_s, self._asked[name])
            group = f"{pod.metadata.namespace}/{pod.metadata.labels.get(names.LABEL_POD_GROUP, '')}"
            members = self._members[group]
            members.pop(delta.key, None)
            if delta.new is not None:
                members[delta.key] = delta.new
            scheduled = sum(1 for member in members.values() if member.spec.node_name)
            running = sum(1 for member in members.values() if member.status.phase == "Running")
            self.groups[group, "scheduled"].becomes(now_s, scheduled)
            self.groups[group, "running"].becomes(now_s, running)
        if delta.new is not None:
            self._pods[delta.key] = delta.new

    def quota(self, delta: Delta[ElasticQuota]) -> None:
        if delta.new is not None:
            said, name = said_by(delta.new), delta.new.metadata.name
            self._said(self.quotas, name, {"used": said.used.get("cpu", 0), "request": said.request.get("cpu", 0)})

    def group(self, delta: Delta[PodGroup]) -> None:
        if delta.new is not None:
            status = delta.new.status
            self._said(self.groups, delta.key, {"scheduled": status.scheduled, "running": status.running})
        else:
            for figure in ("scheduled", "running"):
                self.groups.pop((delta.key, figure), None)

    def _said(self, of: dict[Figure, Truth], name: str, figures: Mapping[str, int]) -> None:
        now_s = time.monotonic()
        for figure, value in figures.items():
            truth = of[name, figure]
            truth.says_so(now_s, value)
            if not truth.was:
                truth.becomes(now_s, 0)

    def late(self) -> list[str]:
        """Objects whose status is not true any more."""
        truths, now_s = [*self.quotas.items(), *self.groups.items()], time.monotonic()
        return [f"{' '.join(key)} {truth.says}" for key, truth in truths if truth.late_s(now_s)]

    def look(self) -> float:
        """How late the latest is, at this moment."""
        now_s = time.monotonic()
        quota_s, group_s = (
            max((truth.late_s(now_s) for truth in truths.values()), default=0.0)
            for truths in (self.quotas, self.groups)
        )
        self.quota_s, self.group_s = max(self.quota_s, quota_s), max(self.group_s, group_s)
        for truth in self.quotas.values():
            truth.forget(now_s - SETTLES_WITHIN_S)
        return max(quota_s, group_s)


async def lateness(
    server: RunningServer, widths: tuple[int, ...], seconds: float, jobs_a_second: float, lives_s: float = LIVES_S
) -> Lateness:
    """Jobs come and go for so long. Nodes and a scheduler are there."""
    target, rng = Target(server.config), random.Random(0)
    async with Client(locate(str(server.kubeconfig))) as client, Informers(client) as informers:
        await bootstrap(client)
        await make_namespace(client)
        made, leaves = [], [""]
        for width in widths:
            leaves = [f"{above}-{i}" if above else f"q{i}" for above in leaves for i in range(width)]
            made += leaves
            await target.spread(CLIENTS, [create(ELASTIC_QUOTAS, _quota(name, len(widths))) for name in leaves], 201)
        onlooker = Onlooker()
        pods = informers.get(PODS)
        pods.add_handler(onlooker.pod)
        quotas = informers.get(ELASTIC_QUOTAS)
        quotas.add_handler(onlooker.quota)
        groups = informers.get(POD_GROUPS)
        groups.add_handler(onlooker.group)
        nodes = informers.get(NODES)
        await informers.synced()
        await _settled(onlooker)
        onlooker.quota_s = onlooker.group_s = 0.0
        number = await _churn(target, onlooker, rng, leaves, Churn(seconds, jobs_a_second, lives_s))
        began_s = onlooker.changed_s
        rest_s = await _settled(onlooker) - began_s
        wrong = -1
        deadline_s = time.monotonic() + SETTLES_WITHIN_S
        while wrong and time.monotonic() < deadline_s:
            await asyncio.sleep(LOOK_EVERY_S)
            now = (informer.list() for informer in (nodes, quotas, groups, pods))
            wrong = sum(1 for _ in mistaken(dict(zip((NODES, ELASTIC_QUOTAS, POD_GROUPS, PODS), now, strict=True))))
        return Lateness(len(made), number, onlooker.quota_s, onlooker.group_s, max(0.0, rest_s), wrong)


async def _churn(target: Target, onlooker: Onlooker, rng: random.Random, leaves: list[str], churn: Churn) -> int:
    """Jobs in random quotas, each deleted after a while; gives the number of pods."""
    number, going, began_s = 0, list[tuple[float, int]](), time.monotonic()
    async with asyncio.timeout(WITHIN_S):
        while (now_s := time.monotonic()) - began_s < churn.seconds or going:
            if now_s - began_s < churn.seconds and number < churn.jobs_a_second * (now_s - began_s):
                await target.spread(1, [create(POD_GROUPS, _group(number))], 201)
                quota = rng.choice(leaves)
                await target.spread(4, [create(PODS, _member(number, i, quota)) for i in range(JOB)], 201)
                going.append((now_s + churn.lives_s, number))
                number += 1
            while going and going[0][0] <= now_s:
                job = going.pop(0)[1]
                await target.spread(4, [_deletion(PODS, f"job-{job}-{i}") for i in range(JOB)], 200)
                await target.spread(1, [_deletion(POD_GROUPS, f"job-{job}")], 200)
            onlooker.look()
            await asyncio.sleep(LOOK_EVERY_S)
    return number * JOB


async def _settled(onlooker: Onlooker) -> float:
    """Waits until no object is late, and gives the time."""
    deadline_s = time.monotonic() + SETTLES_WITHIN_S
    while onlooker.look():
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"not told for {SETTLES_WITHIN_S:g} s: {onlooker.late()[:20]}")
        await asyncio.sleep(LOOK_EVERY_S)
    return time.monotonic()


def mistaken(objects: Mapping[Kind[Any], list[Any]]) -> Iterator[str]:
    """Objects that say something else than a scheduler says that starts with what there is."""
    core = Core(profiles_of(SHIPPED), alone=True)
    for kind, records in objects.items():
        for record in records:
            core.put(kind, record)
    quotas, gangs = core.cluster.notes(Quotas), core.cluster.notes(Gangs)
    for quota in objects[ELASTIC_QUOTAS]:
        key, name = quota.metadata.key, quota.metadata.name
        if status_of(quotas, key, name) != said_by(quota):
            yield f"quota {name}"
    for group in objects[POD_GROUPS]:
        wanted = gang_status.status_of(gangs.all[group.metadata.key], 0.0)
        if wanted is None or replace(wanted, schedule_start_time=group.status.schedule_start_time) != group.status:
            yield f"pod group {group.metadata.key}"


def path(name: str) -> Iterator[str]:
    """A quota and all above it."""
    while name:
        yield name
        name = name.rpartition("-")[0]


def _quota(name: str, levels: int) -> dict[str, Any]:
    parent = name.rpartition("-")[0]
    labels: dict[str, str] = {names.LABEL_QUOTA_IS_PARENT: "true" if name.count("-") < levels - 1 else "false"}
    if parent:
        labels[names.LABEL_QUOTA_PARENT] = parent
    spec = {"min": {"cpu": "1m", "memory": "1Mi"}, "max": {"cpu": "1000", "memory": "1000Gi"}}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def _group(job: int) -> dict[str, Any]:
    return {"metadata": {"name": f"job-{job}"}, "spec": {"minMember": JOB}}


def _member(job: int, i: int, quota: str) -> dict[str, Any]:
    labels: dict[str, str] = {names.LABEL_POD_GROUP: f"job-{job}", names.LABEL_QUOTA_NAME: quota}
    requests = {"cpu": "100m", "memory": "64Mi"}
    spec = {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "app", "image": "app:1", "resources": {"requests": requests}}],
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
    }
    return {"metadata": {"name": f"job-{job}-{i}", "labels": labels}, "spec": spec}


def _deletion(kind: Kind[Any], name: str) -> bytes:
    return encode("DELETE", kind.path(name, namespace=NAMESPACE), b'{"gracePeriodSeconds":0}')
