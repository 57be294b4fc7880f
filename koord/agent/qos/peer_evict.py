"""Eviction by the policy of another system: the pods that it chose after the last minute."""

from __future__ import annotations

from collections.abc import Iterator

from koord.agent.lending.peers.learning import EVICTS
from koord.agent.pods import BATCH_CPU
from koord.agent.qos.evicting import Account, Task
from koord.agent.qos.strategy import Sight


def peer_tasks(sight: Sight) -> Iterator[Task]:
    """At most one."""
    learned, policy = sight.peer, sight.state.peer_policy
    if learned is None or policy is None or learned.policy != policy.name:
        return
    here = {**sight.state.pods, **sight.state.guests}
    chosen = [here[uid] for uid in learned.leaving if uid in here]
    if chosen:
        why = f"{policy.name}: {learned.why}"
        yield Task(EVICTS, Account("pods", BATCH_CPU), len(chosen), chosen, lambda pod: pod in chosen, why)
