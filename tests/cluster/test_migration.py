"""Koordinator's own scheduler, and Kubernetes', give way to koord's and come back, on Kubernetes' own processes.

Every process that matters is a real one: a pod of either scheduler's Deployment, made by Kubernetes' controllers on a
hollow node, is a process here while it exists.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from koord.api.kinds import CONFIG_MAPS, EVENTS, LEASES, NODES, PODS, SERVICE_ACCOUNTS
from koord.api.protocol import names
from koord.api.protocol.lease_holders import is_anothers, is_koords
from koord.api.text.timestamp import parse_timestamp
from koord.api.text.yaml import load
from koord.kube.client import Client
from koord.kube.errors import NotFound
from koord.kube.locate import locate
from koord.kube.program import own_program
from koord.operate.install.live.cluster import Cluster
from koord.operate.install.manifest import key_of
from tests.control_plane import ControlPlane, find_binary, free_port, kubernetes_controllers
from tests.crowd import crowd
from tests.docs.test_pages import DOCS
from tests.operate.install import koordinator
from tests.operate.install.test_migrate import HERE, THERE, apply, defined
from tests.waiting import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(420)]
VERSION = "v1.8"
HAND_OVER_WITHIN_S = 30.0
WITHIN_S = 120.0
SCHEDULER = "koord-scheduler"
"""Koordinator's, too."""


def needs(*binaries: str) -> pytest.MarkDecorator:
    absent = [name for name in binaries if find_binary(name) is None]
    return pytest.mark.skipif(bool(absent), reason=f"no {', '.join(absent)} beside the binaries of the group cluster")


@contextmanager
def process(log: Path, *command: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Asked to end at the end, and then made to."""
    with log.open("ab") as said:
        running = subprocess.Popen(
            command, stdout=said, stderr=said, stdin=subprocess.DEVNULL, env={**os.environ, **environment}
        )
    try:
        yield running
    finally:
        running.send_signal(signal.SIGTERM)
        try:
            running.wait(timeout=60)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait(timeout=60)


@dataclass
class Runtime:
    """Runs the schedulers of pods that are on nodes, and ends them with their pods."""

    client: Client
    folder: Path
    kubeconfig: Path
    running: dict[str, ExitStack] = field(default_factory=dict)

    async def keep(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(0.2)

    async def _look(self) -> None:
        wanted = {}
        for namespace in (HERE, THERE):
            for pod in await self.client.list(PODS, namespace=namespace):
                labels = pod.metadata.labels
                name = labels.get("koord-app") or labels.get("app.kubernetes.io/name")
                if name == SCHEDULER and pod.spec.node_name and not pod.metadata.deletion_timestamp:
                    wanted[pod.metadata.name] = namespace
        for name in [each for each in self.running if each not in wanted]:
            await asyncio.to_thread(self.running.pop(name).close)
        for name, namespace in wanted.items():
            if name not in self.running:
                command = await (self._koords() if namespace == HERE else self._koordinators())
                stack = ExitStack()
                stack.enter_context(process(self.folder / f"{name}.log", *command, POD_NAME=name))
                self.running[name] = stack

    def end(self) -> None:
        for exit_stack in self.running.values():
            exit_stack.close()

    async def _koords(self) -> list[str]:
        config_map = await self.client.get(CONFIG_MAPS, "koord-scheduler-config", namespace=HERE)
        file = self.folder / "koord.yaml"
        file.write_text(config_map.data["config.yaml"])
        command = [*own_program(), "scheduler", "--leader-elect", "--config", str(file)]
        return [*command, "--kubeconfig", str(self.kubeconfig)]

    async def _koordinators(self) -> list[str]:
        config_map = await self.client.get(CONFIG_MAPS, "koord-scheduler-config", namespace=THERE)
        config: Any = load(config_map.data["koord-scheduler-config"], "its configuration")
        file = self.folder / "koordinator.json"
        file.write_text(json.dumps({**config, "clientConnection": {"kubeconfig": str(self.kubeconfig)}}))
        return [
            str(find_binary(SCHEDULER)),
            f"--config={file}",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            f"--cert-dir={self.folder}",
            f"--authentication-kubeconfig={self.kubeconfig}",
        ]


@asynccontextmanager
async def koordinator_running(folder: Path) -> AsyncIterator[tuple[Client, Path]]:
    """Kubernetes with two hollow nodes, and all of Koordinator's objects; its scheduler decides."""
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane())
        stack.enter_context(kubernetes_controllers(plane))
        kubeconfig = plane.kubeconfig
        binary = find_binary("kube-scheduler")
        assert binary
        default = [str(binary), f"--kubeconfig={kubeconfig}", "--leader-elect=false", f"--secure-port={free_port()}"]
        stack.enter_context(process(folder / "default-scheduler.log", *default))
        hollow = [*own_program(), "hollow", "--nodes", "2", "--kubeconfig", str(kubeconfig)]
        stack.enter_context(process(folder / "hollow.log", *hollow))
        async with Client(locate(str(kubeconfig))) as client:
            cluster = Cluster(client)
            for each in koordinator.definitions(VERSION):
                await apply(cluster, each)
                await defined(cluster, key_of(each))
            for each in koordinator.components(VERSION):
                if each["kind"] == "Deployment":
                    each["spec"]["replicas"] = 1
                for webhook in each.get("webhooks", ()):
                    # Its manager does not run here: no pod may wait for an answer.
                    webhook["failurePolicy"] = "Ignore"
                await apply(cluster, each)
            runtime = Runtime(client, folder, kubeconfig)
            keeping = asyncio.create_task(runtime.keep())
            try:
                yield client, kubeconfig
            finally:
                keeping.cancel()
                with suppress(asyncio.CancelledError):
                    await keeping
                runtime.end()


async def holder(client: Client, name: str = SCHEDULER, namespace: str = names.NAMESPACE_KOORDINATOR) -> str:
    with suppress(NotFound):
        return (await client.get(LEASES, name, namespace=namespace)).spec.holder_identity
    return ""


async def pods_keep_coming(client: Client) -> None:
    number = 0
    while True:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m"}}}
        pod = {
            "metadata": {"name": f"job-{number:03}"},
            "spec": {"schedulerName": SCHEDULER, "containers": [container]},
        }
        await client.create(PODS, pod, namespace="default")
        number += 1
        await asyncio.sleep(1.0)


async def all_bound(client: Client) -> None:
    async def bound() -> bool:
        return all(pod.spec.node_name for pod in await client.list(PODS, namespace="default"))

    await eventually(bound, WITHIN_S)


async def runs(client: Client, name: str, times: int) -> bool:
    """Whether N pods are there whose names begin with `name`."""
    return sum(pod.metadata.name.startswith(name) for pod in await client.list(PODS)) == times


async def has_bound(client: Client, least: int) -> bool:
    return sum(bool(pod.spec.node_name) for pod in await client.list(PODS, namespace="default")) >= least


async def migrated(kubeconfig: Path, *args: str) -> float:
    """Seconds that it took."""
    began_s = time.monotonic()
    command = [*own_program(), "migrate", *args, "--wait", f"{WITHIN_S * crowd():.0f}", "--kubeconfig", str(kubeconfig)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return time.monotonic() - began_s


@needs(SCHEDULER, "kube-scheduler", "kube-controller-manager")
async def test_pods_go_on_being_placed_once_while_schedulers_change_hands_and_none_is_evicted(tmp_path: Path) -> None:
    async with koordinator_running(tmp_path) as (client, kubeconfig):

        async def led_by_koordinators() -> bool:
            return is_anothers(await holder(client))

        await eventually(led_by_koordinators, WITHIN_S)
        coming = asyncio.create_task(pods_keep_coming(client))
        try:
            await eventually(lambda: has_bound(client, 3), WITHIN_S)
            await all_bound(client)
            # Pods keep coming: the last one may still have to be bound.
            first = {
                pod.metadata.uid: pod.spec.node_name
                for pod in await client.list(PODS, namespace="default")
                if pod.spec.node_name
            }
            assert first

            await migrated(kubeconfig, "scheduler", "--image", "koord:test", "--replicas", "1")
            assert is_koords(await holder(client))
            await all_bound(client)
            await migrated(kubeconfig, "agent")
            await eventually(partial(runs, client, "koord-agent", 2), WITHIN_S)
            await eventually(partial(runs, client, "koordlet-", 0), WITHIN_S)

            await migrated(kubeconfig, "agent", "--back")
            await eventually(partial(runs, client, "koordlet-", 2), WITHIN_S)
            await migrated(kubeconfig, "scheduler", "--back")
            assert is_anothers(await holder(client))
            there = len(await client.list(PODS, namespace="default"))
            await eventually(lambda: has_bound(client, there + 2), WITHIN_S)
        finally:
            coming.cancel()
        await all_bound(client)
        last = await client.list(PODS, namespace="default")
        assert first.items() <= {pod.metadata.uid: pod.spec.node_name for pod in last}.items()
        # Numbered without a gap: none was evicted.
        assert sorted(pod.metadata.name for pod in last) == [f"job-{number:03}" for number in range(len(last))]
        assert set((await times_bound(client)).values()) == {1}
        waited_s = [_bound_s(pod) - parse_timestamp(pod.metadata.creation_timestamp or "") for pod in last]
        print(f"{len(last)} pods; the longest wait was {max(waited_s):.0f} s")
        assert max(waited_s) < HAND_OVER_WITHIN_S * crowd()


async def times_bound(client: Client) -> Counter[str]:
    events = [event for event in await client.list(EVENTS, namespace="default") if event.reason == "Scheduled"]
    return Counter(event.regarding.name for event in events)


def _bound_s(pod: Any) -> float:
    (told,) = [condition for condition in pod.status.conditions if condition.type == "PodScheduled"]
    return parse_timestamp(told.last_transition_time or "")


def page_configuration() -> str:
    """The file that the page about moving shows."""
    (text,) = re.findall(r"```yaml\n(.*?)```", (DOCS / "move-from-koordinator.md").read_text(), re.DOTALL)
    return str(text)


@needs("kube-scheduler")
async def test_koord_takes_kube_schedulers_place_by_its_own_lease_and_gives_it_back(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(page_configuration())
    with ControlPlane() as plane, ExitStack() as koords:
        kubeconfig = str(plane.kubeconfig)
        theirs = [str(find_binary("kube-scheduler")), f"--kubeconfig={kubeconfig}", f"--secure-port={free_port()}"]
        ours = [*own_program(), "scheduler", "--leader-elect", "--config", str(config), "--kubeconfig", kubeconfig]
        log = tmp_path / "koord.log"
        async with Client(locate(kubeconfig)) as client:
            room = {"cpu": "8", "memory": "8Gi", "pods": "20"}
            node = {"metadata": {"name": "n1"}, "status": {"capacity": room, "allocatable": room}}
            await client.create(NODES, node)
            await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, namespace="default")
            names_of = iter(f"pod-{number}" for number in range(9))

            async def is_placed() -> None:
                # Nobody says of the node that it is ready.
                spec = {"containers": [{"name": "c", "image": "i"}], "tolerations": [{"operator": "Exists"}]}
                await client.create(PODS, {"metadata": {"name": next(names_of)}, "spec": spec}, namespace="default")
                await all_bound(client)
                # A scheduler that ends forgets what it has not told yet.
                await eventually(told, WITHIN_S)

            async def told() -> bool:
                return len(await times_bound(client)) == len(await client.list(PODS, namespace="default"))

            def led_by(whose: Callable[[str], bool]) -> Callable[[], Awaitable[bool]]:
                async def led() -> bool:
                    return whose(await holder(client, "kube-scheduler", "kube-system"))

                return led

            async def koord_waits() -> bool:
                return "another leads" in log.read_text()

            with process(tmp_path / "kube-scheduler.log", *theirs):
                await eventually(led_by(is_anothers), WITHIN_S)
                await is_placed()
                koords.enter_context(process(log, *ours))
                await eventually(koord_waits, WITHIN_S)
                await is_placed()
                assert await led_by(is_anothers)()
            await eventually(led_by(is_koords), WITHIN_S)
            await is_placed()
            with process(tmp_path / "kube-scheduler.log", *theirs):
                await asyncio.to_thread(koords.close)
                await eventually(led_by(is_anothers), WITHIN_S)
                await is_placed()

            assert set((await times_bound(client)).values()) == {1}
