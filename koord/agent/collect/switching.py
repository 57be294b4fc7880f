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
    sampling = this.switches
    if not this.state.gates[AgentGate.SCHED_SWITCH_SAMPLER]:
        if sampling.rings or sampling.held is not None:
            _close(sampling)
            sampling.held = None
            sampling.samples.clear()
        return
    if sampling.rings:
        pod_of = {task: uid for uid, waiting in this.waitings.by_pod.items() for task in waiting.wait.tasks}
        sampling.samples.append((this.now_s, waited_in([ring.stop() for ring in sampling.rings], pod_of)))
        _close(sampling)
        while sampling.samples[0][0] < this.now_s - COUNTS_S:
            sampling.samples.popleft()
        sampling.held, sampling.ended_s = held(sample for _, sample in sampling.samples), this.now_s
    elif sampling.is_there is not False and this.now_s - sampling.ended_s >= REST * this.waitings.every_s:
        _open(this)


def _open(this: Round) -> None:
    from koord.agent.host.perf import SwitchRing

    sampling, cpus = this.switches, sorted(this.state.topology.all)
    first = sampling.turn * CPUS_AT_ONCE % max(len(cpus), 1)
    sampling.turn += 1
    try:
        for cpu in cpus[first : first + CPUS_AT_ONCE]:
            sampling.rings.append(SwitchRing(cpu))
        sampling.is_there = True
    except OSError as error:
        _close(sampling)
        sampling.is_there = False
        log.warning("samples of CPU holders are not available: %s", error)
    for ring in sampling.rings:
        ring.start()


def _close(sampling: SwitchSampling) -> None:
    for ring in sampling.rings:
        ring.close()
    sampling.rings.clear()
