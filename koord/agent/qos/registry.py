"""The strategies, in the order in which they are asked, after the hooks.

Of two that disagree on a setting the later one counts: suppression over a hook's CPUs, burst over a normalised quota,
and what holds one pod back for another over all.
"""

from __future__ import annotations

from typing import Any, Final

from koord.agent.qos import (
    block_io,
    cold_memory,
    core_sched,
    cpu_burst,
    cpu_evict,
    cpu_suppress,
    interference,
    memory_evict,
    memory_qos,
    network,
    resctrl,
    system_config,
)
from koord.agent.qos.strategy import Strategy

STRATEGIES: Final[tuple[Strategy[Any, Any], ...]] = (
    system_config.STRATEGY,
    cold_memory.STRATEGY,
    memory_qos.STRATEGY,
    block_io.STRATEGY,
    network.CLASSES,
    network.TERWAY,
    resctrl.STRATEGY,
    core_sched.STRATEGY,
    cpu_burst.STRATEGY,
    cpu_suppress.STRATEGY,
    cpu_evict.STRATEGY,
    memory_evict.STRATEGY,
    interference.STRATEGY,
)
