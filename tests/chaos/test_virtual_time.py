"""Virtual time: it passes while nothing happens, and only then; and a whole cluster in it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from koord_chaos.faults.live import virtual_time


def test_an_hour_passes_at_once_for_all_clocks() -> None:
    async def main() -> tuple[float, float]:
        wall_s, steady_s = time.time(), time.monotonic()
        await asyncio.sleep(3600)
        return time.time() - wall_s, time.monotonic() - steady_s

    began_s = time.monotonic()
    assert all(abs(passed_s - 3600) < 0.001 for passed_s in virtual_time.run(main()))
    assert time.monotonic() - began_s < 1000


def test_no_time_passes_while_a_thread_works_or_bytes_are_on_their_way() -> None:
    async def main() -> float:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readline())
            writer.close()

        began_s = time.monotonic()
        timer = asyncio.create_task(asyncio.sleep(3600))
        await asyncio.to_thread(os.stat, "/")
        async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
            for _ in range(20):
                reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                writer.write(b"there and back\n")
                assert await reader.readline() == b"there and back\n"
                writer.close()
        timer.cancel()
        return time.monotonic() - began_s

    assert virtual_time.run(main()) == 0


def test_faults_in_virtual_time_break_no_promise(tmp_path: Path) -> None:
    result = subprocess.run(
        [
            *(sys.executable, "-m", "koord", "chaos", "faults", "--virtual", "--seed", "5", "--rounds", "2"),
            *("--nodes", "2", "--at-once", "6", "--record", "run.jsonl"),
            *("--only", "kill,partition,lost-answers,gone,lease,clock"),
        ],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.endswith("2 rounds, 0 with a broken promise\n")
    outcomes = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert all(recovery["seconds"] is not None for outcome in outcomes for recovery in outcome["recoveries"])
