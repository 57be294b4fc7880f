"""The daemon beside a kubelet: a new pod is looked after soon, and nothing that fails for once ends it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from aiohttp import web

from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.convert import shares_of_milli
from koord.agent.host.knobs import CPU_SHARES
from koord.agent.live.run import AgentOptions, Daemon, run
from koord.agent.pods import BATCH_CPU
from koord.agent.state import DEFAULT_GATES
from koord.api.configuration.features import AgentGate
from koord.api.kinds import EVENTS, NAMESPACES, NODE_METRICS, NODE_SLOS, NODES
from koord.api.kubernetes.cgroup import CgroupDriver, pod_dir
from koord.api.kubernetes.words import KubeQoS
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord_minicluster.up.bootstrap import bootstrap
from tests.agent.real import make, real_cgroups
from tests.agent.trees import Tree
from tests.scheduler.live.embedded import node_manifest, serving
from tests.waiting import eventually

KUBELET_S = 600.0
WITHIN_S = 60.0
"Twice as early as the interval would be; on an idle machine it takes two seconds."
DRIVER = CgroupDriver.CGROUPFS
NODE = "n1"


class FakeKubelet:
    def __init__(self, pods: list[dict[str, Any]]) -> None:
        self.pods = pods
        self.asked = 0

    async def answer(self, request: web.BaseRequest) -> web.Response:
        if request.path != "/pods":
            return web.json_response({"kubeletconfig": {}})
        self.asked += 1
        return web.json_response({"items": self.pods})

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        runner = web.ServerRunner(web.Server(self.answer))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


def batch_pod(name: str, cpu_milli: int, *, has_container: bool) -> dict[str, Any]:
    resources = {"requests": {BATCH_CPU: str(cpu_milli)}, "limits": {BATCH_CPU: str(cpu_milli)}}
    running = [{"name": "main", "containerID": f"containerd://{name}-main", "state": {"running": {}}}]
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": name, "labels": {"koordinator.sh/qosClass": "BE"}},
        "spec": {"containers": [{"name": "main", "resources": resources}], "priority": 5500},
        "status": {"phase": "Running", "containerStatuses": running if has_container else []},
    }


async def ready_node(client: Client) -> None:
    await bootstrap(client)
    await client.create(NODES, node_manifest(NODE))
    await client.create(NODE_SLOS, {"metadata": {"name": NODE}, "spec": {}})


@asynccontextmanager
async def working(
    client: Client,
    options: AgentOptions,
    on_start: Callable[[Daemon], None] = lambda daemon: None,
    clock: Clock | None = None,
) -> AsyncIterator[None]:
    ready = asyncio.Event()
    task = asyncio.create_task(run(client, options, clock=clock, on_ready=ready.set, on_start=on_start))
    try:
        await asyncio.wait_for(ready.wait(), WITHIN_S)
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@dataclass(frozen=True)
class Host:
    cgroups: Cgroups
    root: str
    make: Callable[[str], object]


@contextmanager
def host(kind: str, folder: Path) -> Iterator[Host]:
    """With cgroups of this machine, or of plain files."""
    if kind == "real":
        with real_cgroups(DRIVER) as cgroups:
            yield Host(cgroups, "/", partial(make, cgroups))
    else:
        tree = Tree(folder, Version(kind), DRIVER)
        yield Host(tree.cgroups, str(folder), tree.cgroup)


async def rounds(kubelet: FakeKubelet, number: int) -> None:
    """The agent asks kubelet in each round."""
    wanted = kubelet.asked + number
    await eventually(lambda: kubelet.asked > wanted)


async def until_set(cgroups: Cgroups, directory: str, milli: int) -> None:
    place = cgroups.place(CPU_SHARES)
    assert place is not None
    wanted = place.form.write(shares_of_milli(milli))
    await eventually(lambda: cgroups.text(CPU_SHARES, directory) == wanted, WITHIN_S, what=directory)


@pytest.mark.parametrize("kind", ["v1", "v2", pytest.param("real", marks=pytest.mark.root)])
async def test_a_new_pod_is_looked_after_long_before_kubelet_is_asked_at_intervals(kind: str, tmp_path: Path) -> None:
    kubelet = FakeKubelet([batch_pod("old", 250, has_container=True)])
    with host(kind, tmp_path / "host") as machine:
        cgroups, old = machine.cgroups, pod_dir("old", KubeQoS.BEST_EFFORT, DRIVER)
        for directory in (old, f"{old}/old-main"):
            machine.make(directory)
        async with serving(tmp_path / "api") as client, kubelet.serving() as address:
            await ready_node(client)
            options = AgentOptions(NODE, machine.root, cgroups.root, tmp_path / "state", address, kubelet_s=KUBELET_S)
            async with working(client, options):
                await until_set(cgroups, f"{old}/old-main", 250)
                # As kubelet does it: a pod, its directory, a container's one, and last what it says of that.
                new = pod_dir("new", KubeQoS.BEST_EFFORT, DRIVER)
                kubelet.pods = [*kubelet.pods, batch_pod("new", 500, has_container=False)]
                machine.make(new)
                await until_set(cgroups, new, 500)
                asked = kubelet.asked
                machine.make(f"{new}/new-main")
                await eventually(lambda: kubelet.asked > asked)
                kubelet.pods = [*kubelet.pods[:1], batch_pod("new", 500, has_container=True)]
                await until_set(cgroups, f"{new}/new-main", 500)
                assert kubelet.asked < 15, "it is not asked all the time"


async def test_what_cannot_be_read_for_once_ends_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of the kernel, a file that is empty; of kubelet, a pod that asks for an invalid amount."""
    good = batch_pod("good", 250, has_container=False)
    bad = json.loads(json.dumps(batch_pod("bad", 250, has_container=False)).replace('"250"', '"much"'))
    kubelet = FakeKubelet([bad, good])
    tree = Tree(tmp_path / "host", driver=DRIVER)
    pod = tree.cgroup(pod_dir("good", KubeQoS.BEST_EFFORT, DRIVER))
    stat = tree.read("proc/stat")
    tree.write("proc/stat", "")
    async with serving(tmp_path / "api") as client, kubelet.serving() as address:
        await ready_node(client)
        options = AgentOptions(NODE, str(tree.root), "", tmp_path / "state", address, kubelet_s=0.2, round_s=0.2)
        async with working(client, options):
            for failing in ("this round is left out", "cannot look after it; others go on"):
                await eventually(partial(_has_told, caplog, failing))
            tree.write("proc/stat", stat)
            await until_set(tree.cgroups, pod, 250)


async def test_with_the_gate_kubelets_pod_resources_are_served_with_what_the_scheduler_gave(tmp_path: Path) -> None:
    """The folder of the sockets has a short path, since the length of a socket path is limited."""
    pod = batch_pod("own", 250, has_container=False)
    pod["metadata"]["annotations"] = {"scheduling.koordinator.sh/resource-status": '{"cpuset": "1-2"}'}
    short = TemporaryDirectory(prefix="k")
    tree = Tree(Path(short.name) / "host", driver=DRIVER)
    tree.cgroup(pod_dir("own", KubeQoS.BEST_EFFORT, DRIVER))
    given, socket = tmp_path / "state" / "pod-resources.json", Path(short.name) / "served" / "kubelet.sock"
    gates = {**DEFAULT_GATES, AgentGate.POD_RESOURCES_PROXY: True}

    async def is_served() -> bool:
        return socket.is_socket() and given.exists() and b"[1,2]" in given.read_bytes()

    with short:
        async with serving(tmp_path / "api") as client, FakeKubelet([pod]).serving() as address:
            await ready_node(client)
            options = AgentOptions(NODE, str(tree.root), "", tmp_path / "state", address, gates=gates, kubelet_s=0.2)
            async with working(client, replace(options, pod_resources_dir=str(socket.parent))):
                await eventually(is_served, 90.0)


async def _has_told(caplog: pytest.LogCaptureFixture, words: str) -> bool:
    return any(words in record.getMessage() for record in caplog.records)


async def test_annotations_that_cannot_be_read_are_told_once_on_their_objects(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reservation, burst = "node.koordinator.sh/reservation", "koordinator.sh/cpuBurst"
    bad = batch_pod("bad", 250, has_container=False)
    bad["metadata"]["annotations"] = {burst: "much"}
    kubelet = FakeKubelet([bad])
    tree = Tree(tmp_path / "host", driver=DRIVER)
    tree.cgroup(pod_dir("bad", KubeQoS.BEST_EFFORT, DRIVER))
    async with serving(tmp_path / "api") as client, kubelet.serving() as address:
        await ready_node(client)
        await client.create(NAMESPACES, {"metadata": {"name": "ns"}})
        await client.patch(NODES, NODE, {"metadata": {"annotations": {reservation: "{"}}})
        options = AgentOptions(NODE, str(tree.root), "", tmp_path / "state", address, kubelet_s=0.1, round_s=0.1)

        async def notes() -> dict[str, int]:
            events = [event for event in await client.list(EVENTS) if event.reason == "MalformedAnnotation"]
            return {event.note.split(": ")[1]: event.series.count if event.series else 1 for event in events}

        async def both() -> bool:
            return len(await notes()) == 2

        async with working(client, options):
            await eventually(both)
            # Rounds go on, and other things change.
            bad["metadata"]["labels"] = {**bad["metadata"]["labels"], "team": "a"}
            await client.patch(NODES, NODE, {"metadata": {"labels": {"team": "a"}}})
            await rounds(kubelet, 8)
        assert await notes() == {f"annotation {reservation}": 1, f"annotation {burst}": 1}
    told = [record.getMessage() for record in caplog.records if reservation in record.getMessage()]
    assert len(told) == len(set(told)), "the log has it once, too"


async def test_what_the_settings_ask_for_and_the_machine_lacks_is_told_once_on_the_node(tmp_path: Path) -> None:
    """The host is composed, and has no resctrl."""
    kubelet, tree = FakeKubelet([]), Tree(tmp_path / "host", driver=DRIVER)
    async with serving(tmp_path / "api") as client, kubelet.serving() as address:
        await ready_node(client)
        shares = {"resourceQOSStrategy": {"beClass": {"resctrlQOS": {"enable": True}}}}
        await client.patch(NODE_SLOS, NODE, {"spec": shares})
        options = AgentOptions(NODE, str(tree.root), "", tmp_path / "state", address, kubelet_s=0.1, round_s=0.1)

        async def notes() -> list[tuple[str, int]]:
            events = [event for event in await client.list(EVENTS) if event.reason == "CannotBeHandled"]
            return [(event.note, event.series.count if event.series else 1) for event in events]

        async def is_told() -> bool:
            return bool(await notes())

        async with working(client, options):
            await eventually(is_told)
            # The Node changes as nodes do, and each new state is looked at as a whole.
            for number in range(3):
                await client.patch(NODES, NODE, {"metadata": {"labels": {"beat": str(number)}}})
                await rounds(kubelet, 2)
        ((note, count),) = await notes()
        assert "Cannot share the cache and memory bandwidth: this machine has no resctrl" in note
        assert count == 1


async def test_a_nodes_last_pod_leaves_its_report_when_it_is_gone(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "host", driver=DRIVER)
    tree.cgroup(pod_dir("last", KubeQoS.BEST_EFFORT, DRIVER))
    kubelet = FakeKubelet([batch_pod("last", 250, has_container=False)])
    async with serving(tmp_path / "api") as client, kubelet.serving() as address:
        await ready_node(client)
        await client.create(NODE_METRICS, {"metadata": {"name": NODE}, "spec": {}})
        options = AgentOptions(NODE, str(tree.root), "", tmp_path / "state", address, kubelet_s=0.1, round_s=0.1)

        async def is_reported(*names: str) -> bool:
            status = (await client.get(NODE_METRICS, NODE)).status
            return status.node_metric is not None and [pod.name for pod in status.pods_metric] == list(names)

        daemons: list[Daemon] = []
        async with working(client, options, daemons.append):
            await eventually(partial(is_reported, "last"), WITHIN_S)
            kubelet.pods = []
            await eventually(lambda: daemons[0].state is not None and not daemons[0].state.pods)
        # The next report of the same agent would come in a minute.
        async with working(client, options):
            await eventually(is_reported, WITHIN_S)
