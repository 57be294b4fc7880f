"""What is found about a slow pod reaches people and the descheduler: evidence, events, a job, `koord explain`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from koord.agent.interference.culprits import Suspect, Suspects
from koord.agent.interference.episode import Episode, EpisodeStep, Finding, Step
from koord.agent.interference.signals import Signal
from koord.agent.live.interfering import Interfering
from koord.agent.pods import AgentPod
from koord.agent.qos.decision import Move
from koord.api.kinds import EVENTS, NAMESPACES, NODE_METRICS, POD_MIGRATION_JOBS, PODS
from koord.api.kubernetes.meta import OwnerReference
from koord.api.text.timestamp import from_seconds
from koord.cli.agent import agent
from koord.kube.clock import SystemClock
from koord.kube.events import EventRecorder
from koord.offline.slowdowns import slowdowns_of
from koord_minicluster.up.bootstrap import bootstrap
from tests.agent import states
from tests.scheduler.live.embedded import serving
from tests.waiting import eventually, turns

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs-1", "controller": True}


def replica(name: str, node: str) -> dict[str, Any]:
    metadata = {"namespace": "ns", "name": name, "labels": {"app": "web"}, "ownerReferences": [OWNER]}
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": [{"name": "main", "image": "web"}]}}


def report(pod: str, delay: float, at_s: float) -> dict[str, Any]:
    pods = [{"namespace": "ns", "name": pod, "extensions": {"signals": {"runQueueDelay": delay}}}]
    return {"status": {"updateTime": from_seconds(at_s), "podsMetric": pods}}


def episode(clock: SystemClock, *steps: EpisodeStep) -> Episode:
    suspects = Suspects((Suspect("build", 0.9, None, 5.0, 0.9, 1900.0),))
    return Episode(
        "web", Signal.RUN_QUEUE_DELAY, clock.monotonic() - 60, 0.5, 4.5, 4.5, "main", suspects, steps
    )  # fmt: skip


def owned(pod: AgentPod) -> AgentPod:
    from msgspec.structs import replace as changed

    owner = OwnerReference("apps/v1", "ReplicaSet", "web", "rs-1", controller=True)
    return replace(pod, meta=changed(pod.meta, labels={"app": "web"}, owner_references=(owner,)))


async def test_a_slow_pod_is_told_of_compared_and_asked_to_be_moved(tmp_path: Path) -> None:
    clock = SystemClock()
    pods = {"web": owned(states.pod("web", "LS")), "build": states.pod("build", "BE")}
    replicas: dict[str, Any] = {}
    async with serving(tmp_path) as client:
        await bootstrap(client)
        await client.create(NAMESPACES, {"metadata": {"name": "ns"}})
        # The third runs on the same node, and the fourth on one whose agent stopped an hour ago.
        for number, (node, delay, ago_s) in enumerate(
            (("n0", 0.4, 20), ("n1", 0.6, 20), ("here", 5.0, 20), ("n3", 9.0, 3600))
        ):
            told_of = report(f"web-{number}", delay, clock.now() - ago_s)
            await client.create(PODS, replica(f"web-{number}", node))
            await client.create(NODE_METRICS, {"metadata": {"name": node}})
            await client.patch(NODE_METRICS, node, told_of, subresource="status")
        async with EventRecorder(client, controller="koord-agent") as events:
            told = Interfering(client, events, clock, tmp_path / "agent", lambda: pods, replicas, "here")
            answering = asyncio.create_task(told.answer())
            told.ask(pods["web"])
            now_s = clock.monotonic()
            first = EpisodeStep(Step.SLOWED, now_s)
            second = EpisodeStep(Step.HELD_BACK, now_s + 1, "build")
            told.tell(Finding(first, episode(clock, first)))
            await turns()
            told.tell(Finding(second, episode(clock, first, second)))
            await told.move(Move(pods["web"], "interference", "ns/build slows ns/web down"))
            await eventually(lambda: replicas)
            answering.cancel()
            with suppress(asyncio.CancelledError):
                await answering
        assert sorted(replicas["web"]["runQueueDelay"]) == [0.4, 0.6]
        (job,) = await client.list(POD_MIGRATION_JOBS)
        assert (job.spec.pod_ref.name, job.spec.pod_ref.uid) == ("web", "web")
        found = await client.list(EVENTS, namespace="ns")
    assert {(each.regarding.name, each.reason) for each in found} == {("web", "PodSlowed"), ("build", "NoisyPod")}
    (of_web,) = slowdowns_of("ns/web", found)
    assert "build used more CPU meanwhile" in of_web
    assert "held back at" in of_web
    assert slowdowns_of("ns/build", found) == (of_web,)
    said = CliRunner().invoke(agent, ["--state-dir", str(tmp_path / "agent"), "evidence", "ns/build"])
    assert said.exit_code == 0, said.output
    assert of_web in said.output
    assert "ns/build 0.90" in said.output
