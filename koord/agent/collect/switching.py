"""Which neighbour held the CPU while a pod waited: context switches of one round in five, on a few CPUs at a time.

Needs no tracing file system: perf events name both tasks of each switch. The kernel records until a ring is
full, and CPUs take turns, so that the largest machine costs no more than a small one. What is found makes culprits
clearer (`interference.culprits`); nothing depends on it. Samples count together for as long as it takes to call a pod
slow: a task that held the CPU an hour ago does not explain the waiting of today.
"""

from __future__ import annotations

import logging
from typing import Final

from koord.agent.collect.round import Round
from koord.agent.collect.samplers import SwitchSampling
from koord.agent.host.switch_records import held, waited_in
from koord.api.configuration.features import AgentGate

log = logging.getLogger(__name__)

REST: Final = 0.7
"""Of the time between two looks at tasks: after it, the next round is recorded."""
CPUS_AT_ONCE: Final = 8
COUNTS_S: Final = 30.0
"""Three windows."""


def collect(this: Round) -> None:
    """After waiting was collected, which knows the tasks of pods."""
    known = this.switches
    if not this.state.gates[AgentGate.SCHED_SWITCH_SAMPLER]:
        if known.rings or known.held is not None:
            _close(known)
            known.held = None
            known.samples.clear()
        return
    if known.rings:
        pod_of = {task: uid for uid, each in this.waitings.by_pod.items() for task in each.wait.tasks}
        known.samples.append((this.now_s, waited_in([ring.stop() for ring in known.rings], pod_of)))
        _close(known)
        while known.samples[0][0] < this.now_s - COUNTS_S:
            known.samples.popleft()
        known.held, known.ended_s = held(each for _, each in known.samples), this.now_s
    elif known.is_there is not False and this.now_s - known.ended_s >= REST * this.waitings.every_s:
        _open(this)


def _open(this: Round) -> None:
    from koord.agent.host.perf import SwitchRing

    known, cpus = this.switches, sorted(this.state.topology.all)
    first = known.turn * CPUS_AT_ONCE % max(len(cpus), 1)
    known.turn += 1
    try:
        for cpu in cpus[first : first + CPUS_AT_ONCE]:
            known.rings.append(SwitchRing(cpu))
        known.is_there = True
    except OSError as error:
        _close(known)
        known.is_there = False
        log.warning("samples of CPU holders are not available: %s", error)
    for ring in known.rings:
        ring.start()


def _close(known: SwitchSampling) -> None:
    for ring in known.rings:
        ring.close()
    known.rings.clear()
