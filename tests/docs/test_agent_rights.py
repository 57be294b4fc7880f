"""The rights in the agent's example: those of the table that installations are made from, and enough for what it finds
about slow pods."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from koord.agent.interference.episode import EpisodeStep, Finding, Step
from koord.agent.live.interfering import Interfering
from koord.agent.qos.decision import Move
from koord.api.kinds import EVENTS, NAMESPACES, NODE_METRICS, NODES, POD_MIGRATION_JOBS, PODS
from koord.kube.clock import SystemClock
from koord.kube.errors import ApiError
from koord.kube.events import EventRecorder
from koord.operate.install.access import split
from koord.operate.install.rights import AGENT
from koord_minicluster.up.bootstrap import bootstrap
from tests.agent import states
from tests.agent.live.test_interfering import episode, owned, replica, report
from tests.docs.test_claims import EXAMPLES, as_the_example_allows
from tests.operate.install.recorded import Refusals
from tests.scheduler.live.embedded import node_manifest, serving
from tests.waiting import eventually

Granted = set[tuple[str, str, str]]


def in_the_example() -> Granted:
    documents = yaml.safe_load_all((EXAMPLES / "agent-rights" / "rbac.yaml").read_text())
    (role,) = [document for document in documents if document["kind"] == "ClusterRole"]
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def in_the_table() -> Granted:
    rights = [right for right in AGENT if right.where == "cluster" and right.only_if != "old_kubelets"]
    return {
        (group, resource, verb)
        for right in rights
        for resource, group in map(split, right.resources)
        for verb in right.verbs
    }


def test_the_example_grants_what_the_table_of_rights_says() -> None:
    assert in_the_example() == in_the_table()


async def test_the_rights_in_the_example_are_enough_for_what_an_agent_finds_about_slow_pods(tmp_path: Path) -> None:
    refusals, clock = Refusals(), SystemClock()
    pods = {"web": owned(states.pod("web", "LS")), "build": states.pod("build", "BE")}
    replicas: dict[str, Any] = {}
    async with serving(tmp_path) as admin:
        await bootstrap(admin)
        await admin.create(NAMESPACES, {"metadata": {"name": "ns"}})
        await admin.create(NODES, node_manifest("n0"))
        await admin.create(PODS, replica("web-0", "n0"))
        await admin.create(NODE_METRICS, {"metadata": {"name": "n0"}})
        async with await as_the_example_allows(admin, "agent-rights", "koord-agent") as client:
            client.observe(refusals)
            with pytest.raises(ApiError):
                await client.delete(PODS, "web-0", namespace="ns")
            refusals.codes.clear()
            await client.patch(NODE_METRICS, "n0", report("web-0", 0.4, clock.now()), subresource="status")
            async with EventRecorder(client, controller="koord-agent") as events:
                interfering = Interfering(client, events, clock, tmp_path / "agent", lambda: pods, replicas, "here")
                answering = asyncio.create_task(interfering.answer())
                interfering.ask(pods["web"])
                held = EpisodeStep(Step.HELD_BACK, clock.monotonic(), "build")
                interfering.tell(Finding(held, episode(clock, held)))
                await interfering.move(Move(pods["web"], "interference", "ns/build slows ns/web down"))

                async def is_told() -> bool:
                    return bool(replicas) and len(await admin.list(EVENTS, namespace="ns")) == 2

                await eventually(is_told)
                answering.cancel()
                with suppress(asyncio.CancelledError):
                    await answering
        assert len(await admin.list(POD_MIGRATION_JOBS)) == 1
    assert replicas["web"] == {"runQueueDelay": (0.4,)}
    assert refusals.codes[403] == 0, refusals.codes
    assert refusals.codes[401] == 0, refusals.codes
