"""This machine as a node: real processes in real cgroups, by way of an API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from koord.api.kinds import CONFIG_MAPS, NODES, PODS
from koord.api.kubernetes.words import PodPhase
from koord.api.machinery.faults import BadInput
from koord.kube.client import Client
from koord_minicluster.local.live.run import LocalOptions, run
from tests.minicluster.local.running import (
    NAME,
    ROOT,
    container_id_of,
    event_of,
    gone,
    is_running,
    is_there,
    log_of,
    pod,
    text,
    until_log,
    until_pod,
)
from tests.waiting import always, eventually

pytestmark = pytest.mark.root


async def test_the_node_is_as_large_as_it_was_told(client: Client) -> None:
    node = await client.get(NODES, NAME)
    assert node.status.allocatable["cpu"] == "500m"
    assert node.status.allocatable["memory"] == "256Mi"


async def test_a_pod_runs_in_its_cgroup_with_its_environment_and_its_log(client: Client) -> None:
    await client.create(CONFIG_MAPS, {"metadata": {"name": "words", "namespace": "default"}, "data": {"WHO": "world"}})
    own = pod(
        "hello",
        "echo hello $WHO on $NODE; sleep 300",
        container={
            "env": [
                {"name": "WHO", "valueFrom": {"configMapKeyRef": {"name": "words", "key": "WHO"}}},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            ]
        },
    )
    made = await client.create(PODS, own)
    found = await until_pod(client, "hello", is_running)
    await until_log(client, "hello", "hello world on here\n")
    container_id = await container_id_of(client, "hello")
    directory = f"kubepods/burstable/pod{made.metadata.uid}/{container_id}"
    cgroup = Path(f"/sys/fs/cgroup/cpu/{ROOT}/{directory}")
    assert text(cgroup / "cpu.cfs_quota_us") == "20000"
    assert text(cgroup / "cpu.shares") == "51"
    assert int(text(Path(f"/sys/fs/cgroup/memory/{ROOT}/{directory}/memory.limit_in_bytes"))) == 64 << 20
    (pid, *_) = text(cgroup / "cgroup.procs").split()
    assert "sh" in text(Path(f"/proc/{pid}/cmdline")) or "sleep" in text(Path(f"/proc/{pid}/cmdline"))
    assert found.status.pod_ip == "127.0.0.1"


async def test_a_pod_that_does_not_fit_fails_at_once_and_leaves_room_for_others(client: Client) -> None:
    large = {"resources": {"requests": {"cpu": "1000"}}}
    await client.create(PODS, pod("large", "sleep 300", container=large))
    failed = await until_pod(client, "large", lambda large: large.status.phase is PodPhase.FAILED)
    assert failed.status.reason == "OutOfcpu"
    assert failed.status.message.endswith("cpu, requested: 1000000, used: 0, capacity: 500")
    assert await event_of(client, "large", "OutOfcpu") == failed.status.message
    await client.create(PODS, pod("small", "sleep 300"))
    await until_pod(client, "small", is_running)
    for name in ("small", "large"):
        await client.delete(PODS, name, namespace="default", grace_s=0)
        await gone(client, name)


@pytest.mark.parametrize(("code", "phase"), [(0, PodPhase.SUCCEEDED), (3, PodPhase.FAILED)])
async def test_exit_codes_end_a_pod_that_never_restarts(client: Client, code: int, phase: PodPhase) -> None:
    await client.create(PODS, pod("once", f"exit {code}"))
    found = await until_pod(client, "once", lambda pod: pod.is_finished)
    assert found.status.phase is phase
    (status,) = found.status.container_statuses
    assert status.state.terminated is not None
    assert status.state.terminated.exit_code == code


async def test_who_fails_is_started_again_and_then_waits(client: Client) -> None:
    await client.create(PODS, pod("crash", "exit 1", restart="Always"))
    found = await until_pod(
        client,
        "crash",
        lambda pod: any(
            container_status.state.waiting is not None and container_status.state.waiting.reason == "CrashLoopBackOff"
            for container_status in pod.status.container_statuses
        ),
    )
    assert found.status.phase is PodPhase.RUNNING
    assert found.status.container_statuses[0].restart_count == 1


async def test_a_command_that_is_not_there_is_told(client: Client) -> None:
    await client.create(PODS, pod("missing", "", container={"command": ["/no/such/program"]}))
    found = await until_pod(
        client,
        "missing",
        lambda pod: any(container_status.state.waiting for container_status in pod.status.container_statuses),
    )
    waiting = found.status.container_statuses[0].state.waiting
    assert waiting is not None
    assert waiting.reason == "RunContainerError"
    assert "/no/such/program" in waiting.message


async def test_probes_decide_on_ready_and_on_restarts(client: Client, tmp_path: Path) -> None:
    flag = tmp_path / "ready"
    probe = {"exec": {"command": ["test", "-e", str(flag)]}, "periodSeconds": 1, "failureThreshold": 1}
    dead = tmp_path / "dead"
    alive = {"exec": {"command": ["test", "!", "-e", str(dead)]}, "periodSeconds": 1, "failureThreshold": 1}
    own = pod(
        "probed", "sleep 300", restart="Always", terminationGracePeriodSeconds=1,
        container={"readinessProbe": probe, "livenessProbe": alive},
    )  # fmt: skip
    await client.create(PODS, own)
    found = await until_pod(client, "probed", lambda pod: pod.status.phase is PodPhase.RUNNING)
    assert not found.status.container_statuses[0].ready
    flag.touch()
    await until_pod(client, "probed", is_running)
    dead.touch()
    await until_pod(client, "probed", lambda pod: pod.status.container_statuses[0].restart_count >= 1)


async def test_a_deleted_pod_may_end_in_peace(client: Client, tmp_path: Path) -> None:
    script = f"trap 'echo bye > {tmp_path}/bye; exit 0' TERM; echo ready; while true; do sleep 0.1; done"
    await client.create(PODS, pod("gentle", script, terminationGracePeriodSeconds=20))
    await until_pod(client, "gentle", is_running)
    await until_log(client, "gentle", "ready\n")
    await client.delete(PODS, "gentle", namespace="default")
    await gone(client, "gentle")
    assert (tmp_path / "bye").read_text() == "bye\n"


async def test_who_does_not_end_within_its_grace_is_killed_with_all_its_children(client: Client) -> None:
    script = "trap '' TERM; sleep 301 & sleep 302 & wait; while true; do sleep 0.1; done"
    made = await client.create(PODS, pod("stubborn", script, terminationGracePeriodSeconds=1))
    await until_pod(client, "stubborn", is_running)
    await client.delete(PODS, "stubborn", namespace="default")
    await gone(client, "stubborn")
    assert not is_there(Path(f"/sys/fs/cgroup/cpu/{ROOT}/kubepods/burstable/pod{made.metadata.uid}"))


async def test_out_of_memory_is_told_as_such(client: Client) -> None:
    script = "x=a; while true; do x=$x$x; done"
    await client.create(PODS, pod("hungry", script))
    found = await until_pod(client, "hungry", lambda pod: pod.is_finished)
    terminated = found.status.container_statuses[0].state.terminated
    assert terminated is not None
    assert terminated.exit_code in (137, 2)


async def test_a_pod_that_is_active_for_too_long_is_ended_and_says_so(client: Client) -> None:
    own = pod("late", "trap 'echo ending; exit 0' TERM; while true; do sleep 0.1; done", activeDeadlineSeconds=1)
    await client.create(PODS, own)
    found = await until_pod(client, "late", lambda pod: pod.is_finished)
    assert (found.status.phase, found.status.reason) == (PodPhase.FAILED, "DeadlineExceeded")
    assert await log_of(client, "late") == "ending\n"
    assert "deadline" in await event_of(client, "late", "DeadlineExceeded")


async def test_a_deleted_pod_has_its_grace_and_a_second_deletion_may_cut_it(client: Client) -> None:
    await client.create(
        PODS, pod("stubborn", "trap '' TERM; echo ready; while true; do sleep 0.1; done", restart="Always")
    )
    await until_pod(client, "stubborn", is_running)
    await until_log(client, "stubborn", "ready\n")
    await client.delete(PODS, "stubborn", namespace="default", grace_s=300)

    async def goes_on() -> bool:
        return is_running(await client.get(PODS, "stubborn", namespace="default"))

    await always(goes_on, 0.5)
    await client.delete(PODS, "stubborn", namespace="default", grace_s=1)
    await gone(client, "stubborn")


async def test_a_node_that_somebody_elses_has_the_name_of_is_left_alone(client: Client, tmp_path: Path) -> None:
    await client.create(NODES, {"metadata": {"name": "taken", "labels": {"who": "else"}}})
    with pytest.raises(BadInput, match="taken exists and is not a local node"):
        await run(client, LocalOptions("taken", f"{ROOT}-other", tmp_path / "other"))
    assert (await client.get(NODES, "taken")).status.allocatable == {}
    await client.delete(NODES, "taken")


async def test_a_pod_says_when_its_container_starts_and_when_it_is_stopped(client: Client) -> None:
    held = pod("held", "sleep 300")
    held["metadata"]["finalizers"] = ["x.test/y"]
    await client.create(PODS, held)
    await until_pod(client, "held", is_running)
    assert await event_of(client, "held", "Started") == "Started container main"
    await client.delete(PODS, "held", namespace="default")
    assert await event_of(client, "held", "Killing") == "Stopping container main"
    await client.patch(PODS, "held", {"metadata": {"finalizers": None}}, namespace="default")
    await gone(client, "held")


async def test_a_pod_that_goes_by_force_is_asked_to_end_before_it_is_killed(client: Client, tmp_path: Path) -> None:
    said = tmp_path / "said"
    script = f"trap 'echo bye > {said}; exit 0' TERM; echo ready; while true; do sleep 0.1; done"
    await client.create(PODS, pod("forced", script, restart="Always"))
    await until_pod(client, "forced", is_running)
    await until_log(client, "forced", "ready\n")
    await client.delete(PODS, "forced", namespace="default", grace_s=0)
    await eventually(lambda: is_there(said))
