"""What `koord status` finds on a cluster whose parts do not work, asked end to end."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest

from koord.api.kinds import LEASES, NAMESPACES, PODS, PRIORITY_CLASSES
from koord.api.protocol.names import NAMESPACE_KOORDINATOR
from koord.api.text.timestamp import micro_from_seconds
from koord.kube.client import Client
from koord.operate import health
from koord.operate.endpoints import Endpoints
from koord.operate.health import MANAGER_LEASE, Status, judge
from koord.operate.live import break_glass
from koord.operate.live.survey import survey
from koord.operate.live.webhook_probe import CONFIGURATIONS
from koord_minicluster.up.bootstrap import bootstrap
from tests.control_plane import free_port
from tests.scheduler.live.embedded import serving


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with serving(tmp_path) as client:
        await bootstrap(client)
        yield client


async def found(client: Client) -> Status:
    return judge(await survey(client, "", None, None))


def failing(status: Status) -> dict[str, str]:
    return {
        finding.name: " ".join(problem.what for problem in finding.problems)
        for finding in status.findings
        if not finding.ok
    }


async def register(client: Client, policy: Literal["Fail", "Ignore"]) -> None:
    """Webhooks that are registered and do not answer."""
    url = f"https://127.0.0.1:{free_port()}/pods"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    for kind, name in CONFIGURATIONS:
        hook: dict[str, Any] = {
            "name": "a.koordinator.sh",
            "clientConfig": {"url": url},
            "rules": [rule],
            "failurePolicy": policy,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 1,
        }
        await client.create(kind, {"metadata": {"name": name}, "webhooks": [hook]})


async def lease(client: Client, key: str, age_s: float) -> None:
    namespace, _, name = key.partition("/")
    renewed = micro_from_seconds(time.time() - age_s)
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": renewed}
    await client.create(LEASES, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})


async def test_a_cluster_where_nothing_runs_is_not_well(client: Client) -> None:
    told = failing(await found(client))
    assert set(told) == {"namespace", "webhooks", "nodes"}
    assert "components have not announced themselves in it" in told["namespace"]
    assert "not registered" in told["webhooks"]


def test_a_supervisor_that_was_killed_restarts_nothing_though_its_parent_has_not_collected_it(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "1000"]) as supervisor:
        endpoints = Endpoints(supervisor.pid, "1", "", "")
        assert asyncio.run(survey(None, "", tmp_path, endpoints)).up_pid == supervisor.pid
        supervisor.kill()
        os.waitid(os.P_PID, supervisor.pid, os.WEXITED | os.WNOWAIT)
        assert asyncio.run(survey(None, "", tmp_path, endpoints)).up_pid is None


async def test_leases_must_be_fresh(client: Client) -> None:
    await asyncio.gather(lease(client, MANAGER_LEASE, 90), lease(client, "kube-system/kube-scheduler", 90))
    told = failing(await found(client))
    assert "a stopped renewing lease koordinator-system/koordinator-manager 90 s ago" in told["manager"]
    assert "no scheduler runs" in told["schedulers"]


@pytest.mark.parametrize(
    ("policy", "heard"),
    [("Fail", "failed calling webhook"), ("Ignore", "the mutating webhook did not take part")],
)
async def test_webhooks_that_do_not_answer_are_noticed(
    client: Client, policy: Literal["Fail", "Ignore"], heard: str
) -> None:
    await asyncio.gather(lease(client, MANAGER_LEASE, 1), lease(client, "kube-system/kube-scheduler", 1))
    await register(client, policy)
    told = failing(await found(client))
    assert set(told) == {"webhooks", "nodes"}
    assert heard in told["webhooks"]
    assert await client.list(PODS) == [], "what is tried is never stored"
    # If a user took admission off, the survey says so, not that no webhook answers.
    await break_glass.turn(client, "on purpose")
    assert "admission is off by hand since" in failing(await found(client))["webhooks"]


async def test_missing_priority_classes_are_named_with_the_command_that_makes_them(client: Client) -> None:
    await client.delete(PRIORITY_CLASSES, "koord-mid")
    status = await found(client)
    assert failing(status)["priority classes"] == "PriorityClasses are missing: koord-mid"
    assert "kubectl create priorityclass koord-mid --value=7000" in [problem.how for problem in status.problems]


async def test_a_namespace_that_does_not_go_is_named_with_what_holds_it_and_break_glass(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "LEAVES_WITHIN_S", -10.0)
    monkeypatch.setattr(health, "ANNOUNCED_WITHIN_S", 0.0)
    assert "namespace" not in failing(await found(client))
    await client.delete(NAMESPACES, NAMESPACE_KOORDINATOR)
    held = {"type": "NamespaceContentRemaining", "status": "True", "reason": "R", "message": "a finalizer is left"}
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    patch = {"status": {"phase": "Terminating", "conditions": [held | since]}}
    await client.patch(NAMESPACES, NAMESPACE_KOORDINATOR, patch, subresource="status")
    status = await found(client)
    assert "still there: a finalizer is left" in failing(status)["namespace"]
    assert any("koord colocation break-glass on" in problem.how for problem in status.problems)
