"""A background task that belongs to a block.

    async with background_task(recorder.run(), name="event-recorder"):
        ...

The task ends with the block. If it fails, the block is cancelled and the failure is raised from it. So the component
ends, logs why, and is restarted, instead of going on without one of its parts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def background_task(work: Coroutine[Any, Any, None], *, name: str) -> AsyncIterator[asyncio.Task[None]]:
    """Runs `work` while the block runs. One error, of the block or the work, is raised unwrapped; two as a group."""
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(work, name=name)
            try:
                yield task
            finally:
                task.cancel()
    except BaseExceptionGroup as errors:
        if len(errors.exceptions) > 1:
            raise
        # Without `from`, the traceback would show the error twice: once inside the group.
        raise errors.exceptions[0] from errors.exceptions[0].__cause__
