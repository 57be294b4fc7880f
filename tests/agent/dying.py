"""An agent that is killed at one of its writes, by SIGKILL, in a process of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from koord.agent.host.cgroups import Cgroups


def killed_at(work: Callable[[Callable[[Cgroups], None]], None], step: int, *, is_after: bool) -> bool:
    """Whether it wrote so often, and died there: before the write or right after it. `work` hands its cgroups to what
    it is given before it writes."""
    pid = os.fork()
    if pid == 0:
        try:
            work(lambda cgroups: _dies(cgroups, step, is_after))
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


def _dies(cgroups: Cgroups, step: int, is_after: bool) -> None:
    put, left = cgroups.put, [step]

    def counted(*given: Any) -> None:
        left[0] -= 1
        if left[0] < 0 and not is_after:
            os.kill(os.getpid(), signal.SIGKILL)
        put(*given)
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    cgroups.put = counted  # type: ignore[method-assign,assignment]  # in this process alone
