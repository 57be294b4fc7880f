"""Services' CPU: all that is used outside the best-effort directory, and what is kept for them although it is idle.

    services = node - best effort + (reserved - system, if positive) + (request - use of each LSE pod, if positive)

Kept CPUs are not lent: those that the node reserves for its system, and those that LSE pods own.
"""

from __future__ import annotations

from koord.agent.collect.round import Round
from koord.agent.pods import CPU, AgentPod
from koord.agent.qos.cpu_budget import reserved_milli
from koord.agent.series import names
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState
from koord.api.protocol.priority import QoSClass


def collect(this: Round) -> None:
    samples, now_s = this.samples, this.now_s
    node = samples.last(names.NODE_CPU, now_s, 0.0)
    if node is None:
        return
    best_effort = samples.last(names.BE_CPU, now_s, 0.0)
    if best_effort is None:
        if samples.last(names.BE_CPU_LIMIT, now_s, 0.0) is not None:
            # Its directory is there, and was read for the first time.
            return
        best_effort = 0.0
    this.put(names.SERVICES_CPU, max(node - best_effort, 0.0) + kept_milli(this.state, samples, now_s, this.expires_s))


def kept_milli(state: NodeState, samples: Samples, now_s: float, within_s: float) -> float:
    """Idle CPU that is not lent."""
    reserved = state.once(reserved_milli)
    kept = max(reserved - (samples.last(names.SYSTEM_CPU, now_s, within_s) or 0.0), 0.0) if reserved else 0.0
    for uid, pod in state.once(_lse_pods):
        kept += max(pod.requests.get(CPU, 0) - (samples.last(names.pod_cpu(uid), now_s, within_s) or 0.0), 0.0)
    return kept


def _lse_pods(state: NodeState) -> tuple[tuple[str, AgentPod], ...]:
    return tuple((uid, pod) for uid, pod in state.pods.items() if pod.qos is QoSClass.LSE and pod.is_present)
