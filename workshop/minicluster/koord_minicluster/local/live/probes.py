"""Asks a container whether it has started, is ready, is alive: by a command, over HTTP, or by a port that opens."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

import aiohttp

from koord.api.kubernetes.runnable import Probe, RunnableContainer
from koord.api.text.whole_number import natural_number
from koord_minicluster.local.live.processes import StartError, spawn

log = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"
ANSWERED: Final = "koord_local_answer_seconds"
"""A histogram by QoS class, of how long containers took to answer."""
ANSWERED_BUCKETS: Final = tuple(round(base * 10**power, 6) for power in range(-4, 1) for base in (1, 1.5, 2.5, 4, 6.5))

Changed = Callable[[bool], None]
Answered = Callable[[float], None]


async def watch(
    probe: Probe,
    container: RunnableContainer,
    env: Mapping[str, str],
    enter: Callable[[], None],
    on_change: Changed,
    answered: Answered = lambda seconds: None,
) -> None:
    """Probes until cancelled. Calls `told` on each change: true after `success_threshold` successes in a row, false
    after `failure_threshold` failures.

    Calls `answered` with the time that the service itself took, for probes over the network.
    """
    await asyncio.sleep(probe.initial_delay_seconds)
    in_a_row, was, last = 0, None, None
    while True:
        is_ok = await ask(probe, container, env, enter, answered)
        in_a_row = in_a_row + 1 if is_ok == was else 1
        was = is_ok
        needed = probe.success_threshold if is_ok else probe.failure_threshold
        if in_a_row >= needed and is_ok != last:
            last = is_ok
            on_change(is_ok)
        await asyncio.sleep(max(probe.period_seconds, 1))


async def ask(
    probe: Probe,
    container: RunnableContainer,
    env: Mapping[str, str],
    enter: Callable[[], None],
    answered: Answered = lambda seconds: None,
) -> bool:
    try:
        async with asyncio.timeout(max(probe.timeout_seconds, 1)):
            if probe.exec is not None:
                return await _command(probe.exec.command, env, enter)
            if probe.http_get is not None:
                asked = probe.http_get
                host, port = asked.host or LOOPBACK, _port(container, asked.port)
                url = f"{asked.scheme.lower()}://{host}:{port}/{asked.path.lstrip('/')}"
                headers = {header.name: header.value for header in asked.http_headers}
                return await _get(url, headers, answered)
            if probe.tcp_socket is not None:
                target = probe.tcp_socket
                began = time.perf_counter()
                is_ok = await _opens(target.host or LOOPBACK, _port(container, target.port))
                answered(time.perf_counter() - began)
                return is_ok
    except (TimeoutError, OSError, aiohttp.ClientError, StartError):
        return False
    except Exception:
        # Whatever a user can write into a probe concerns this container alone.
        log.exception("the probe of container %s cannot be made and counts as failed", container.name)
        return False
    # What cannot be asked here is not held against the container.
    return True


async def _command(argv: tuple[str, ...], env: Mapping[str, str], enter: Callable[[], None]) -> bool:
    process = await spawn(argv, env, enter)
    try:
        return await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _get(url: str, headers: Mapping[str, str], answered: Answered) -> bool:
    async with aiohttp.ClientSession() as session:
        began = time.perf_counter()
        async with session.get(url, headers=headers, ssl=_trusting(), allow_redirects=False) as answer:
            await answer.read()
            answered(time.perf_counter() - began)
            return 200 <= answer.status < 400


@cache
def _trusting() -> ssl.SSLContext:
    """A probe checks that a server answers, not its identity."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def _opens(host: str, port: int) -> bool:
    _, writer = await asyncio.open_connection(host, port)
    writer.close()
    await writer.wait_closed()
    return True


def _port(container: RunnableContainer, port: int | str) -> int:
    """A number, or the name of one of the container's ports."""
    if isinstance(port, int):
        return port
    if (number := natural_number(port)) is not None:
        return number
    return next((named_port.container_port for named_port in container.ports if named_port.name == port), 0)
