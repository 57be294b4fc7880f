"""Asks a container whether it has started, is ready, is alive: by a command, over HTTP, or by a port that opens."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Final

import aiohttp

from koord.api.runnable import Probe, RunnableContainer

LOOPBACK: Final = "127.0.0.1"
Changed = Callable[[bool], None]


async def watch(
    probe: Probe, container: RunnableContainer, env: Mapping[str, str], enter: Callable[[], None], told: Changed
) -> None:
    """Asks until cancelled. `told` hears each change: true after so many successes, false after so many failures."""
    await asyncio.sleep(probe.initial_delay_seconds)
    in_a_row, was, last = 0, None, None
    while True:
        is_ok = await ask(probe, container, env, enter)
        in_a_row = in_a_row + 1 if is_ok == was else 1
        was = is_ok
        needed = probe.success_threshold if is_ok else probe.failure_threshold
        if in_a_row >= needed and is_ok != last:
            last = is_ok
            told(is_ok)
        await asyncio.sleep(max(probe.period_seconds, 1))


async def ask(probe: Probe, container: RunnableContainer, env: Mapping[str, str], enter: Callable[[], None]) -> bool:
    try:
        async with asyncio.timeout(max(probe.timeout_seconds, 1)):
            if probe.exec is not None:
                return await _command(probe.exec.command, env, enter)
            if probe.http_get is not None:
                asked = probe.http_get
                host, port = asked.host or LOOPBACK, _port(container, asked.port)
                url = f"{asked.scheme.lower()}://{host}:{port}/{asked.path.lstrip('/')}"
                headers = {each.name: each.value for each in asked.http_headers}
                return await _get(url, headers)
            if probe.tcp_socket is not None:
                target = probe.tcp_socket
                return await _opens(target.host or LOOPBACK, _port(container, target.port))
    except (TimeoutError, OSError, aiohttp.ClientError):
        return False
    # What cannot be asked here is not held against the container.
    return True


async def _command(argv: tuple[str, ...], env: Mapping[str, str], enter: Callable[[], None]) -> bool:
    null = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *argv, env=dict(env), stdin=null, stdout=null, stderr=null, preexec_fn=enter, start_new_session=True
    )
    try:
        return await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _get(url: str, headers: Mapping[str, str]) -> bool:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers, ssl=trusting, allow_redirects=False) as answer,
    ):
        return 200 <= answer.status < 400


async def _opens(host: str, port: int) -> bool:
    _, writer = await asyncio.open_connection(host, port)
    writer.close()
    await writer.wait_closed()
    return True


def _port(container: RunnableContainer, port: int | str) -> int:
    """A number, or the name of one of the container's ports."""
    if isinstance(port, int):
        return port
    if port.isdigit():
        return int(port)
    return next((each.container_port for each in container.ports if each.name == port), 0)
