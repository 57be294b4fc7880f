"""Pods that come and go while faults happen, by a seed: services, batch pods, own CPUs, GPUs, gangs, reservations.

`STEPS` is the literal table: a feature is one more line. Each acknowledged write of the notes is remembered, and the
cluster must still have it in the end. A write whose answer was lost may have taken place or not.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from koord.api.kinds import CONFIG_MAPS, NAMESPACES, NODES
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists, ApiError, NotFound
from koord_chaos.stories.hardware import gpu, topology

SPACE: Final = "chaos"
ELSEWHERE: Final = "chaos-guests"
COLOCATION: Final = "node.koordinator.sh/colocation-strategy"
MOST_PODS: Final = 50
SHAPE: Final = "2x1x8x2"
"""The CPU topology of a node with 32 CPUs."""
GPUS: Final = 4
SHORT: Final = {"hollow.koord.sh/duration": "20s"}
K: Final = "koordinator.sh"
IMPORTANT: Final = "important"
PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
CORE: Final = "/api/v1/namespaces/chaos/pods"
APPS: Final = "/apis/apps/v1/namespaces/chaos/deployments"
JOBS: Final = "/apis/batch/v1/namespaces/chaos/jobs"
GANGS: Final = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/chaos/podgroups"
QUOTAS: Final = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/chaos/elasticquotas"
RESERVATIONS: Final = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
MIGRATIONS: Final = "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs"
TOPOLOGIES: Final = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies"
DEVICES: Final = "/apis/scheduling.koordinator.sh/v1alpha1/devices"

Json = dict[str, Any]


@dataclass
class Notes:
    """What was written into a ConfigMap: a cluster keeps what it acknowledged."""

    acknowledged: dict[str, int] = field(default_factory=dict)
    unsure: dict[str, set[int]] = field(default_factory=dict)
    "Values whose write may have taken place."

    def lost(self, stored: dict[str, int]) -> list[str]:
        """Violations in words."""
        lost = []
        for name, value in self.acknowledged.items():
            if stored.get(name) not in {value, *self.unsure.get(name, ())}:
                lost.append(f"acknowledged write {name}={value} is lost: the cluster has {stored.get(name)}")
        return lost


class Load:
    def __init__(self, client: Client, seed: int) -> None:
        self.seed = seed
        self._client, self._dice = client, random.Random(f"load/{seed}")
        self._number, self._stopped = 0, False
        self.notes = Notes()
        self.steps = 0
        self.refused = 0

    async def prepare(self) -> None:
        """The namespace, the hardware of nodes, a quota."""
        with suppress(AlreadyExists):
            await self._client.create(NAMESPACES, {"metadata": {"name": SPACE}})
        for node in await self._client.list(NODES):
            name = node.metadata.name
            with suppress(AlreadyExists):
                await self._post(
                    TOPOLOGIES,
                    topology(name, SHAPE, memory="64Gi"),
                    "topology.node.k8s.io/v1alpha1",
                    "NodeResourceTopology",
                )
            with suppress(AlreadyExists):
                await self._post(
                    DEVICES,
                    {"metadata": {"name": name}, "spec": {"devices": [gpu(minor) for minor in range(GPUS)]}},
                    "scheduling.koordinator.sh/v1alpha1",
                    "Device",
                )
        with suppress(AlreadyExists):
            important = {"metadata": {"name": IMPORTANT}, "value": 9900}
            await self._post(PRIORITY_CLASSES, important, "scheduling.k8s.io/v1", "PriorityClass")
        quota = {"metadata": {"name": "team"}, "spec": {"max": {"cpu": "24", "memory": "64Gi"}, "min": {"cpu": "4"}}}
        with suppress(AlreadyExists):
            await self._post(QUOTAS, quota, "scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota")

    async def run(self) -> None:
        """Steps until stopped or cancelled."""
        functions = [step for step, _ in STEPS]
        weights = [weight for _, weight in STEPS]
        while not self._stopped:
            step = self._dice.choices(functions, weights)[0]
            try:
                await step(self)
                self.steps += 1
            except (ApiError, OSError):
                self.refused += 1
            await asyncio.sleep(self._dice.uniform(0.02, 0.4))

    def stop(self) -> None:
        self._stopped = True

    def _next(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}-{self._number}"

    async def _post(self, path: str, manifest: Json, version: str, kind: str) -> None:
        body = {"apiVersion": version, "kind": kind, **manifest}
        await self._client.raw("POST", path, body=msgspec.json.encode(body))

    async def _pods(self) -> list[Json]:
        _, _, body = await self._client.raw("GET", CORE)
        return list(msgspec.json.decode(body)["items"])

    async def _pod(self, name: str, requests: Json, **more: Any) -> None:
        await self._post(CORE, pod(name, requests, **more), "v1", "Pod")

    async def service(self) -> None:
        template = pod("", {"cpu": self._dice.choice(("500m", "1", "2")), "memory": "256Mi"})
        name = self._next("web")
        template["metadata"] = {"labels": {"app": name}}
        spec = {
            "replicas": self._dice.randint(1, 4),
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        }
        if len(await self._pods()) < MOST_PODS:
            await self._post(APPS, {"metadata": {"name": name}, "spec": spec}, "apps/v1", "Deployment")

    async def scale(self) -> None:
        if name := await self._any(APPS):
            patch = {"spec": {"replicas": self._dice.randint(0, 5)}}
            await self._patch(f"{APPS}/{name}", patch)

    async def remove_service(self) -> None:
        if name := await self._any(APPS):
            await self._client.raw("DELETE", f"{APPS}/{name}")

    async def job(self) -> None:
        template = pod("", {"kubernetes.io/batch-cpu": "1000", "kubernetes.io/batch-memory": "256Mi"}, batch=True)
        template["metadata"].pop("name", None)
        template["metadata"]["annotations"] = SHORT
        spec = {"completions": 3, "parallelism": 2, "template": template}
        await self._post(JOBS, {"metadata": {"name": self._next("job")}, "spec": spec}, "batch/v1", "Job")

    async def own_cpus(self) -> None:
        number = self._dice.choice(("1", "2", "4", "7"))
        await self._pod(self._next("own"), {"cpu": number, "memory": "256Mi"}, qos="LSR")

    async def gpus(self) -> None:
        share = self._dice.choice(("25", "50", "100", "200"))
        requests = {f"{K}/gpu-core": share, f"{K}/gpu-memory-ratio": share, "cpu": "1", "memory": "256Mi"}
        await self._pod(self._next("gpu"), requests)

    async def tenant(self) -> None:
        labels = {"quota.scheduling.koordinator.sh/name": "team"}
        cpu = self._dice.choice(("1", "3", "5"))
        await self._pod(self._next("tenant"), {"cpu": cpu, "memory": "256Mi"}, labels=labels)

    async def gang(self) -> None:
        name, members = self._next("gang"), self._dice.randint(2, 4)
        group = {"metadata": {"name": name}, "spec": {"minMember": members, "scheduleTimeoutSeconds": 60}}
        await self._post(GANGS, group, "scheduling.sigs.k8s.io/v1alpha1", "PodGroup")
        labels = {"pod-group.scheduling.sigs.k8s.io": name}
        for number in range(members):
            await self._pod(f"{name}-{number}", {"cpu": "3", "memory": "256Mi"}, labels=labels)

    async def reservation(self) -> None:
        name = self._next("room")
        template = pod(name, {"cpu": "2", "memory": "256Mi"})
        template["metadata"] = {"labels": {"room": name}, "namespace": SPACE}
        owners = [{"labelSelector": {"matchLabels": {"room": name}}}]
        spec = {"template": template, "owners": owners, "ttl": "60s", "allocateOnce": self._dice.random() < 0.5}
        await self._post(
            RESERVATIONS,
            {"metadata": {"name": name}, "spec": spec},
            "scheduling.koordinator.sh/v1alpha1",
            "Reservation",
        )
        await self._pod(f"{name}-owner", {"cpu": "2", "memory": "256Mi"}, labels={"room": name})

    async def important(self) -> None:
        """May preempt."""
        await self._pod(self._next("important"), {"cpu": "9", "memory": "256Mi"}, priority=IMPORTANT, annotations=SHORT)

    async def migrate(self) -> None:
        placed = [pod for pod in await self._pods() if pod["spec"].get("nodeName") and not over(pod)]
        if placed:
            chosen = self._dice.choice(placed)["metadata"]
            reference = {"namespace": SPACE, "name": chosen["name"], "uid": chosen["uid"]}
            job = {"metadata": {"name": self._next("move")}, "spec": {"podRef": reference, "ttl": "60s"}}
            await self._post(MIGRATIONS, job, "scheduling.koordinator.sh/v1alpha1", "PodMigrationJob")

    async def roll_out(self) -> None:
        """Another template of a service: its pods are replaced one after the other."""
        if name := await self._any(APPS):
            self._number += 1
            marked = {"metadata": {"annotations": {"revision": str(self._number)}}}
            await self._patch(f"{APPS}/{name}", {"spec": {"template": marked}})

    async def mid(self) -> None:
        requests = {"kubernetes.io/mid-cpu": "500", "kubernetes.io/mid-memory": "128Mi"}
        await self._pod(self._next("mid"), requests, priority="koord-mid", annotations=SHORT)

    async def resize(self) -> None:
        """A running pod without exclusive CPUs asks for less."""
        running = [
            manifest
            for manifest in await self._pods()
            if manifest["spec"].get("nodeName")
            and not over(manifest)
            and manifest["metadata"]["name"].startswith(("tenant", "important"))
        ]
        if running:
            manifest = self._dice.choice(running)
            containers = [{"name": "main", "resources": {"requests": {"cpu": "500m"}}}]
            await self._client.raw(
                "PATCH",
                f"{CORE}/{manifest['metadata']['name']}/resize",
                body=msgspec.json.encode({"spec": {"containers": containers}}),
                content_type="application/strategic-merge-patch+json",
            )

    async def cordon(self) -> None:
        """A node is closed, and open again a little later."""
        nodes = await self._client.list(NODES)
        if nodes:
            name = self._dice.choice(nodes).metadata.name
            await self._client.patch(NODES, name, {"spec": {"unschedulable": True}})
            await asyncio.sleep(self._dice.uniform(0.5, 3))
            await self._open(name)

    async def _open(self, name: str) -> None:
        """Until the API server takes it, which may have a fault."""
        while True:
            try:
                await self._client.patch(NODES, name, {"spec": {"unschedulable": None}})
            except NotFound:
                return
            except (ApiError, OSError):
                await asyncio.sleep(0.5)
            else:
                return

    async def switch_colocation(self) -> None:
        """Off for one node, or as for all others."""
        nodes = await self._client.list(NODES)
        if nodes:
            name = self._dice.choice(nodes).metadata.name
            said = self._dice.choice((None, json.dumps({"enable": False})))
            await self._client.patch(NODES, name, {"metadata": {"annotations": {COLOCATION: said}}})

    async def other_namespace(self) -> None:
        """A namespace comes with pods, or goes with all that is in it."""
        with suppress(AlreadyExists):
            await self._client.create(NAMESPACES, {"metadata": {"name": ELSEWHERE}})
            for number in range(3):
                await self._post(CORE.replace(SPACE, ELSEWHERE), pod(f"guest-{number}", {"cpu": "500m"}), "v1", "Pod")
            return
        await self._client.delete(NAMESPACES, ELSEWHERE)

    async def quota_changes(self) -> None:
        spec = {"max": {"cpu": self._dice.choice(("8", "24", "48")), "memory": "64Gi"}}
        await self._patch(f"{QUOTAS}/team", {"spec": spec})

    async def remove(self) -> None:
        """Keeps the number of pods in bounds."""
        pods = [pod for pod in await self._pods() if not pod["metadata"].get("deletionTimestamp")]
        finished = [pod for pod in pods if over(pod)]
        spare = [pod for pod in pods if not pod["metadata"].get("ownerReferences")]
        chosen = finished[:5] + self._dice.sample(spare, min(len(spare), 1 + max(0, len(pods) - MOST_PODS)))
        for victim in chosen:
            with suppress(NotFound):
                await self._client.raw("DELETE", f"{CORE}/{victim['metadata']['name']}")

    async def note(self) -> None:
        """A write that must not be lost."""
        name, self._number = f"note-{self._dice.randrange(20)}", self._number + 1
        value, notes = self._number, self.notes
        body = {"metadata": {"name": name, "namespace": SPACE}, "data": {"value": str(value)}}
        try:
            try:
                await self._client.patch(CONFIG_MAPS, name, body, namespace=SPACE)
            except NotFound:
                if name in notes.acknowledged:
                    raise
                await self._client.create(CONFIG_MAPS, body)
        except (ApiError, OSError):
            notes.unsure.setdefault(name, set()).add(value)
            raise
        notes.acknowledged[name] = value
        notes.unsure.pop(name, None)

    async def stored_notes(self) -> dict[str, int]:
        maps = await self._client.list(CONFIG_MAPS, namespace=SPACE)
        return {
            stored.metadata.name: int(stored.data["value"])
            for stored in maps
            if stored.metadata.name.startswith("note-")
        }

    async def _any(self, path: str) -> str:
        _, _, body = await self._client.raw("GET", path)
        things = msgspec.json.decode(body)["items"]
        return str(self._dice.choice(things)["metadata"]["name"]) if things else ""

    async def _patch(self, path: str, patch: Json) -> None:
        await self._client.raw(
            "PATCH", path, body=msgspec.json.encode(patch), content_type="application/merge-patch+json"
        )


Step = Callable[[Load], Awaitable[None]]
STEPS: Final[tuple[tuple[Step, int], ...]] = (
    (Load.service, 2),
    (Load.scale, 4),
    (Load.remove_service, 1),
    (Load.job, 2),
    (Load.own_cpus, 4),
    (Load.gpus, 3),
    (Load.tenant, 3),
    (Load.gang, 2),
    (Load.reservation, 2),
    (Load.important, 1),
    (Load.migrate, 1),
    (Load.roll_out, 1),
    (Load.mid, 2),
    (Load.resize, 1),
    (Load.cordon, 1),
    (Load.switch_colocation, 1),
    (Load.other_namespace, 1),
    (Load.quota_changes, 1),
    (Load.remove, 8),
    (Load.note, 6),
)
"""What happens, and how often."""


def pod(
    name: str,
    requests: Json,
    *,
    qos: str = "",
    batch: bool = False,
    priority: str | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> Json:
    labels = {**(labels or {}), **({f"{K}/qosClass": "BE" if batch else qos} if qos or batch else {})}
    annotations = dict(annotations or {})
    if qos == "LSR":
        annotations[f"scheduling.{K}/resource-spec"] = json.dumps({"preferredCPUBindPolicy": "FullPCPUs"})
    limits = {key: value for key, value in requests.items() if qos == "LSR" or key not in ("cpu", "memory")}
    spec: Json = {
        "schedulerName": "koord-scheduler",
        "terminationGracePeriodSeconds": 0,
        "restartPolicy": "Never" if batch else "Always",
        "containers": [{"name": "main", "image": "app:1", "resources": {"requests": requests, "limits": limits}}],
    }
    if batch:
        spec["priorityClassName"] = "koord-batch"
    elif qos == "LSR":
        spec["priorityClassName"] = "koord-prod"
    elif priority is not None:
        spec["priorityClassName"] = priority
    return {"metadata": {"name": name, "labels": labels, "annotations": annotations}, "spec": spec}


def over(manifest: Json) -> bool:
    return manifest.get("status", {}).get("phase") in ("Succeeded", "Failed")
