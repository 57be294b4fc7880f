"""Jobs on a real API server and on koord's own, whose validation refuses any status that is out of order."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from koord.api.kinds import JOBS, PODS
from koord.api.kubernetes.workloads import Job
from koord.api.workloads.job_pods import TRACKING
from koord.kube.client import Client
from koord.kube.errors import NotFound
from tests.minicluster.controllers.cluster_fixtures import controllers
from tests.minicluster.controllers.conftest import Plane
from tests.waiting import eventually

pytestmark = pytest.mark.kubectl


def job(name: str, exit_code: int = 0, **spec: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "app", "image": "app:1"}], "restartPolicy": "Never"}
    template = {"metadata": {"annotations": {"test/exit": str(exit_code)}}, "spec": pod}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def true_conditions(job: Job) -> set[tuple[str, str]]:
    return {(c.type, c.reason) for c in job.status.conditions if c.status == "True"}


async def finished(client: Client, namespace: str, name: str, within_s: float = 90.0) -> Job:
    async def is_finished() -> bool:
        read = await client.get(JOBS, name, namespace=namespace)
        return bool({"Complete", "Failed"} & {type_ for type_, _ in true_conditions(read)})

    await eventually(is_finished, within_s)
    return await client.get(JOBS, name, namespace=namespace)


async def test_a_job_completes_and_no_pod_keeps_its_finalizer(plane: Plane) -> None:
    namespace = f"job-{uuid.uuid4().hex[:6]}"
    async with controllers(plane, namespace) as client:
        await client.create(JOBS, job("sum", completions=5, parallelism=2), namespace=namespace)
        waited = await asyncio.to_thread(
            plane.kubectl, "-n", namespace, "wait", "--for=condition=complete", "job/sum", "--timeout=60s"
        )
        assert "condition met" in waited.stdout
        done = await client.get(JOBS, "sum", namespace=namespace)
        assert (done.status.succeeded, done.status.failed, done.status.active) == (5, 0, 0)
        assert true_conditions(done) == {
            ("SuccessCriteriaMet", "CompletionsReached"),
            ("Complete", "CompletionsReached"),
        }
        pods = await client.list(PODS, namespace=namespace)
        assert len(pods) == 5
        assert not [pod for pod in pods if TRACKING in pod.metadata.finalizers]


async def test_an_indexed_job_runs_every_index_once(plane: Plane) -> None:
    namespace = f"job-{uuid.uuid4().hex[:6]}"
    async with controllers(plane, namespace) as client:
        indexed = job("rows", completions=4, parallelism=4, completionMode="Indexed")
        await client.create(JOBS, indexed, namespace=namespace)
        done = await finished(client, namespace, "rows")
        assert (done.status.succeeded, done.status.completed_indexes) == (4, "0-3")
        bodies = await client.list(PODS, namespace=namespace)
        found = {p.metadata.annotations["batch.kubernetes.io/job-completion-index"]: p.metadata.name for p in bodies}
        assert sorted(found) == ["0", "1", "2", "3"]
        assert all(name.startswith(f"rows-{index}-") for index, name in found.items())
        raw = await client.get_bytes(PODS, found["2"], namespace=namespace)
        assert b'"hostname":"rows-2"' in raw
        assert b"JOB_COMPLETION_INDEX" in raw


async def test_a_job_fails_beyond_its_backoff_limit(plane: Plane) -> None:
    namespace = f"job-{uuid.uuid4().hex[:6]}"
    async with controllers(plane, namespace) as client:
        await client.create(JOBS, job("bad", 1, backoffLimit=0), namespace=namespace)
        done = await finished(client, namespace, "bad")
        assert done.status.failed == 1
        assert true_conditions(done) == {("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")}


async def test_a_pod_failure_policy_ends_a_job_at_once(plane: Plane) -> None:
    namespace = f"job-{uuid.uuid4().hex[:6]}"
    async with controllers(plane, namespace) as client:
        rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
        await client.create(JOBS, job("bug", 42, podFailurePolicy={"rules": [rule]}), namespace=namespace)
        done = await finished(client, namespace, "bug")
        assert ("Failed", "PodFailurePolicy") in true_conditions(done)


async def test_failed_indexes_fail_a_job_with_a_limit_per_index(plane: Plane) -> None:
    namespace = f"job-{uuid.uuid4().hex[:6]}"
    async with controllers(plane, namespace) as client:
        indexed = job("each", 1, completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=0)
        await client.create(JOBS, indexed, namespace=namespace)
        done = await finished(client, namespace, "each")
        assert done.status.failed_indexes == "0,1"
        assert ("Failed", "FailedIndexes") in true_conditions(done)


async def test_a_deadline_a_suspension_and_a_time_to_live(plane: Plane) -> None:
    namespace = f"job-{uuid.uuid4().hex[:6]}"
    async with controllers(plane, namespace) as client:
        slow = job("slow", activeDeadlineSeconds=1)
        slow["spec"]["template"]["metadata"]["annotations"] = {"test/stuck": ""}
        await client.create(JOBS, slow, namespace=namespace)
        asleep = job("asleep", suspend=True)
        await client.create(JOBS, asleep, namespace=namespace)
        await client.create(JOBS, job("brief", ttlSecondsAfterFinished=0), namespace=namespace)

        async def suspended() -> bool:
            return ("Suspended", "JobSuspended") in true_conditions(
                await client.get(JOBS, "asleep", namespace=namespace)
            )

        await eventually(suspended)
        await client.patch(JOBS, "asleep", {"spec": {"suspend": False}}, namespace=namespace)
        woken = await finished(client, namespace, "asleep")
        assert ("Complete", "CompletionsReached") in true_conditions(woken)
        failed = await finished(client, namespace, "slow")
        assert ("Failed", "DeadlineExceeded") in true_conditions(failed)

        async def leaving() -> bool:
            try:
                return (await client.get(JOBS, "brief", namespace=namespace)).metadata.deletion_timestamp is not None
            except NotFound:
                return True

        await eventually(leaving)
