"""The copilot: which containers go first, and real processes in real cgroups that go there and end on request."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from msgspec.structs import replace

from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.knobs import CPU_SHARES
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.machinery.faults import BadInput
from koord.cli.main import run
from koord.kube.clock import SystemClock
from koord.operate.install.yarn import CAPABILITIES
from koord.yarn.amount import MIB, Amount, of_yarn
from koord.yarn.containers import NotListed, YarnContainer, listed, masters, release_order, to_release
from koord.yarn.live.copilot import Copilot, serve
from koord.yarn.live.placing import Placing
from koord.yarn.live.rpc import YarnUnreachable
from tests.agent.real import real_cgroups
from tests.kube.manual_clock import ManualClock
from tests.waiting import eventually

APPLICATION = f"17_{os.getpid():04}"
"""Tests that run beside these have others: processes are told apart by the ids in their environment."""


def container(number: int, *, started_s: float = 0.0, execution: str = "GUARANTEED", mib: int = 1024) -> YarnContainer:
    return YarnContainer(f"container_{APPLICATION}_01_{number:06}", of_yarn(1, mib), "RUNNING", execution, started_s)


MASTER = container(1, started_s=400)
OLD, YOUNG = container(2, started_s=100), container(3, started_s=300)
SPARE = container(4, started_s=50, execution="OPPORTUNISTIC")
ALL = [MASTER, OLD, YOUNG, SPARE]


def test_opportunistic_ones_go_first_then_the_youngest_and_a_master_last() -> None:
    assert release_order(ALL) == [SPARE, YOUNG, OLD, MASTER]


def test_a_first_container_of_a_resource_manager_that_took_over_is_no_master() -> None:
    later = YarnContainer(f"container_e01_{APPLICATION}_01_000001", of_yarn(1, 1024), started_s=10)
    spare = YarnContainer("container_e02_17_0002_01_000001", of_yarn(1, 1024), execution="OPPORTUNISTIC")
    another = YarnContainer("container_e02_17_0003_01_000001", of_yarn(1, 1024), started_s=20)
    assert masters([later, MASTER, spare, another]) == {MASTER.id, another.id}
    assert release_order([MASTER, later, spare, another]) == [spare, later, MASTER, another]


@pytest.mark.parametrize(
    ("amount", "used", "leaving", "gone"),
    [
        pytest.param(Amount(0, 1), {}, (), [SPARE], id="a little takes one"),
        pytest.param(Amount(0, 1500 * MIB), {}, (), [SPARE, YOUNG], id="as many as are needed"),
        pytest.param(Amount(2000, 0), {}, (), [SPARE, YOUNG], id="by CPU"),
        pytest.param(Amount(0, 1500 * MIB), {}, (SPARE.id,), [YOUNG], id="a container on the way out counts"),
        pytest.param(Amount(0, 900 * MIB), {}, (SPARE.id,), [], id="and no other goes instead"),
        pytest.param(
            Amount(0, 1024 * MIB),
            {SPARE.id: Amount(1000, 0)},
            (),
            [YOUNG],
            id="what would free nothing is left alone",
        ),
        pytest.param(
            Amount(0, 1 << 50), {}, (), [SPARE, YOUNG, OLD, MASTER], id="everything, where that is not enough"
        ),
    ],
)
def test_as_few_go_as_release_the_amount(
    amount: Amount, used: dict[str, Amount], leaving: tuple[str, ...], gone: list[YarnContainer]
) -> None:
    assert to_release(ALL, amount, used, leaving) == [container.id for container in gone]


@pytest.mark.parametrize(
    "answer",
    [
        {"containers": None},
        {"containers": {}},
        {"containers": {"container": None}},
        {"containers": {"container": [{"id": "../../etc"}]}},
    ],
)
def test_a_node_manager_may_have_no_containers(answer: Any) -> None:
    assert listed(answer) == []


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        None,
        {"RemoteException": {"message": "starting"}},
        {"containers": 7},
        {"containers": {"container": "none"}},
        {"containers": {"container": [7]}},
        {"containers": {"container": [{"id": 7}]}},
    ],
)
def test_what_is_no_list_of_containers_is_not_an_empty_one(answer: Any) -> None:
    """All that runs would be ended as unknown."""
    with pytest.raises(NotListed):
        listed(answer)


def test_containers_that_have_ended_are_not_listed() -> None:
    one = {"id": OLD.id, "state": "RUNNING", "totalVCoresNeeded": 1, "totalMemoryNeededMB": 512}
    gone = {**one, "id": YOUNG.id, "state": "EXITED_WITH_SUCCESS"}
    assert [container.id for container in listed({"containers": {"container": [one, gone]}})] == [OLD.id]


@dataclass
class NodeManager:
    """Its web services, its pid files, and sessions of real processes."""

    local: Path
    port: int = 0
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    execution: dict[str, str] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)

    def start(self, container_id: str, execution: str = "GUARANTEED", script: str = "sleep 300 & wait") -> None:
        self.execution[container_id] = execution
        # A shell with a child, as a container's script has.
        environment = {**os.environ, "CONTAINER_ID": container_id}
        process = subprocess.Popen(["sh", "-c", script], start_new_session=True, env=environment)
        self.running[container_id] = process
        self.pid_file(container_id).write_text(f"{process.pid}\n")

    def pid_file(self, container_id: str) -> Path:
        directory = self.local / "nmPrivate" / f"application_{APPLICATION}" / container_id
        directory.mkdir(parents=True, exist_ok=True)
        return directory / f"{container_id}.pid"

    def alive(self) -> list[str]:
        return [each for each, process in self.running.items() if process.poll() is None]

    async def answer(self, _: web.Request) -> web.Response:
        items = [
            {
                "id": each,
                "state": "RUNNING",
                "totalVCoresNeeded": 2,
                "totalMemoryNeededMB": 512,
                "executionType": self.execution[each],
            }
            for each in self.alive()
            if each not in self.forgotten
        ]
        return web.json_response({"containers": {"container": items} if items else {}})

    def end(self) -> None:
        for process in self.running.values():
            if process.poll() is None:
                os.killpg(process.pid, 9)
            process.wait()


@asynccontextmanager
async def node_manager(tmp_path: Path) -> AsyncIterator[NodeManager]:
    found = NodeManager(tmp_path / "local")
    app = web.Application()
    app.router.add_get("/ws/v1/node/containers", found.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.port = runner.addresses[0][1]
    try:
        yield found
    finally:
        found.end()
        await runner.cleanup()


@pytest.fixture
def cgroups() -> Iterator[Cgroups]:
    with real_cgroups() as found:
        yield found


async def asked(socket: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
    connector = aiohttp.UnixConnector(path=socket)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.request(method, f"http://copilot{path}", json=body) as answer,
    ):
        return answer.status, json.loads(await answer.read())


@pytest.mark.root
async def test_containers_of_the_default_executor_are_moved_below_best_effort_and_end_in_order(
    tmp_path: Path, cgroups: Cgroups
) -> None:
    socket = str(tmp_path / "copilot.sock")
    async with node_manager(tmp_path) as nm:
        placing = Placing(cgroups, CgroupDriver.CGROUPFS, [str(nm.local)])
        copilot = Copilot(f"127.0.0.1:{nm.port}", placing, SystemClock())
        serving = asyncio.create_task(serve(copilot, socket))
        try:
            nm.start(MASTER.id)
            nm.start(SPARE.id, "OPPORTUNISTIC")
            await asyncio.sleep(0.02)  # The kernel tells starts apart by its ticks.
            nm.start(OLD.id)
            await eventually(lambda: all(len(placing.processes(each)) == 2 for each in nm.alive()))
            assert os.stat(socket).st_mode & 0o077 == 0, "it is root's alone"
            status, containers = await asked(socket, "GET", "/v1/containers")
            assert status == 200
            assert [container["name"] for container in containers] == [SPARE.id, OLD.id, MASTER.id]
            assert containers[0]["cgroupDir"] == f"kubepods/besteffort/hadoop-yarn/{SPARE.id}"
            assert containers[0]["resources"]["requests"] == {"cpu": "2", "memory": "512Mi"}
            in_memory = cgroups.processes(containers[0]["cgroupDir"], "memory")
            assert sorted(in_memory) == sorted(placing.processes(SPARE.id))
            assert await asked(socket, "GET", "/information") == (200, {"name": "yarn", "version": "v1"})
            status, gone = await asked(socket, "POST", "/v1/killContainersByResource", {"resources": {"cpu": "3"}})
            assert {item["uid"] for item in gone["items"]} == {SPARE.id, OLD.id}
            await eventually(lambda: nm.alive() == [MASTER.id])
            await eventually(lambda: cgroups.children(placing.directory) == [MASTER.id])
            status, gone = await asked(socket, "POST", "/v1/killContainer", {"containerID": MASTER.id})
            assert (status, [item["name"] for item in gone["items"]]) == (200, [MASTER.id])
            await eventually(lambda: nm.alive() == [])
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
        assert not os.path.exists(socket)  # noqa: ASYNC240 - instant


@pytest.mark.root
async def test_processes_that_outlive_their_container_are_ended_after_a_while(tmp_path: Path, cgroups: Cgroups) -> None:
    clock = ManualClock()
    async with node_manager(tmp_path) as nm:
        copilot = Copilot(f"127.0.0.1:{nm.port}", Placing(cgroups, CgroupDriver.CGROUPFS, [str(nm.local)]), clock)
        for each in (OLD.id, YOUNG.id):
            nm.start(each)
        await copilot.round()
        # A NodeManager that was killed starts again, and knows of one of the two.
        nm.forgotten.add(OLD.id)
        await copilot.round()
        clock.advance(29)
        await copilot.round()
        assert len(nm.alive()) == 2
        clock.advance(1)
        await copilot.round()
        await eventually(lambda: nm.alive() == [YOUNG.id])


@dataclass
class NativeExecutor:
    """Puts processes into cgroups of CPU alone, as Hadoop 2's does, below the hierarchy that it is configured with."""

    cgroups: Cgroups
    directory: str

    def place(self, container_id: str, pid: int) -> None:
        path = Path(self.cgroups.files.path(self.cgroups.name("cpu", f"{self.directory}/{container_id}")))
        path.mkdir(parents=True)
        (path / "cgroup.procs").write_text(str(pid))


@pytest.mark.root
@pytest.mark.parametrize("sync", [False, True], ids=["as it is", "with memory"])
async def test_containers_of_the_native_executor_are_found_where_it_put_them(
    tmp_path: Path, cgroups: Cgroups, sync: bool
) -> None:
    if cgroups.version is Version.V2:
        pytest.skip("version 2 of cgroups has one tree for CPU and memory")
    async with node_manager(tmp_path) as nm:
        placing = Placing(cgroups, CgroupDriver.CGROUPFS, [], sync_memory=sync)
        executor = NativeExecutor(cgroups, "kubepods/besteffort/hadoop-yarn")
        copilot = Copilot(f"127.0.0.1:{nm.port}", placing, SystemClock())
        for each in (OLD.id, YOUNG.id):
            nm.start(each)
            executor.place(each, nm.running[each].pid)
            await asyncio.sleep(0.02)  # The kernel tells starts apart by its ticks.
        await copilot.round()
        assert [container.id for container in copilot.containers] == [YOUNG.id, OLD.id]
        in_memory = cgroups.children(placing.directory, "memory") if sync else []
        assert sorted(in_memory) == (sorted([OLD.id, YOUNG.id]) if sync else [])
        if sync:
            assert nm.running[OLD.id].pid in cgroups.processes(placing.of(OLD.id), "memory")
            limit = Path(cgroups.files.path(cgroups.name("memory", placing.of(OLD.id)))) / "memory.limit_in_bytes"
            assert int(limit.read_text()) == 512 * MIB
        copilot.kill(YOUNG.id)
        await eventually(lambda: nm.alive() == [OLD.id])
        nm.end()

        # A process that was killed leaves its cgroup when the kernel comes to it: what is busy until then, a later
        # round removes.
        async with asyncio.timeout(60):
            while cgroups.children(placing.directory) or (sync and cgroups.children(placing.directory, "memory")):
                await copilot.round()


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/v1/killContainer", {"containerID": "container_1_1_1_9"}, "there is no container"),
        ("/v1/killContainersByResource", {}, "must name cpu or memory"),
        ("/v1/killContainersByResource", {"resources": {"cpu": "much"}}, "is not a quantity"),
        ("/v1/killContainersByResource", [], "object"),
    ],
)
async def test_a_bad_request_is_answered_with_400_and_ends_nothing(
    tmp_path: Path, path: str, body: object, says: str
) -> None:
    socket = str(tmp_path / "copilot.sock")
    placing = Placing(Cgroups.of(_files(tmp_path)), CgroupDriver.CGROUPFS, [])
    serving = asyncio.create_task(serve(Copilot("127.0.0.1:1", placing, SystemClock()), socket))
    try:
        await eventually(lambda: Path(socket).exists())
        status, text = await asked(socket, "POST", path, body)
        assert (status, says in text) == (400, True), text
        assert (await asked(socket, "GET", "/v1/containers"))[0] == 400
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_a_second_copilot_is_refused_and_takes_the_first_ones_socket_from_nobody(tmp_path: Path) -> None:
    socket, ready = str(tmp_path / "copilot.sock"), asyncio.Event()
    placing = Placing(Cgroups.of(_files(tmp_path)), CgroupDriver.CGROUPFS, [])
    first, second = (Copilot("127.0.0.1:1", placing, SystemClock()) for _ in range(2))
    serving = asyncio.create_task(serve(first, socket, ready.set))
    try:
        await asyncio.wait([serving, asyncio.create_task(ready.wait())], return_when=asyncio.FIRST_COMPLETED)
        with pytest.raises(BadInput, match="another process listens"):
            await serve(second, socket)
        assert (await asked(socket, "GET", "/information"))[0] == 200
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_what_is_no_node_manager_is_told_so(tmp_path: Path) -> None:
    async with node_manager(tmp_path) as nm:
        placing = Placing(Cgroups.of(_files(tmp_path)), CgroupDriver.CGROUPFS, [])
        with pytest.raises(YarnUnreachable, match="cannot be reached"):
            await Copilot("127.0.0.1:1", placing, SystemClock()).round()
        wrong = Copilot(f"127.0.0.1:{nm.port}/else", placing, SystemClock())
        with pytest.raises(YarnUnreachable, match="--node-manager"):
            await wrong.round()


def _files(root: Path) -> Any:
    from koord.agent.host.files import Files

    return Files(str(root))


def test_the_command_says_what_an_address_must_look_like(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["yarn", "copilot", "--node-manager", "here"]) == 2
    assert "must be HOST:PORT" in capsys.readouterr().err


@pytest.mark.root
def test_containers_with_more_vcores_than_shares_can_tell_have_the_most(cgroups: Cgroups) -> None:
    placing = Placing(cgroups, CgroupDriver.CGROUPFS, [])
    Path(cgroups.files.path(cgroups.name("cpu", placing.directory))).mkdir(parents=True)
    for vcores, shares in ((3, 3072), (300, 262_144)):
        placing.place([replace(OLD, needs=of_yarn(vcores, 1))])
        assert cgroups.get(CPU_SHARES, placing.directory) == pytest.approx(shares, rel=0.01)


@pytest.mark.root
async def test_processes_that_fork_away_are_still_their_containers(tmp_path: Path, cgroups: Cgroups) -> None:
    async with node_manager(tmp_path) as nm:
        placing = Placing(cgroups, CgroupDriver.CGROUPFS, [str(nm.local)])
        copilot = Copilot(f"127.0.0.1:{nm.port}", placing, SystemClock())
        # One child with a session of its own, and one that has lost its parent as well; both say who they are.
        said = tmp_path / "pids"
        away = f"(setsid sh -c 'echo $$ >>{said}; exec sleep 300' &); setsid sh -c 'echo $$ >>{said}; exec sleep 300' &"
        nm.start(OLD.id, script=f"{away} wait")
        await eventually(lambda: said.exists() and len(said.read_text().split()) == 2)
        forked = [int(part) for part in said.read_text().split()]
        try:
            await copilot.round()
            assert set(forked) | {nm.running[OLD.id].pid} <= set(placing.processes(OLD.id))
            copilot.kill(OLD.id)
            await eventually(lambda: not placing.processes(OLD.id))
        finally:
            for each in forked:
                with suppress(ProcessLookupError):
                    os.kill(each, 9)


def stranger(user: int, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "300"], start_new_session=True, user=user, env=environment)


@pytest.mark.root
async def test_a_pid_file_that_names_somebody_else_moves_and_ends_nobody(tmp_path: Path, cgroups: Cgroups) -> None:
    strangers = [stranger(0), stranger(65534), stranger(0, CONTAINER_ID=YOUNG.id)]
    try:
        async with node_manager(tmp_path) as nm:
            placing = Placing(cgroups, CgroupDriver.CGROUPFS, [str(nm.local)])
            copilot = Copilot(f"127.0.0.1:{nm.port}", placing, SystemClock())
            nm.start(OLD.id)
            file = nm.pid_file(OLD.id)
            named = [os.getpid(), os.getsid(0), os.getppid(), 1, 2, *(stranger.pid for stranger in strangers)]
            for text in ("0", "-1", "²", "9" * 5000, "", "1 2", *map(str, named)):
                file.write_text(text)
                await copilot.round()
                assert placing.processes(OLD.id) == (), text
            # What would never end to be read, or leads elsewhere.
            file.unlink()
            os.mkfifo(file)
            await copilot.round()
            file.unlink()
            file.symlink_to("/proc/self/stat")
            await copilot.round()
            copilot.kill(OLD.id)
            assert [stranger.poll() for stranger in strangers] == [None] * 3
            assert nm.alive() == [OLD.id]
    finally:
        for each in strangers:
            each.kill()
            each.wait()


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        yield Path(directory)


@pytest.mark.root
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
async def test_containers_of_another_user_are_known_with_the_capabilities_of_a_pod(open_to_all: Path) -> None:
    # The NodeManager's user starts a script that names the container, and that one a session that does not.
    folder = open_to_all / OLD.id
    folder.mkdir()
    script, file = folder / "default_container_executor.sh", folder / "pid"
    script.write_text(f"setsid sh -c 'echo $$ >{file}; exec sleep 60' & wait")
    os.chown(folder, 65534, 65534)
    running = await asyncio.create_subprocess_exec("sh", str(script), user=65534, start_new_session=True)
    try:
        await eventually(lambda: file.exists() and file.read_text().strip().isdigit())
        program = (
            "import sys, pathlib; from koord.yarn.live.processes import ProcessTable, written\n"
            "named = written(pathlib.Path(sys.argv[1])); table = ProcessTable.read()\n"
            "print(*(table.is_of(named, each) for each in sys.argv[2:]))"
        )
        kept = ",".join(f"+{name.lower()}" for name, _ in CAPABILITIES)
        command = ("setpriv", f"--bounding-set=-all,{kept}", sys.executable, "-c", program, str(file), OLD.id, YOUNG.id)
        asked = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        said, _ = await asked.communicate()
        assert said.split() == [b"True", b"False"]
    finally:
        with suppress(ValueError, OSError):
            os.kill(int(file.read_text()), 9)
        running.kill()
        await running.wait()
