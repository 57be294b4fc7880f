"""Cycles per instruction of each service: how much its neighbours take of caches and memory bandwidth.

Ten seconds of every minute, by one group of counters for each pod and CPU. Where the machine has no unit that counts
(most virtual machines), it is asked once, and nothing else is done.
"""

from __future__ import annotations

import logging
from typing import Final

from koord.agent.collect.round import Round
from koord.agent.pods import AgentPod
from koord.agent.series import names
from koord.api.configuration.features import AgentGate

log = logging.getLogger(__name__)

EVERY_S: Final = 60.0
COUNTS_S: Final = 10.0
MOST_OPEN: Final = 8192
"""Counters: on a machine with many CPUs, the first pods have them."""


def collect(this: Round) -> None:
    sampling = this.cpi
    if not this.state.gates[AgentGate.CPI_COLLECTOR]:
        for group in sampling.groups.values():
            group.close()
        sampling.groups.clear()
        return
    if sampling.is_there is None:
        from koord.agent.host.perf import has_cycles

        sampling.is_there = has_cycles()
        if not sampling.is_there:
            log.warning("cycles per instruction are not available: this machine does not count cycles")
    if not sampling.is_there:
        return
    if sampling.groups and this.now_s - sampling.began_s >= COUNTS_S:
        _finish(this)
    elif not sampling.groups and this.now_s - sampling.began_s >= EVERY_S:
        _begin(this)


def _begin(this: Round) -> None:
    from koord.agent.host.perf import CYCLES, INSTRUCTIONS, Group

    sampling, cpus = this.cpi, sorted(this.state.topology.all)
    sampling.began_s = this.now_s
    for uid, pod in this.state.pods.items():
        if not _counts(pod) or 2 * len(cpus) * (len(sampling.groups) + 1) > MOST_OPEN:
            continue
        path = this.cgroups.files.path(this.cgroups.name("perf_event", pod.directory))
        try:
            sampling.groups[uid] = Group(path, cpus, (CYCLES, INSTRUCTIONS))
        except OSError as error:
            log.debug("cycles of %s are not counted: %s", pod.key, error)


def _counts(pod: AgentPod) -> bool:
    return pod.is_active and not pod.is_best_effort


def _finish(this: Round) -> None:
    for uid, group in this.cpi.groups.items():
        cycles, instructions = group.read().values
        group.close()
        if instructions > 0:
            this.put_slowly(names.pod_cpi(uid), cycles / instructions)
    this.cpi.groups.clear()
