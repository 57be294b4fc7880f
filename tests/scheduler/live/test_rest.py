"""With no new arrivals the cluster comes to rest, whatever came before, and each pod that waits has a true reason."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.kinds import PODS, PRIORITY_CLASSES
from koord.api.kubernetes.pod import Pod
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists
from koord.scheduler.core.decision import Bind, Decision, Nowhere
from koord.scheduler.core.patience import MESSAGE
from koord.scheduler.core.queue import POOLED_AT_MOST_S, SWEEP_EVERY_S
from tests.scheduler.core.build import Fed, changed, deleting, node, pod
from tests.scheduler.live.embedded import make_nodes, pod_manifest, until_bound
from tests.scheduler.live.witness import Witness, at_rest, following
from tests.waiting import always, eventually

NODES, CPU = 12, 8
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED, HARD = "requiredDuringSchedulingIgnoredDuringExecution", "DoNotSchedule"


class Played:
    """Decisions are carried out at once; victims go, and are made again by their controller where they have one.

    With `grace`, a victim is there until that many more decisions were made; the next one of its kind is made at once.
    """

    def __init__(self, *, owners: bool, grace: int = 0, nodes: int = NODES) -> None:
        self.fed, self.owners, self.grace = Fed(), owners, grace
        self.going: list[tuple[int, str]] = []
        self.fed.put(*(node(f"n{number}", cpu=str(CPU)) for number in range(nodes)))
        self.reasons: dict[str, Nowhere] = {}
        self.preemptions = self.steps = 0
        self.generation = 0

    def play(self, most_steps: int, *, patiently: bool = False) -> None:
        """Until no pod is ready, however long that takes; `patiently`: also for pods that are tried again unasked."""
        idle, moved = 0, int(patiently)
        while idle < 3 or (patiently and moved):
            if idle == 3:
                idle = moved = 0
                self.fed.clock.advance(POOLED_AT_MOST_S + SWEEP_EVERY_S)
            decision = self.fed.step()
            if decision is None:
                idle += 1
                self._end(all_=True)
                self.fed.clock.advance(12)
                continue
            idle = 0
            moved += isinstance(decision, Bind) or (isinstance(decision, Nowhere) and bool(decision.remedy.victims))
            self.steps += 1
            self._end()
            assert self.steps <= most_steps, "it does not come to rest"
            self._carry_out(decision)

    def _carry_out(self, decision: Decision) -> None:
        assert isinstance(decision, Bind | Nowhere), decision
        if isinstance(decision, Bind):
            self.reasons.pop(decision.ask.key, None)
            self.fed.feed.queue.done(decision.attempt)
            self.fed.put(changed(decision.ask.pod, node_name=decision.node))
            return
        self.reasons[decision.ask.key] = decision
        self.preemptions += bool(decision.remedy.victims)
        for key in decision.remedy.victims:
            victim = self.fed.pods.get(key)
            if victim is None:
                continue
            if self.grace and victim.metadata.deletion_timestamp is None:
                self.fed.put(deleting(victim))
                self.going.append((self.steps + self.grace, key))
            elif not self.grace:
                self.fed.delete(victim)
            if self.owners:
                self.fed.put(self._again(victim))

    def _end(self, *, all_: bool = False) -> None:
        """Those go whose time has come."""
        for ends, key in list(self.going):
            if all_ or ends <= self.steps:
                self.going.remove((ends, key))
                victim = self.fed.pods.get(key)
                assert victim is not None
                self.fed.delete(victim)

    def _again(self, victim: Pod) -> Pod:
        self.generation += 1
        name = f"{victim.metadata.name.split('.')[0]}.{self.generation}"
        metadata = replace(victim.metadata, name=name, uid=name)
        return changed(replace(victim, metadata=metadata), node_name="")


@pytest.mark.parametrize("owners", [False, True], ids=["victims gone", "victims made again"])
@pytest.mark.parametrize("order", ["rising", "random", "falling"])
def test_a_flood_with_giants_and_cascades_comes_to_rest(order: str, owners: bool) -> None:
    chance, played = Random(7), Played(owners=owners)
    pods = [
        pod(f"p{number}", cpu=str(chance.choice((1, 2, 3, 5))), priority=chance.randrange(5) * 100)
        for number in range(120)
    ]
    pods += [pod(f"giant{number}", cpu="100", priority=1000) for number in range(5)]
    if order != "random":
        pods.sort(key=lambda pod: pod.spec.priority or 0, reverse=order == "falling")
    for each in pods:
        played.fed.put(each)
        if order != "falling":
            played.play(20_000)
    played.play(20_000)
    fed = played.fed
    # Each more important pod pushes out less important ones, at most once for each level below it.
    assert played.preemptions <= 5 * len(pods)
    if order == "falling":
        assert played.preemptions == 0, "no pod need go for pods that come later and matter less"
    table = fed.feed.cluster.table
    for row in table.row_of.values():
        assert int(table.columns[("requested", "cpu")][row]) <= CPU * 1000
    assert not len(fed.feed.cluster.nominations)
    assert fed.waiting == set(played.reasons), "each who waits was told why"
    fresh = Fed()
    fresh.put(*fed.nodes.records(), *fed.pods.records())
    for _ in fed.waiting:
        found = fresh.nowhere()
        assert found.remedy.node is None
        assert "Insufficient cpu" in found.message
        assert "Insufficient cpu" in played.reasons[found.ask.key].message


def wish(chance: Random) -> dict[str, Any]:
    """What makes a pod picky, besides its size."""
    about = {"labelSelector": {"matchLabels": {"app": "web"}}}
    return chance.choice(
        (
            {},
            {"nodeSelector": {"disk": "ssd"}},
            {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": HOST, **about}]}}},
            {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": ZONE, **about}]}}},
            {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": HARD, **about}]},
            {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}]}]},
        )
    )


@given(st.integers(0, 1 << 32))
@settings(max_examples=15, deadline=None)
def test_whatever_they_ask_for_it_comes_to_rest_with_true_reasons(seed: int) -> None:
    chance = Random(seed)
    played = Played(owners=chance.random() < 0.5, grace=chance.choice((0, 1, 5)), nodes=0)
    for number in range(6):
        labels = {HOST: f"n{number}", ZONE: f"z{number % 3}", "disk": chance.choice(("ssd", "hdd"))}
        taints = [{"key": "gpu", "effect": "NoSchedule"}] if chance.random() < 0.2 else []
        played.fed.put(node(f"n{number}", cpu=str(CPU), labels=labels, taints=taints))
    for number in range(40):
        labels = {"app": chance.choice(("web", "db"))}
        wanted = {"cpu": str(chance.choice((1, 2, 4, 20))), "priority": chance.randrange(4) * 100, **wish(chance)}
        played.fed.put(pod(f"p{number}", metadata={"labels": labels}, **wanted))
        if chance.random() < 0.3:
            played.play(5_000)
    played.play(5_000, patiently=True)
    fed = played.fed
    assert fed.waiting == set(played.reasons), "each who waits was told why"
    assert not len(fed.feed.cluster.nominations)
    fresh = Fed()
    fresh.put(*fed.nodes.records(), *fed.pods.records())
    for _ in fed.waiting:
        found = fresh.nowhere()
        told = played.reasons[found.ask.key]
        assert not found.remedy.victims or MESSAGE in told.message, "no pod could still be made to go"
        assert set(found.placement.rejections) & set(told.placement.rejections), "what it was told is so"


async def test_on_a_server_a_flood_comes_to_rest_and_nothing_more_is_written(client: Client, seen: Witness) -> None:
    await make_nodes(client, 4)
    names = []

    async def put(name: str, cpu: str, priority: str) -> None:
        names.append(name)
        await client.create(PODS, pod_manifest(name, cpu=cpu, priorityClassName=priority))

    for number, name in enumerate(("low", "high", "highest")):
        given = {"metadata": {"name": name}, "value": 1000 * number + 1}
        with suppress(AlreadyExists):
            await client.create(PRIORITY_CLASSES, given)
    async with following(client) as runner:
        for number in range(16):
            await put(f"low{number}", "1", "low")
        await until_bound(client, *names)
        await put("giant", "100", "highest")
        for number in range(10):
            await put(f"high{number}", "1", "high")
        for number in range(6):
            await put(f"highest{number}", "2", "highest")

        await until_bound(client, *(f"highest{number}" for number in range(6)), within_s=40)
        await eventually(lambda: at_rest(client))
        # Who had to go has no controller that makes it again.
        left = {pod.metadata.name for pod in await client.list(PODS)}
        assert "giant" in left
        assert len(left) < len(names)
        await seen.all_is_well(left, runner)
        before = await versions(client)

        async def is_quiet() -> bool:
            return await versions(client) == before

        await always(is_quiet, 2.0)
        giant = await client.get(PODS, "giant", namespace="default")
        pod_condition = giant.status.condition("PodScheduled")
        assert pod_condition is not None
        assert "0/4 nodes are available: 4 Insufficient cpu." in pod_condition.message


async def versions(client: Client) -> dict[str, str]:
    return {pod.metadata.name: pod.metadata.resource_version for pod in await client.list(PODS)}
