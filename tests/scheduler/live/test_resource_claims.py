"""A pod with resource claims is never bound without them: it stays pending, and people are told why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from koord.api.kinds import PODS
from koord.cli.main import run
from koord.kube.client import Client
from koord.scheduler.core.entity import Where
from tests.scheduler.core.build import Fed, node, pod
from tests.scheduler.live.embedded import make_nodes, pod_manifest, scheduling
from tests.scheduler.live.test_live import condition_of, events_of
from tests.waiting import eventually

CLAIMS: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "one-gpu"}]}
WHY = 'resourceclaim "one-gpu" not found'
EXAMPLE = str(Path(__file__).parents[3] / "examples" / "plan" / "nodes.yaml")


def test_it_stays_pending_with_a_reason_until_its_claim_is_there() -> None:
    fed = Fed()
    fed.put(node("n1"), pod("claiming", **CLAIMS), pod("plain"))
    decision = fed.nowhere()
    assert decision.ask.key == "shop/claiming"
    assert decision.message.startswith(f"0/1 nodes are available: {WHY}")
    assert fed.feed.queue.where("shop/claiming") is Where.UNSCHEDULABLE


def test_a_plan_and_an_explanation_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waiting = {"apiVersion": "v1", "kind": "Pod", **pod_manifest("claiming", **CLAIMS)}
    (tmp_path / "pod.json").write_text(json.dumps(waiting))
    files = ["-f", EXAMPLE, "-f", str(tmp_path / "pod.json")]
    run(["plan", *files, "-o", "json"])
    planned = json.loads(capsys.readouterr().out)["pods"]["default/claiming"]
    assert planned["outcome"] == "unschedulable"
    assert run(["explain", "claiming", *files]) == 0
    assert WHY in capsys.readouterr().out


async def test_a_running_scheduler_says_so_in_the_condition_and_an_event(client: Client) -> None:
    await make_nodes(client, 1)
    async with scheduling(client):
        await client.create(PODS, pod_manifest("claiming", **CLAIMS))

        async def told() -> bool:
            return bool(await events_of(client, "claiming", "FailedScheduling"))

        await eventually(told)
        status, reason, message = await condition_of(client, "claiming")
        assert (status, reason) == ("False", "Unschedulable")
        assert WHY in message
