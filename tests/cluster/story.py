"""The story of an installation, told on any cluster: what users were promised, step by step, on modelled nodes.

Each step does something, lets a test interfere (`middle`), and waits until what was promised holds. It holds
whatever is killed in the meantime. At the end `Pods` says whether something was done twice.
"""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from koord.api.kinds import (
    CLUSTER_COLOCATION_PROFILES,
    DEPLOYMENTS,
    DEVICES,
    ELASTIC_QUOTAS,
    JOBS,
    NAMESPACES,
    NODE_METRICS,
    NODES,
    POD_MIGRATION_JOBS,
    PODS,
    RESERVATIONS,
    Kind,
)
from koord.api.kubernetes.heartbeat import conditions
from koord.api.kubernetes.pod import Pod
from koord.api.protocol import names
from koord.api.text.quantity import milli
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists, ApiError, NotFound
from koord.kube.informers import Informers
from koord.kube.program import own_program
from koord.kube.store import Delta
from tests.crowd import crowd
from tests.scheduler.live.embedded import node_manifest
from tests.waiting import eventually

log = logging.getLogger(__name__)

Json = dict[str, Any]
Middle = Callable[[str], Awaitable[None]]
"""Called in the middle of a step, with its name."""

WITHIN_S = 60.0
SPACE = "story"
TENANT = "tenant"
LIMITED = "limited"
EDGE = "edge"
"""The node with a real agent."""
WORK, OVEN = ("hollow-0001", "hollow-0002"), ("hollow-0003", "hollow-0004")
NODE_CPU = 16
POOL = "story.test/pool"
HOT_PERCENT, COOL_PERCENT = 75, 70

SEED = "2338"
"""One with which all four nodes report within their first second."""
LOAD = """time_s,target,cpu,memory
0,node:hollow-0001,500m,2Gi
0,node:hollow-0002,500m,2Gi
0,node:hollow-0003,500m,2Gi
0,node:hollow-0004,500m,2Gi
0,app:story/oven,350%,100%
"""
"""Four pods of the oven use 14 of a node's 16 cores, and three of them 10.5: one has to leave."""

DESCHEDULER_CONFIG = f"""
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
deschedulingInterval: 2s
profiles:
- name: koord-descheduler
  plugins: {{balance: {{enabled: [{{name: LowNodeLoad}}]}}}}
  pluginConfig:
  - name: LowNodeLoad
    args:
      lowThresholds: {{cpu: {COOL_PERCENT}, memory: 80}}
      highThresholds: {{cpu: {HOT_PERCENT}, memory: 90}}
      anomalyCondition: {{timeout: 1m, consecutiveAbnormalities: 2, consecutiveNormalities: 1}}
  - name: MigrationController
    args: {{objectLimiters: {{workload: {{duration: 10s}}}}, defaultJobTTL: 2m}}
"""
COLOCATION = {"metricReportIntervalSeconds": 1, "metricAggregateDurationSeconds": 5}


@dataclass
class Pods:
    """Every pod that there was, as a watch showed it."""

    nodes: dict[str, set[str]] = field(default_factory=dict)
    "By uid, the nodes that it was bound to."
    last: dict[str, Pod] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def hear(self, delta: Delta[Pod]) -> None:
        pod = delta.new or delta.old
        assert pod is not None
        uid = pod.metadata.uid
        self.last[uid] = pod
        if pod.spec.node_name:
            self.nodes.setdefault(uid, set()).add(pod.spec.node_name)
        if delta.new is None:
            self.gone.add(uid)

    def nothing_was_bound_twice(self) -> None:
        assert {uid: nodes for uid, nodes in self.nodes.items() if len(nodes) > 1} == {}


@dataclass
class Story:
    admin: Client
    kubeconfig: Path
    pods: Pods
    middle: Middle

    # What everybody needs.

    def koord(self, *args: str) -> str:
        """A command of koord as an administrator runs it; what it printed."""
        done = subprocess.run(
            [*own_program(), *args, "--kubeconfig", str(self.kubeconfig)],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, f"koord {' '.join(args)}: {done.stderr}"
        return done.stdout

    async def create(self, kind: Kind[Any], body: Json) -> None:
        """As a controller creates things: an admission that does not answer is asked again."""

        async def created() -> bool:
            try:
                await self.admin.create(kind, body)
            except AlreadyExists:
                return True
            except ApiError as error:
                if error.code < 500:
                    raise
                return False
            return True

        await eventually(created, WITHIN_S)

    async def until(self, what: str, holds: Callable[[], Awaitable[bool]]) -> None:
        await eventually(holds, WITHIN_S, what=what)

    async def of(self, namespace: str, app: str) -> list[Pod]:
        return await self.admin.list(PODS, namespace=namespace, labels=f"app={app}")

    async def bound(self, namespace: str, app: str) -> list[Pod]:
        return [pod for pod in await self.of(namespace, app) if pod.spec.node_name]

    async def until_bound(self, namespace: str, app: str, number: int) -> list[Pod]:
        pods: list[Pod] = []

        async def holds() -> bool:
            pods[:] = await self.bound(namespace, app)
            return len(pods) == number

        await self.until(f"{number} pods of {app} have a node", holds)
        return pods

    async def lent(self, node: str) -> int:
        """Milli-cores of batch-cpu that a node lends; 0 if none."""
        return int((await self.admin.get(NODES, node)).status.allocatable.get(names.RESOURCE_BATCH_CPU, 0))

    # The story.

    async def told(self) -> None:
        for step in (
            self.nodes_lend,
            self.batch_pods_are_made_by_a_profile_and_placed_on_what_is_lent,
            self.a_gang_is_placed_whole_or_not_at_all,
            self.a_quota_is_respected,
            self.a_reservation_is_used_by_its_owner,
            self.cpus_and_gpus_are_written_on_pods,
            self.pods_that_come_and_go_leave_no_gap_in_what_is_lent,
            self.a_hot_node_is_cooled_down,
            self.the_switch_takes_all_of_it_back,
        ):
            began_s = time.monotonic()
            await step()
            log.info("%s: %.1f s", step.__name__, time.monotonic() - began_s)
        self.pods.nothing_was_bound_twice()

    async def nodes_lend(self) -> None:
        self.koord("colocation", "on")
        await self.middle("lending")
        for node in (*WORK, *OVEN, EDGE):
            await self.until(f"{node} lends", lambda node=node: self._lends(node))  # type: ignore[misc]

    async def _lends(self, node: str) -> bool:
        return await self.lent(node) > 0

    async def batch_pods_are_made_by_a_profile_and_placed_on_what_is_lent(self) -> None:
        profile = {
            "namespaceSelector": {"matchLabels": {POOL: TENANT}},
            "qosClass": "BE",
            "priorityClassName": "koord-batch",
            "schedulerName": names.SCHEDULER_KOORD,
        }
        await self.create(CLUSTER_COLOCATION_PROFILES, {"metadata": {"name": "story"}, "spec": profile})
        await self.create(NAMESPACES, {"metadata": {"name": TENANT, "labels": {POOL: TENANT}}})
        await self.until("the webhooks know the profile", self._profile_is_known)
        template = pod_template("encode", "1", pool="work")
        template["spec"]["restartPolicy"] = "Never"
        job = {"parallelism": 4, "completions": 4, "backoffLimit": 100, "template": template}
        await self.create(JOBS, {"metadata": {"name": "encode", "namespace": TENANT}, "spec": job})
        await self.middle("batch")
        for pod in await self.until_bound(TENANT, "encode", 4):
            (container,) = pod.spec.containers
            assert pod.metadata.labels[names.LABEL_QOS_CLASS] == "BE"
            assert pod.spec.priority_class_name == "koord-batch"
            assert container.resources.requests[names.RESOURCE_BATCH_CPU] == "1k"
            assert "cpu" not in container.resources.requests
            assert pod.spec.node_name in WORK
        await self.until("all batch pods run", lambda: self._run(TENANT, "encode", 4))

    async def _profile_is_known(self) -> bool:
        """Replicas receive a profile one after the other; before, they admit pods unchanged."""
        tries = pod_template("probe", "1", pool="work")
        for _ in range(4):
            body = {"metadata": {"name": "probe", "namespace": TENANT}, "spec": tries["spec"]}
            try:
                made = await self.admin.create(PODS, body, dry_run=True)
            except ApiError:
                return False
            if made.metadata.labels.get(names.LABEL_QOS_CLASS) != "BE":
                return False
        return True

    async def _run(self, namespace: str, app: str, number: int) -> bool:
        return sum(pod.status.phase == "Running" for pod in await self.of(namespace, app)) == number

    async def a_gang_is_placed_whole_or_not_at_all(self) -> None:
        # Four members of the large one would fit.
        await self._gang("large", 5, "7")
        await self._gang("small", 3, "1")
        await self.middle("gang")
        await self.until_bound(SPACE, "small", 3)
        waiting = await self.of(SPACE, "large")
        assert [pod.spec.node_name for pod in waiting] == [""] * 5
        await self.admin.delete_collection(PODS, namespace=SPACE, labels="app=large", grace_s=0)

    async def _gang(self, name: str, members: int, cpu: str) -> None:
        annotations: dict[str, str] = {
            names.ANNOTATION_GANG_NAME: name,
            names.ANNOTATION_GANG_MIN_AVAILABLE: str(members),
        }
        for number in range(members):
            await self.create(PODS, pod(name, cpu, f"{name}-{number}", pool="work", annotations=annotations))

    async def a_quota_is_respected(self) -> None:
        amounts = {"min": {"cpu": "2", "memory": "4Gi"}, "max": {"cpu": "2", "memory": "4Gi"}}
        await self.create(NAMESPACES, {"metadata": {"name": LIMITED}})
        await self.create(ELASTIC_QUOTAS, {"metadata": {"name": LIMITED, "namespace": LIMITED}, "spec": amounts})
        for number in range(3):
            await self.create(PODS, pod("team", "1", f"team-{number}", pool="work", namespace=LIMITED))
        await self.middle("quota")
        await self.until_bound(LIMITED, "team", 2)
        await self.until("the third has an event about its quota", self._third_is_told)
        assert len(await self.bound(LIMITED, "team")) == 2

    async def _third_is_told(self) -> bool:
        waiting = [pod for pod in await self.of(LIMITED, "team") if not pod.spec.node_name]
        said = [
            condition.message
            for pod in waiting
            for condition in pod.status.conditions
            if condition.type == "PodScheduled"
        ]
        return len(said) == 1 and LIMITED in said[0]

    async def a_reservation_is_used_by_its_owner(self) -> None:
        template = pod_template("room", "3", pool="work")
        owners = [{"labelSelector": {"matchLabels": {"app": "guest"}}}]
        spec = {"owners": owners, "template": template, "ttl": "1h"}
        await self.create(RESERVATIONS, {"metadata": {"name": "room"}, "spec": spec})
        await self.middle("reservation")
        await self.until("the reservation has a place", lambda: self._is_available("room"))
        # News of the pod may reach the scheduler before that news. Once it has placed a later one, it has that of room.
        later = pod_template("later", "1m", pool="work")
        await self.create(RESERVATIONS, {"metadata": {"name": "later"}, "spec": spec | {"template": later}})
        await self.until("a later reservation has a place", lambda: self._is_available("later"))
        await self.admin.delete(RESERVATIONS, "later")
        await self.create(PODS, pod("guest", "3", "guest", pool="work"))
        (guest,) = await self.until_bound(SPACE, "guest", 1)
        room = await self.admin.get(RESERVATIONS, "room")
        assert guest.spec.node_name == room.status.node_name
        allocated = json.loads(guest.metadata.annotations[names.ANNOTATION_RESERVATION_ALLOCATED])
        assert allocated["name"] == "room"

    async def _is_available(self, name: str) -> bool:
        return (await self.admin.get(RESERVATIONS, name)).status.phase in ("Available", "Succeeded")

    async def cpus_and_gpus_are_written_on_pods(self) -> None:
        """The CPUs are those that a real agent reports; the GPUs are reported by hand, as an agent would."""
        gpu = {
            "type": "gpu",
            "minor": 0,
            "id": "GPU-0",
            "health": True,
            "resources": {
                names.RESOURCE_GPU_CORE: "100",
                names.RESOURCE_GPU_MEMORY_RATIO: "100",
                names.RESOURCE_GPU_MEMORY: "80Gi",
            },
        }
        await self.create(DEVICES, {"metadata": {"name": WORK[1]}, "spec": {"devices": [gpu]}})
        own = pod("pinned", "2", "pinned", node=EDGE)
        own["metadata"]["labels"][names.LABEL_QOS_CLASS] = "LSR"
        own["metadata"]["annotations"] = {names.ANNOTATION_RESOURCE_SPEC: '{"preferredCPUBindPolicy":"FullPCPUs"}'}
        await self.create(PODS, own)
        half = pod("model", "1", "model")
        for amounts in half["spec"]["containers"][0]["resources"].values():
            amounts[names.RESOURCE_GPU] = "50"
        await self.create(PODS, half)
        await self.middle("devices")
        (pinned,) = await self.until_bound(SPACE, "pinned", 1)
        status = json.loads(pinned.metadata.annotations[names.ANNOTATION_RESOURCE_STATUS])
        assert status["cpuset"], status
        (model,) = await self.until_bound(SPACE, "model", 1)
        devices = json.loads(model.metadata.annotations[names.ANNOTATION_DEVICE_ALLOCATED])
        assert [each["minor"] for each in devices["gpu"]] == [0]
        assert model.spec.node_name == WORK[1]

    async def pods_that_come_and_go_leave_no_gap_in_what_is_lent(self) -> None:
        """Four waves of pods of 2 cores together. A wave may count for as long as reports speak of it, beside the next
        one; but waves do not add up. A change of less than a tenth is not published."""
        node, wave_milli = OVEN[1], 8 * 250
        before = await self.lent(node)
        tenth, least = before // 10, before
        for number in range(4):
            for member in range(8):
                each = pod("churn", "250m", f"churn-{number}-{member}", node=node)
                each["metadata"]["annotations"] = {"hollow.koord.sh/duration": "1s"}
                await self.create(PODS, each)
            if number == 1:
                await self.middle("churn")

            async def wave_is_over() -> bool:
                nonlocal least
                least = min(least, await self.lent(node))
                return all(pod.status.phase == "Succeeded" for pod in await self.of(SPACE, "churn"))

            await self.until(f"wave {number} is over", wave_is_over)
            await self.admin.delete_collection(PODS, namespace=SPACE, labels="app=churn", grace_s=0)
        assert least >= before - 2 * wave_milli - tenth, (before, least)

        async def is_back() -> bool:
            return await self.lent(node) >= before - tenth

        await self.until("the node lends as before", is_back)

    async def a_hot_node_is_cooled_down(self) -> None:
        hot = OVEN[0]
        spec = {
            "replicas": 4,
            "selector": {"matchLabels": {"app": "oven"}},
            "template": pod_template("oven", "1", pool="oven", limit="4"),
        }
        # At first one node of the pool is open.
        await self.admin.patch(NODES, OVEN[1], {"spec": {"unschedulable": True}})
        await self.create(DEPLOYMENTS, {"metadata": {"name": "oven", "namespace": SPACE}, "spec": spec})
        first = await self.until_bound(SPACE, "oven", 4)
        assert {pod.spec.node_name for pod in first} == {hot}
        await self.until(f"{hot} is hot", lambda: self._is_hotter(hot, HOT_PERCENT))
        await self.admin.patch(NODES, OVEN[1], {"spec": {"unschedulable": None}})
        await self.middle("hot node")

        async def is_cool() -> bool:
            there = await self.bound(SPACE, "oven")
            elsewhere = [pod for pod in there if pod.spec.node_name != hot]
            return len(there) == 4 and bool(elsewhere) and not await self._is_hotter(hot, HOT_PERCENT)

        await self.until(f"{hot} has cooled down", is_cool)
        jobs = await self.admin.list(POD_MIGRATION_JOBS)
        lost = {pod.metadata.uid for pod in first if pod.metadata.uid in self.pods.gone}
        assert lost, "a pod was moved"
        assert lost <= {job.spec.pod_ref.uid for job in jobs}, "no other pod went"
        # One that failed, since a place was taken in the meantime, is followed by another one.
        moved = Counter(job.spec.pod_ref.uid for job in jobs if job.status.phase == "Succeeded")
        assert {uid: times for uid, times in moved.items() if times > 1} == {}

    async def _is_hotter(self, node: str, percent: float) -> bool:
        status = (await self.admin.get(NODE_METRICS, node)).status
        usage = status.node_metric.node_usage.resources if status.node_metric else {}
        return milli(usage.get("cpu", "0")) > percent / 100 * NODE_CPU * 1000

    async def the_switch_takes_all_of_it_back(self) -> None:
        evicted = {pod.metadata.uid for pod in await self.bound(TENANT, "encode")}
        assert len(evicted) == 4
        await self.middle("switch")
        answer = json.loads(await asyncio.to_thread(self.koord, "colocation", "off", "--evict", "--yes", "-o", "json"))
        assert len(answer["evicted"]) == 4

        async def all_gone() -> bool:
            return evicted <= self.pods.gone

        await self.until("batch pods are gone", all_gone)
        for node in (*WORK, *OVEN, EDGE):
            await self.until(f"{node} lends nothing", lambda node=node: self._lends_nothing(node))  # type: ignore[misc]
        # The job makes new ones, which wait.
        assert await self.bound(TENANT, "encode") == []

    async def _lends_nothing(self, node: str) -> bool:
        return await self.lent(node) == 0


def pod_template(app: str, cpu: str, *, pool: str = "", node: str = "", limit: str = "") -> Json:
    amounts = {"cpu": cpu, "memory": "256Mi"}
    limits = {**amounts, "cpu": limit or cpu}
    selector = {POOL: pool} if pool else {"kubernetes.io/hostname": node} if node else {}
    spec = {
        "schedulerName": names.SCHEDULER_KOORD,
        "priorityClassName": "koord-prod",
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": selector,
        "containers": [{"name": app, "image": f"{app}:1", "resources": {"requests": amounts, "limits": limits}}],
    }
    return {"metadata": {"labels": {"app": app}}, "spec": spec}


def pod(
    app: str,
    cpu: str,
    name: str,
    *,
    pool: str = "",
    node: str = "",
    namespace: str = SPACE,
    annotations: Mapping[str, str] | None = None,
) -> Json:
    made = pod_template(app, cpu, pool=pool, node=node)
    made["metadata"] |= {"name": name, "namespace": namespace, "annotations": dict(annotations or {})}
    made["spec"]["restartPolicy"] = "Never"
    return made


@asynccontextmanager
async def heard(admin: Client) -> AsyncIterator[Pods]:
    """What becomes of pods, for a block."""
    pods = Pods()
    async with Informers(admin) as informers:
        informers.get(PODS).add_handler(pods.hear)
        await informers.synced()
        yield pods


@asynccontextmanager
async def nodes(admin: Client, kubeconfig: Path, folder: Path) -> AsyncIterator[None]:
    """Four modelled nodes in two pools, and the one that has a real agent, whose heart beats here."""
    load = folder / "load.csv"
    load.write_text(LOAD)
    size = ("--nodes", "4", "--node-cpu", str(NODE_CPU), "--node-memory", "64Gi", "--load", str(load), "--seed", SEED)
    fleet = _started(folder / "hollow.log", "hollow", *size, "--kubeconfig", str(kubeconfig))
    beating = asyncio.create_task(_beat(admin))
    try:
        async with asyncio.timeout(WITHIN_S * crowd()):
            for pool, members in (("work", WORK), ("oven", OVEN)):
                for name in members:
                    await _label(admin, name, {POOL: pool})
        yield
    finally:
        fleet.kill()
        fleet.wait(timeout=60)
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


def _started(log: Path, *args: str) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        return subprocess.Popen([*own_program(), *args], stdout=out, stderr=out)


async def _label(admin: Client, node: str, labels: Mapping[str, str]) -> None:
    await eventually(lambda: admin.patch(NODES, node, {"metadata": {"labels": dict(labels)}}), retry_on=NotFound)


async def _beat(admin: Client) -> None:
    """As a kubelet says that its node is there."""
    with suppress(AlreadyExists):
        await admin.create(NODES, node_manifest(EDGE, cpu="8", memory="16Gi"))
    while True:
        with suppress(ApiError):
            node = await admin.get(NODES, EDGE)
            status = {"status": {"conditions": conditions(node, time.time())}}
            await admin.patch(NODES, EDGE, status, subresource="status", type="strategic")
        await asyncio.sleep(5)
