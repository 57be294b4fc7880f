"""The outermost shell of a component: runs its main coroutine, ends it on signals, and turns its end into an exit code.

The first SIGTERM or SIGINT cancels main, which then has its time to stop work, release leases and write events; a
second ends the process at once. Exit codes: 0 done, or stopped by SIGTERM; 130 stopped by Ctrl-C; 1 failed. What went
wrong is one message, also where it comes out of nested task groups.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from asyncio import sslproto
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from koord.api.machinery.codec import DecodeError
from koord.api.machinery.faults import BadInput
from koord.kube.cluster_config import ConfigError
from koord.kube.election import NotLeader
from koord.kube.errors import ApiError

log = logging.getLogger(__name__)

FAILED: Final = 1
BAD_INPUT: Final = 2
INTERRUPTED: Final = 128 + signal.SIGINT

EXPECTED: Final = (ApiError, ConfigError, DecodeError, BadInput, NotLeader, OSError)
"""Errors whose message says all: a traceback would only hide it."""


SMALL_BUFFER: Final = 16 << 10
"""What a TLS record holds."""


def run_component(main: Callable[[], Awaitable[int | None]], *, name: str = "koord", is_small: bool = False) -> int:
    """Runs `main` to its end and returns the process's exit code. `is_small`: its memory counts more than how fast it
    talks to the API server. asyncio's own loop takes 3 MiB less, most of it for the buffers of its connections."""
    if is_small:
        # Each connection has one, of 256 KiB otherwise.
        sslproto.SSLProtocol.max_size = SMALL_BUFFER
    with asyncio.Runner(loop_factory=None if is_small else loop_factory()) as runner:
        return runner.run(_supervise(main, name))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's event loop where it is installed (extra `speed`), else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _supervise(main: Callable[[], Awaitable[int | None]], name: str) -> int:
    loop = asyncio.get_running_loop()
    working = asyncio.ensure_future(main())
    received: list[signal.Signals] = []

    def on_signal(number: signal.Signals) -> None:
        received.append(number)
        if len(received) > 1:
            log.warning("%s again: ending at once", number.name, extra={"component": name})
            logging.shutdown()
            os._exit(128 + number)
        log.info("%s: stopping", number.name, extra={"component": name})
        working.cancel()

    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, on_signal, number)
    try:
        await asyncio.wait([working])
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
    if not working.cancelled():
        error = working.exception()
        if error is None:
            code = working.result() or 0
            return INTERRUPTED if signal.SIGINT in received else code
        _explain(error, name)
        return BAD_INPUT if all(isinstance(cause, BadInput) for cause in causes(error)) else FAILED
    if not received:
        log.error("cancelled without a signal to stop", extra={"component": name})
        return FAILED
    return INTERRUPTED if received[0] == signal.SIGINT else 0


def _explain(error: BaseException, name: str) -> None:
    seen: set[str] = set()
    for cause in causes(error):
        message = str(cause) or type(cause).__name__
        if message in seen:
            continue
        seen.add(message)
        if isinstance(cause, EXPECTED):
            log.error("%s", message, extra={"component": name})
        else:
            log.error("%s: %s", type(cause).__name__, message, exc_info=cause, extra={"component": name})


def causes(error: BaseException) -> Iterator[BaseException]:
    """The errors at the leaves of nested task groups, in order; an error that is no group is its own only cause."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from causes(inner)
    elif not isinstance(error, asyncio.CancelledError):
        yield error
