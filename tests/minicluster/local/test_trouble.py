"""What goes wrong with one pod, or one file of the kernel's, concerns that pod alone: on real cgroups."""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from koord.agent.host.knobs import CPU_SHARES
from koord.api.kinds import PODS, SECRETS
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.words import PodPhase
from koord.kube.client import Client
from koord_minicluster.local.live import processes
from koord_minicluster.local.live.tree import Tree
from tests.minicluster.local.running import (
    NAME,
    ROOT,
    container_id_of,
    event_of,
    gone,
    is_running,
    log_of,
    pids_of,
    pod,
    text,
    until_pod,
)
from tests.waiting import always, eventually

pytestmark = pytest.mark.root

BEST_EFFORT = Path(f"/sys/fs/cgroup/cpu/{ROOT}/kubepods/besteffort")
NOTHING: dict[str, Any] = {"resources": {}}
SYS_RESOURCE = 24


def write(file: Path, value: str) -> None:
    file.write_text(value)


async def test_pods_go_on_when_others_come_and_go_beside_an_idle_best_effort_class(client: Client) -> None:
    if not (BEST_EFFORT / "cpu.idle").exists():
        pytest.skip("this kernel has no cpu.idle")
    await client.create(PODS, pod("web", "exec sleep 300", restart="Always"))
    await until_pod(client, "web", is_running)
    before = await pids_of(client, "web")
    write(BEST_EFFORT / "cpu.idle", "1")
    await client.create(PODS, pod("job", "exit 0", container=NOTHING))
    await until_pod(client, "job", lambda pod: pod.status.phase is PodPhase.SUCCEEDED)
    for name in ("scaled-1", "scaled-2"):
        await client.create(PODS, pod(name, "sleep 300", restart="Always", container=NOTHING))
    await until_pod(client, "scaled-2", is_running)
    for name in ("scaled-1", "scaled-2", "job"):
        await client.delete(PODS, name, namespace="default", grace_s=1)
    await gone(client, "scaled-2")
    await client.create(PODS, pod("later", "sleep 300"))
    await until_pod(client, "later", is_running)
    assert await pids_of(client, "web") == before
    assert text(BEST_EFFORT / "cpu.idle") == "1"
    # Burstable pods of 50m each weigh together what they asked for.
    shares = BEST_EFFORT.parent / "burstable" / "cpu.shares"
    await eventually(lambda: text(shares) == str(2 * 50 * 1024 // 1000))


Fault = Callable[[pytest.MonkeyPatch, Callable[[], bool]], None]


def refusing(method: str) -> Fault:
    """The kernel refuses what a method of the tree does, for directories of pods without resources."""

    def break_it(patch: pytest.MonkeyPatch, is_broken: Callable[[], bool]) -> None:
        done: Callable[..., Any] = getattr(Tree, method)

        def instead(self: Tree, *args: Any) -> Any:
            directory = next(each for each in args if isinstance(each, str))
            if is_broken() and "besteffort/pod" in directory:
                raise OSError(errno.EINVAL, "Invalid argument", directory)
            return done(self, *args)

        patch.setattr(Tree, method, instead)

    return break_it


def no_way_in(patch: pytest.MonkeyPatch, is_broken: Callable[[], bool]) -> None:
    """A child cannot enter its cgroup, which it finds out after the fork."""
    enter = processes.enter

    def instead(doors: list[str]) -> None:
        enter([f"{door}.none" if is_broken() and "besteffort/pod" in door else door for door in doors])

    patch.setattr(processes, "enter", instead)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (refusing("directory"), "FailedCreatePodContainer"),
        (refusing("set"), "FailedCreatePodContainer"),
        (refusing("doors"), "Failed"),
        (no_way_in, "Failed"),
    ],
    ids=["mkdir", "settings", "doors", "enter"],
)
async def test_what_the_kernel_refuses_is_an_event_and_the_pod_can_be_deleted(
    client: Client, monkeypatch: pytest.MonkeyPatch, fault: Fault, reason: str
) -> None:
    await client.create(PODS, pod("web", "exec sleep 300", restart="Always"))
    await until_pod(client, "web", is_running)
    before = await pids_of(client, "web")
    fault(monkeypatch, lambda: True)
    await client.create(PODS, pod("hurt", "sleep 300", container=NOTHING))
    assert "besteffort" in await event_of(client, "hurt", reason)
    await client.delete(PODS, "hurt", namespace="default")
    await gone(client, "hurt")
    assert await pids_of(client, "web") == before


async def test_a_pod_runs_when_the_kernel_takes_back_its_refusal(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("koord_minicluster.kubelet.states.BACKOFF_FIRST_S", 0.2)
    broken = True
    refusing("set")(monkeypatch, lambda: broken)
    await client.create(PODS, pod("hurt", "sleep 300", container=NOTHING))
    await event_of(client, "hurt", "FailedCreatePodContainer")
    broken = False
    await until_pod(client, "hurt", is_running)


async def test_a_weight_that_is_refused_ends_nothing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    set_ = Tree.set
    refused = []

    def instead(self: Tree, knob: Any, directory: str, value: int) -> None:
        if knob is CPU_SHARES and directory.endswith("burstable"):
            refused.append(value)
            raise OSError(errno.EBUSY, "Device or resource busy")
        set_(self, knob, directory, value)

    monkeypatch.setattr(Tree, "set", instead)
    await client.create(PODS, pod("web", "exec sleep 300", restart="Always"))
    await until_pod(client, "web", is_running)
    await eventually(lambda: bool(refused))
    await client.create(PODS, pod("more", "exit 0"))
    await until_pod(client, "more", lambda pod: pod.is_finished)


@contextmanager
def without_capability(number: int) -> Iterator[None]:
    """This thread, and what it starts, does without it."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, data) == 0
    effective = data[0]
    data[0] = effective & ~(1 << number)
    assert libc.capset(header, data) == 0
    try:
        yield
    finally:
        data[0] = effective
        assert libc.capset(header, data) == 0


async def test_a_guaranteed_pod_runs_without_the_right_to_lower_its_oom_score(client: Client) -> None:
    both = {"cpu": "100m", "memory": "32Mi"}
    own = pod("firm", "sleep 300", container={"resources": {"requests": both, "limits": both}})
    with without_capability(SYS_RESOURCE):
        await client.create(PODS, own)
        await until_pod(client, "firm", is_running)
    await client.delete(PODS, "firm", namespace="default", grace_s=1)
    await gone(client, "firm")


async def test_a_limit_above_what_the_node_has_is_the_nodes(client: Client) -> None:
    large = {"resources": {"requests": {"cpu": "50m"}, "limits": {"cpu": "2"}}}
    await client.create(PODS, pod("large", "sleep 300", container=large))
    await until_pod(client, "large", is_running)


def is_waiting(reason: str) -> Callable[[Pod], bool]:
    return lambda pod: any(
        status.state.waiting is not None and status.state.waiting.reason == reason
        for status in pod.status.container_statuses
    )


SECRET_ENV = {"env": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "null", "key": "KEY"}}}]}


@pytest.mark.parametrize(
    ("container", "reason", "told"),
    [
        ({"command": ["/bin/sh", "-c", "echo a\0b"]}, "RunContainerError", "null"),
        ({"env": [{"name": "A", "value": "a\0b"}]}, "RunContainerError", "null"),
        ({"workingDir": "/no/such/folder"}, "RunContainerError", "/no/such/folder"),
        ({"command": None}, "CreateContainerConfigError", "command"),
        (SECRET_ENV, "RunContainerError", "null"),
    ],
    ids=["command", "environment", "folder", "no command", "secret"],
)
async def test_a_container_that_cannot_start_is_told_and_can_be_deleted(
    client: Client, container: dict[str, Any], reason: str, told: str
) -> None:
    if container is SECRET_ENV:
        secret = {"metadata": {"name": "null", "namespace": "default"}, "data": {"KEY": "AAAA"}}
        await client.create(SECRETS, secret)
    await client.create(PODS, pod("never", "sleep 300", container=container))
    await until_pod(client, "never", is_waiting(reason))
    assert told in await event_of(client, "never", "Failed")
    await client.delete(PODS, "never", namespace="default")
    await gone(client, "never")


async def test_a_secret_reaches_the_container_as_it_is_whether_text_or_not(client: Client) -> None:
    secret = {"metadata": {"name": "raw", "namespace": "default"}, "data": {"KEY": "/v9oaQ=="}}
    await client.create(SECRETS, secret)
    env = {"env": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "raw", "key": "KEY"}}}]}
    await client.create(PODS, pod("raw", "printf %s $KEY | od -An -tx1", container=env))
    await until_pod(client, "raw", lambda pod: pod.is_finished)
    assert (await log_of(client, "raw")).split() == ["fe", "ff", "68", "69"]


@pytest.mark.parametrize(
    "probe",
    [
        {"exec": {"command": ["a\0b"]}},
        {"httpGet": {"port": 80, "path": "/", "host": "x" * 70}},
        {"httpGet": {"port": 80, "path": "/", "httpHeaders": [{"name": "A", "value": "a\r\nb"}]}},
        {"tcpSocket": {"port": 80, "host": "a." * 200}},
    ],
    ids=["command", "host", "header", "long host"],
)
async def test_a_probe_that_cannot_be_made_has_failed_and_no_more(client: Client, probe: dict[str, Any]) -> None:
    odd = {**probe, "periodSeconds": 1, "failureThreshold": 1}
    await client.create(PODS, pod("probed", "sleep 300", restart="Always", container={"readinessProbe": odd}))
    await until_pod(client, "probed", lambda pod: pod.status.phase is PodPhase.RUNNING)
    before = await container_id_of(client, "probed")

    async def goes_on() -> bool:
        (status,) = (await client.get(PODS, "probed", namespace="default")).status.container_statuses
        return (status.ready, status.restart_count) == (False, 0)

    await always(goes_on, 1.2)
    assert await container_id_of(client, "probed") == before


async def test_a_pod_inherits_its_log_and_nothing_else(client: Client) -> None:
    await client.create(PODS, pod("poor", "sleep 300"))
    await until_pod(client, "poor", is_running)
    (pid, *_) = await pids_of(client, "poor")
    assert sorted(each.name for each in Path(f"/proc/{pid}/fd").iterdir()) == ["0", "1", "2"]  # noqa: ASYNC240


async def test_the_logs_of_a_pod_are_gone_with_it(client: Client, tmp_path: Path) -> None:
    await client.create(PODS, pod("wordy", "echo one; sleep 300", terminationGracePeriodSeconds=1))
    await until_pod(client, "wordy", is_running)
    folder = tmp_path / "logs" / NAME
    assert await eventually(lambda: log_of(client, "wordy")) == "one\n"
    assert len(list(folder.iterdir())) == 1
    await client.delete(PODS, "wordy", namespace="default")
    await gone(client, "wordy")
    await eventually(lambda: not any(folder.iterdir()))
