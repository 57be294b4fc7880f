"""Waiting in tests: for a condition that another task, thread or process brings about, never for a time.

`eventually` waits in a coroutine and `until` in a thread. Both return what the condition gave, and raise TimeoutError
if it does not hold in time, which is longer on a busy machine. A condition may fail the test at once by an assertion,
for example that a process still runs.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import TypeAlias, TypeVar, overload

from tests.crowd import crowd

Result = TypeVar("Result")

What: TypeAlias = str | Callable[[], str]
"""The condition in words, or the state that was reached instead."""

Errors: TypeAlias = type[Exception] | tuple[type[Exception], ...]
"""Errors of a condition which mean that it does not hold yet."""

WITHIN_S = 60.0
LONGEST_S = 240.0
"""Below the limit of a test, which cannot say what it waited for."""
FIRST_PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.1


@overload
async def eventually(
    condition: Callable[[], Awaitable[Result]], within_s: float = WITHIN_S, *, what: What = "", retry_on: Errors = ()
) -> Result: ...
@overload
async def eventually(
    condition: Callable[[], Result], within_s: float = WITHIN_S, *, what: What = "", retry_on: Errors = ()
) -> Result: ...
async def eventually(
    condition: Callable[[], object], within_s: float = WITHIN_S, *, what: What = "", retry_on: Errors = ()
) -> object:
    limit_s, pauses = _limit_s(within_s), _pauses()
    try:
        async with asyncio.timeout(limit_s):
            while True:
                with suppress(*_each(retry_on)):
                    if result := await _result(condition):
                        return result
                await asyncio.sleep(next(pauses))
    except TimeoutError as error:
        raise TimeoutError(_late(limit_s, what)) from error


def until(
    condition: Callable[[], Result], within_s: float = WITHIN_S, *, what: What = "", retry_on: Errors = ()
) -> Result:
    limit_s, pauses = _limit_s(within_s), _pauses()
    deadline_s = time.monotonic() + limit_s
    while True:
        with suppress(*_each(retry_on)):
            if result := condition():
                return result
        if time.monotonic() > deadline_s:
            raise TimeoutError(_late(limit_s, what))
        time.sleep(next(pauses))


async def always(condition: Callable[[], object], for_s: float) -> None:
    """Asserts a condition again and again, where nothing tells when the moment has passed at which it could break."""
    until_s, pauses, is_over = time.monotonic() + for_s, _pauses(), False
    while not is_over:
        is_over = time.monotonic() >= until_s
        assert await _result(condition)
        await asyncio.sleep(next(pauses))


async def turns(number: int = 20) -> None:
    """Other tasks of this loop run so often: for tests in which nothing waits for a time or another process."""
    for _ in range(number):
        await asyncio.sleep(0)


async def until_ready(task: asyncio.Task[None], ready: asyncio.Event) -> None:
    """A component is ready. If it ends before, its error is raised."""
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED, timeout=_limit_s(WITHIN_S))
    waiting.cancel()
    if task.done():
        task.result()
    assert ready.is_set(), "the component did not become ready"


async def forever() -> None:
    """Work that ends only if it is cancelled."""
    await asyncio.Event().wait()


async def _result(condition: Callable[[], object]) -> object:
    result = condition()
    return await result if inspect.isawaitable(result) else result


def _limit_s(within_s: float) -> float:
    return max(within_s, min(within_s * crowd(), LONGEST_S))


def _pauses() -> Iterator[float]:
    """Short ones at first: most conditions hold soon."""
    pause_s = FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(1.5 * pause_s, LONGEST_PAUSE_S)


def _each(errors: Errors) -> tuple[type[Exception], ...]:
    return errors if isinstance(errors, tuple) else (errors,)


def _late(limit_s: float, what: What) -> str:
    said = what() if callable(what) else what
    return f"not within {limit_s:.0f} s" + (f": {said}" if said else "")
