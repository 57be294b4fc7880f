"""The last resort: ends all processes of some cgroups at once, without asking them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable

from koord.agent.host.cgroups import Cgroups


def kill_all(cgroups: Cgroups, directories: Iterable[str]) -> int:
    """Returns the number of killed processes. A process that ends by itself or a missing directory is not an error."""
    killed = 0
    for directory in directories:
        try:
            processes = cgroups.processes(directory)
        except FileNotFoundError:
            continue
        for pid in processes:
            try:
                os.kill(pid, signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                continue
    return killed
