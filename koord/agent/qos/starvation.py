"""Eviction with the lending policy `adaptive`: batch has starved for a while, so some pods go.

Which ones and how many is `koord.agent.lending.eviction`. A pod that asks for notice loses nothing: it can save its
work before it goes. Of all others, what they did since their start is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from koord.agent.lending import eviction
from koord.agent.lending.eviction import Starving
from koord.agent.lending.learner import capacity_of
from koord.agent.lending.learning import ceiling
from koord.agent.lending.measuring import age_s, batch_pods
from koord.agent.lending.protection import REACTION_S
from koord.agent.pods import BATCH_CPU, AgentPod
from koord.agent.qos.evicting import Account, Task, may_be_evicted
from koord.agent.qos.strategy import NEVER, Sight
from koord.agent.series import names
from koord.api.configuration.features import AgentGate
from koord.api.protocol.eviction_notice import concerns
from koord.api.protocol.priority import QoSClass

FEATURE: Final = str(AgentGate.BE_CPU_EVICT)


def starvation_tasks(sight: Sight, strategy: str) -> Iterator[Task]:
    """At most one. `strategy`: the one whose evictions are followed by peace."""
    memory, state = sight.lending, sight.state
    services = sight.samples.mean(names.SERVICES_CPU, sight.now_s, REACTION_S)
    if memory.at_s is None or services is None or not eviction.starves(memory.got_mean):
        return
    if sight.now_s - max(sight.departures.last_s.get(strategy, NEVER), sight.started_s) < eviction.PEACE_S:
        return
    allowed = ceiling(memory, services, capacity_of(state))
    pods = {pod.uid: pod for pod, _ in batch_pods(state)}
    starving = [
        _starving(pod, memory.counted[uid].milli, memory.at_s) for uid, pod in pods.items() if uid in memory.counted
    ]
    chosen = [pods[candidate.uid] for candidate in eviction.to_evict(starving, allowed)]
    frees = {candidate.uid: int(candidate.wanted_milli) for candidate in starving}
    need = sum(frees[pod.uid] for pod in chosen)
    if need > 0:
        got = f"{memory.got_mean:.0%} of the CPU that they want"
        why = f"best-effort pods have got {got} for {eviction.PATIENCE_MINUTES} minutes, and may use {allowed:.0f}m now"
        yield Task(FEATURE, Account("wanted", BATCH_CPU), need, chosen, lambda pod: frees.get(pod.uid, 0), why)


def _starving(pod: AgentPod, wanted_milli: float, at_s: float) -> Starving:
    unsaved_s = 0.0 if concerns(pod.meta) else age_s(pod.started, at_s)
    may_go = pod.labelled_qos is QoSClass.BE and may_be_evicted(pod, FEATURE)
    return Starving(pod.uid, pod.requests.get(BATCH_CPU, 0), wanted_milli, unsaved_s * wanted_milli, may_go)
