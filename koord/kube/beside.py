"""Work beside a block: a background task that has an owner.

    async with beside(recorder.run(), name="event-recorder"):
        ...

The task ends with the block. If it fails, the block is cancelled and the failure is raised from it. So the component
ends, says why, and is restarted; it does not go on with a part of it dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None], *, name: str) -> AsyncIterator[asyncio.Task[None]]:
    """Runs `work` while the block runs. One error, the block's or the work's, is raised as it is; two as a group."""
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
