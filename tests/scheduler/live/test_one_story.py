"""One core, whatever drives it: a live scheduler, `koord plan` and the smallest driver end alike.

Stories have rounds. Between two rounds the scheduler is down while pods come and go and nodes flap; then it starts
again, its answers get lost now and then, and it comes to rest. Each pod has a priority of its own, so that the order of
decisions is the same for all.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import NAMESPACES, NODES, PODS, PRIORITY_CLASSES
from koord.api.text.manifest import parse
from koord.kube.client import Client
from koord.kube.errors import unreachable
from koord.offline.plan import plan
from koord.scheduler.live.run import SchedulerOptions
from koord.scheduler.profiles import profiles_of
from tests.scheduler.live.embedded import node_manifest, pod_manifest, scheduling, serving
from tests.scheduler.tiny_driver import TinyDriver
from tests.waiting import eventually

ZONE = "topology.kubernetes.io/zone"
ROUNDS, PODS_A_ROUND = 4, 6


class Story:
    """What the API server has, as manifests, and what happens to it."""

    def __init__(self, client: Client, chance: Random) -> None:
        self.client, self.chance = client, chance
        self.nodes: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.number = 0

    async def begin(self) -> None:
        self.classes: list[dict[str, Any]] = [
            {"metadata": {"name": f"p{i:03}"}, "value": 1000 - i, "preemptionPolicy": "Never"}
            for i in range(ROUNDS * PODS_A_ROUND)
        ]
        for class_ in self.classes:
            await self.client.create(PRIORITY_CLASSES, class_)
        for i in range(5):
            labels = {ZONE: f"z{i % 2}", "disk": self.chance.choice(("ssd", "hdd"))}
            name = f"n{i}"
            self.nodes[name] = node_manifest(name, cpu=self.chance.choice(("2", "3", "4")), labels=labels)
            await self.client.create(NODES, self.nodes[name])

    async def change(self) -> None:
        """While no scheduler runs."""
        for _ in range(PODS_A_ROUND):
            await self._pod_comes()
        for name in self.chance.sample(sorted(self.pods), len(self.pods) // 4):
            await self.client.delete(PODS, name, namespace="default")
            del self.pods[name]
        flapping = self.chance.choice(sorted(self.nodes))
        await self.client.delete(NODES, flapping)
        await self.client.create(NODES, self.nodes[flapping])

    async def _pod_comes(self) -> None:
        name, chance = f"pod-{self.number:03}", self.chance
        labels, more = {"app": chance.choice(("web", "db"))}, dict[str, Any]()
        if chance.random() < 0.3:
            more["nodeSelector"] = {"disk": "ssd"}
        selector = {"labelSelector": {"matchLabels": labels}}
        if chance.random() < 0.3:
            rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **selector}
            more["topologySpreadConstraints"] = [rule]
        if chance.random() < 0.2:
            term = {"topologyKey": "kubernetes.io/hostname", **selector}
            more["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        priority = self.classes[self.number]["metadata"]["name"]
        cpu = chance.choice(("500m", "1", "2", "9"))
        self.pods[name] = pod_manifest(name, cpu=cpu, labels=labels, priorityClassName=priority, **more)
        await self.client.create(PODS, self.pods[name])
        self.number += 1

    def manifests(self) -> str:
        things = [("Node", self.nodes), ("Pod", self.pods)]
        items: list[dict[str, Any]] = [
            {"apiVersion": "v1", "kind": kind, **m} for kind, all_ in things for m in all_.values()
        ]
        items += [{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **class_} for class_ in self.classes]
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})

    async def told(self) -> tuple[dict[str, str], dict[str, str]]:
        """Where pods are, and why the others wait, as the API server has it."""
        placed, messages = {}, {}
        for pod in await self.client.list(PODS, namespace="default"):
            condition = pod.status.condition("PodScheduled")
            if pod.spec.node_name:
                placed[pod.metadata.name] = pod.spec.node_name
            elif condition is not None:
                messages[pod.metadata.name] = condition.message
        return placed, messages


@pytest.mark.parametrize("seed", range(3))
async def test_live_planned_and_driven_stories_end_alike(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Random(seed)
    real, losses = Client.bind, Random(seed)

    async def bind(self: Client, namespace: str, pod: str, node: str, **more: Any) -> None:
        await real(self, namespace, pod, node, **more)
        if losses.random() < 0.3:
            raise unreachable("the answer was lost", maybe_done=True)

    monkeypatch.setattr(Client, "bind", bind)
    async with serving(tmp_path) as client:
        story = Story(client, chance)
        await story.begin()
        for _ in range(ROUNDS):
            await story.change()
            kinds = (NAMESPACES, NODES, PODS)
            tiny = TinyDriver({kind: await client.list(kind) for kind in kinds}, chance)
            tiny.run()
            # A running scheduler tries pods again that a placement may help: so does the plan.
            planned = plan(parse(story.manifests(), "story"), profiles_of(SHIPPED), now_s=0.0, rounds=3).plan
            before, _ = await story.told()
            placed = {**before, **{key.partition("/")[2]: node for key, node in tiny.placed.items()}}
            messages = {key.partition("/")[2]: text for key, text in tiny.messages.items()}
            assert {key.partition("/")[2]: pod.node for key, pod in planned.pods.items() if pod.node} == placed
            events = {event.object.partition("/")[2]: event.message for event in planned.events}
            assert {name: events[name] for name in messages} == messages

            async def at_rest(placed: dict[str, str] = placed, messages: dict[str, str] = messages) -> bool:
                return await story.told() == (placed, messages)

            async with scheduling(client, options=SchedulerOptions(alone=True)):
                try:
                    await eventually(at_rest)
                except TimeoutError:
                    assert await story.told() == (placed, messages)
            for name, node in placed.items():
                story.pods[name]["spec"]["nodeName"] = node
            await asyncio.sleep(0)
