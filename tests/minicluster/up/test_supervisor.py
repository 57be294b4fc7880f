"""The supervisor with small programs instead of components: real processes, real signals."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from koord.kube.program import own_program
from koord_minicluster.up.data_dir import DataDir
from koord_minicluster.up.plan import Component
from koord_minicluster.up.supervisor import Failed, Supervisor
from tests.waiting import eventually

PROGRAM = textwrap.dedent(
    """
    import os, signal, sys, time
    from koord.kube import tether
    name, behaviour = sys.argv[1:3]
    if behaviour == "fails":
        print("the disk is full", file=sys.stderr)
        sys.exit(3)
    tether.hold()
    if behaviour == "slow":
        signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), open(name, "w").close(), os._exit(0)))
    if behaviour == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("not for the supervisor")
    tether.say_ready({"api": name})
    time.sleep(300)
    """
)
COMMAND = (sys.executable, "-c", PROGRAM)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@asynccontextmanager
async def supervised(data: DataDir, *behaviours: str, stop_within_s: float = 3.0) -> AsyncIterator[Supervisor]:
    plan = [Component(f"c{number}", (behaviour,), stop_within_s) for number, behaviour in enumerate(behaviours)]
    supervisor = Supervisor(plan, data, command=COMMAND)
    running = asyncio.create_task(supervisor.run())
    ready = asyncio.create_task(supervisor.ready())
    try:
        await asyncio.wait({running, ready}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running
        yield supervisor
    finally:
        ready.cancel()
        running.cancel()
        await asyncio.wait([running])


async def test_components_are_ready_when_they_say_so_and_gone_at_the_end(tmp_path: Path) -> None:
    with DataDir(tmp_path) as data:
        async with supervised(data, "serves", "serves") as supervisor:
            assert [child.state for child in supervisor.children.values()] == ["ready", "ready"]
            assert supervisor.children["c1"].endpoints == {"api": "c1"}
            pids = [child.pid for child in supervisor.children.values()]
        assert not any(map(alive, pids))
        assert [child.state for child in supervisor.children.values()] == ["stopped", "stopped"]


async def test_a_component_that_is_killed_is_started_again(tmp_path: Path) -> None:
    with DataDir(tmp_path) as data:
        async with supervised(data, "serves", "serves") as supervisor:
            child = supervisor.children["c1"]
            killed = child.pid
            os.kill(killed, signal.SIGKILL)
            await eventually(lambda: child.state == "ready" and child.pid != killed)
            assert child.restarts == 1
            assert child.ended == "was ended by SIGKILL"
            assert supervisor.children["c0"].restarts == 0


async def test_one_that_never_serves_ends_the_whole_and_says_why(tmp_path: Path) -> None:
    with DataDir(tmp_path) as data:
        with pytest.raises(ExceptionGroup) as caught:
            async with supervised(data, "serves", "fails"):
                pass
        (error,) = caught.value.exceptions
        assert isinstance(error, Failed)
        assert "c1 ended with code 3" in str(error)
        assert "the disk is full" in str(error)


async def test_one_that_does_not_stop_is_killed_in_the_end(tmp_path: Path) -> None:
    with DataDir(tmp_path) as data:
        async with supervised(data, "deaf", stop_within_s=0.3) as supervisor:
            pid = supervisor.children["c0"].pid
            began = time.monotonic()
        assert time.monotonic() - began < 30
        assert not alive(pid)


async def test_one_that_has_something_to_clear_away_gets_the_time_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with DataDir(tmp_path / "data") as data:
        async with supervised(data, "slow", stop_within_s=20.0):
            pass
    assert (tmp_path / "c0").exists()


async def test_components_do_not_outlive_a_supervisor_that_was_killed(tmp_path: Path) -> None:
    """The supervisor's end closes the tether, whatever ended it."""
    program = textwrap.dedent(
        f"""
        import asyncio, sys
        from pathlib import Path
        from koord_minicluster.up.data_dir import DataDir
        from koord_minicluster.up.plan import Component
        from koord_minicluster.up.supervisor import Supervisor
        async def main():
            with DataDir(Path(sys.argv[1])) as data:
                command = (sys.executable, "-c", {PROGRAM!r})
                supervisor = Supervisor([Component("c0", ("serves",))], data, command=command)
                running = asyncio.create_task(supervisor.run())
                await supervisor.ready()
                print(supervisor.children["c0"].pid, flush=True)
                await running
        asyncio.run(main())
        """
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(tmp_path), stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(await asyncio.wait_for(parent.stdout.readline(), 60))
    assert alive(pid)
    parent.kill()
    await parent.wait()
    await eventually(lambda: not alive(pid))


async def test_a_component_is_started_again_while_its_children_hold_its_output(tmp_path: Path) -> None:
    """As with a node's runtime that is killed while its pods live."""
    program = PROGRAM.replace(
        "time.sleep(300)",
        "import subprocess; child = subprocess.Popen(['sleep', '60']); print(child.pid, file=sys.stderr, flush=True)\n"
        "time.sleep(300)",
    )
    with DataDir(tmp_path) as data:
        supervisor = Supervisor([Component("c0", ("serves",))], data, command=(sys.executable, "-c", program))
        running = asyncio.create_task(supervisor.run())
        try:
            await asyncio.wait_for(supervisor.ready(), 60)
            child = supervisor.children["c0"]
            await eventually(lambda: len(data.log_tail("c0")) == 1)
            killed = child.pid
            os.kill(killed, signal.SIGKILL)
            await eventually(lambda: child.pid != killed and child.state == "ready")
            assert child.ended == "was ended by SIGKILL"
            await eventually(lambda: len(data.log_tail("c0")) == 2)
        finally:
            running.cancel()
            await asyncio.wait([running])
            for pid in map(int, data.log_tail("c0")):
                os.kill(pid, signal.SIGKILL)


def test_a_folder_of_the_same_name_where_it_is_started_is_not_the_program(tmp_path: Path) -> None:
    (tmp_path / "koord").mkdir()
    (tmp_path / "koord" / "__init__.py").write_text("raise SystemExit('somebody else')")
    done = subprocess.run([*own_program(), "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Run a whole cluster" in done.stdout
