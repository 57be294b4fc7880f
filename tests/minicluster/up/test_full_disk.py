"""A disk that takes no writes costs files of `koord up`, never what runs."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from koord.api.machinery.faults import BadInput
from koord.operate.endpoints import read_endpoints
from koord_chaos.faults.live.small_disk import small_disk
from koord_minicluster.up import run as up_run
from koord_minicluster.up.data_dir import DataDir
from koord_minicluster.up.plan import Component, UpOptions
from koord_minicluster.up.run import Up
from koord_minicluster.up.supervisor import Supervisor
from tests.minicluster.up.test_end_to_end import up
from tests.minicluster.up.test_supervisor import COMMAND, alive
from tests.waiting import eventually, until


@pytest.mark.root
async def test_a_full_disk_loses_files_and_no_component(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up_run, "RETRY_S", 0.01)
    with small_disk(tmp_path / "disk", "1m") as disk, DataDir(disk.path / "data") as data:
        running = Up(UpOptions(), data)
        supervisor = running.supervisor = Supervisor(
            [Component("c0", ("serves",))], data, on_change=running._write_endpoints, command=COMMAND
        )
        supervising = asyncio.create_task(supervisor.run())
        try:
            await asyncio.wait_for(supervisor.ready(), 60)
            child = supervisor.children["c0"]
            data.log_file("c0").unlink()
            disk.fill()
            killed = child.pid
            os.kill(killed, signal.SIGKILL)
            await eventually(lambda: child.state == "ready" and child.pid != killed)
            assert not supervising.done()
            before = read_endpoints(data.path)
            assert before is not None
            assert before.components["c0"].pid == killed
            data.keep_port(6443)
            disk.make_room()

            def is_written() -> bool:
                after = read_endpoints(data.path)
                return after is not None and after.components["c0"].pid == child.pid

            await eventually(is_written)
            disk.fill()
        finally:
            supervising.cancel()
            await asyncio.wait([supervising])
        assert not alive(child.pid)


@pytest.mark.root
def test_a_directory_on_a_full_disk_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        disk.fill()
        with pytest.raises(BadInput, match="No space left on device; make room there, or give another --data-dir"):
            DataDir(disk.path / "data").__enter__()


async def test_a_machine_without_room_for_a_process_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, refusals = asyncio.create_subprocess_exec, iter([True, True])

    async def refuse_twice(*args: str, **options: object) -> asyncio.subprocess.Process:
        if next(refusals, False):
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return await start(*args, **options)  # type: ignore[arg-type]  # the original call

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse_twice)
    with DataDir(tmp_path) as data:
        supervisor = Supervisor([Component("c0", ("serves",))], data, command=COMMAND)
        supervising = asyncio.create_task(supervisor.run())
        try:
            await asyncio.wait_for(supervisor.ready(), 60)
            child = supervisor.children["c0"]
            assert (child.state, child.ended) == ("ready", "could not be started: Resource temporarily unavailable")
        finally:
            supervising.cancel()
            await asyncio.wait([supervising])


@pytest.mark.root
def test_a_cluster_on_a_full_disk_serves_again_when_there_is_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "8m") as disk, up(disk.path / "data", "--nodes", "1") as cluster:
        pids = {name: cluster.component(name)["pid"] for name in ("apiserver", "controllers")}
        before = children_of(cluster.process.pid)
        disk.fill()
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
        until(lambda: children_of(cluster.process.pid) - before)
        assert cluster.process.poll() is None
        disk.make_room()

        def is_back() -> bool:
            components = [cluster.component(name) for name in pids]
            return all(
                component["state"] == "ready" and component["pid"] not in pids.values() for component in components
            )

        until(is_back)
        assert cluster.stop() == 0


def children_of(pid: int) -> set[str]:
    return set(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
