"""`kubectl attach`: what a container writes from now on, and what the client types, if the container takes it.

The output is read from the log, where stdout and stderr are one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from koord_minicluster.kubelet.live.streaming import CommandStreams
from koord_minicluster.kubelet.streams import ended, window_sizes
from koord_minicluster.local.live import pod_logs
from koord_minicluster.local.live.console import Console

LOOK_S: Final = 0.2
LOOK_WHILE_TYPING_S: Final = 0.02


async def attach(console: Console, log_file: Path, is_running: Callable[[], bool], streams: CommandStreams) -> bytes:
    """Until the container ends; gives the last word on the error channel."""
    output = streams.stdout or streams.stderr
    offset = pod_logs.size(log_file)
    typing = [asyncio.create_task(_feed(console, streams)), asyncio.create_task(_resize(console, streams))]
    try:
        runs = True
        while runs:
            await asyncio.sleep(LOOK_S if streams.stdin is None else LOOK_WHILE_TYPING_S)
            # Looked at before the log: what it wrote last belongs to it.
            runs = is_running()
            if output is not None:
                offset = await pod_logs.follow(log_file, offset, output.write)
        return ended(0)
    finally:
        for task in typing:
            task.cancel()
        await asyncio.gather(*typing, return_exceptions=True)
        if streams.stdin is not None:
            await console.end_input()


async def _feed(console: Console, streams: CommandStreams) -> None:
    if streams.stdin is None or console.own is None:
        return
    with suppress(OSError):
        while piece := await streams.stdin.read():
            await console.own.write(piece)
    await console.end_input()


async def _resize(console: Console, streams: CommandStreams) -> None:
    left = b""
    while streams.resize is not None and console.own is not None and (piece := await streams.resize.read()):
        sizes, left = window_sizes(left + piece)
        for size in sizes:
            console.own.resize(size)
