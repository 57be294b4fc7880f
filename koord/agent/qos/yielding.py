"""Whether best effort yields: with the least weight it gets only what no other task would use, so no quota is needed.

Asked by strategies that set quotas below best effort: each time that it gets new quota, it can keep a service off its
CPU until the next tick. Where it yields, quotas are counted by long periods.
"""

from __future__ import annotations

from koord.agent.host import usage
from koord.agent.host.cgroups import Cgroups
from koord.agent.host.convert import LEAST_SHARES, UNLIMITED
from koord.agent.host.knobs import CPU_IDLE, CPU_SHARES
from koord.api.kubernetes.cgroup import CgroupDriver, qos_dir
from koord.api.kubernetes.words import KubeQoS


def best_effort_yields(cgroups: Cgroups, driver: CgroupDriver) -> bool:
    """Not where a quota of the whole node is for all: there it takes from others what it uses early."""
    best_effort = qos_dir(KubeQoS.BEST_EFFORT, driver)
    if not _is_idle(cgroups, best_effort) and cgroups.get(CPU_SHARES, best_effort) != LEAST_SHARES:
        return False
    return not cgroups.root or usage.cpu_quota_us(cgroups, "") == UNLIMITED


def _is_idle(cgroups: Cgroups, directory: str) -> bool:
    """Set by another program: the kernel then shows no shares."""
    return cgroups.has(CPU_IDLE, directory) and cgroups.get(CPU_IDLE, directory) == 1
