"""From a minute of this node to what it has learned for the policy of another system.

The node's minute is measured for `adaptive` anyway (`koord.agent.lending.minute`); what these policies need beside it
comes from the node's pods. Only the policy in force learns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from koord.agent.lending.measuring import age_s, batch_pods
from koord.agent.lending.minute import MINUTE_S, Minute
from koord.agent.lending.peers.learned import PeerLearned, after_minute, node_of
from koord.agent.lending.peers.policy import BatchPod, Load, PeerNode
from koord.agent.pods import CPU, MEMORY, AgentPod
from koord.agent.qos.evicting import may_be_evicted, priority_of
from koord.agent.series import names
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState
from koord.api.configuration.features import AgentGate
from koord.api.protocol.priority import QoSClass

EVICTS: Final = str(AgentGate.BE_CPU_EVICT)
_SENSITIVE: Final = (QoSClass.LSE, QoSClass.LSR)


def learned(
    before: PeerLearned | None, state: NodeState, minute: Minute, samples: Samples, now_s: float
) -> PeerLearned | None:
    """After a minute of this node; None where another policy is in force. `now_s` is in the time of samples."""
    policy = state.peer_policy
    if policy is None:
        return None
    load = load_of(state, minute, samples, now_s)
    return after_minute(before, policy, load, peer_node(state), _candidates(state, minute))


def peer_node(state: NodeState) -> PeerNode:
    strategy = state.slo.lending_strategy if state.slo else None
    return node_of(strategy, state.capacity_cpu_milli, state.capacity_memory_bytes)


def load_of(state: NodeState, minute: Minute, samples: Samples, now_s: float) -> Load:
    services = [pod for pod in state.pods.values() if pod.is_present and not pod.is_best_effort]
    sensitive = [pod for pod in services if pod.qos in _SENSITIVE]
    return Load(
        at_s=minute.at_s,
        services_milli=minute.services_milli,
        services_request_milli=_requested(services, CPU),
        services_memory_bytes=minute.services_memory_bytes,
        services_request_bytes=_requested(services, MEMORY),
        batch_milli=minute.batch_used_milli,
        batch_request_milli=sum(pod.request_milli for pod in minute.pods.values()),
        sensitive_milli=sum(samples.mean(names.pod_cpu(pod.uid), now_s, MINUTE_S) or 0.0 for pod in sensitive),
        sensitive_request_milli=_requested(sensitive, CPU),
    )


def _requested(pods: Iterable[AgentPod], resource: str) -> float:
    return float(sum(pod.requests.get(resource, 0) for pod in pods))


def _candidates(state: NodeState, minute: Minute) -> list[BatchPod]:
    measured: Mapping[str, Any] = minute.pods
    return [
        BatchPod(pod.uid, measured[pod.uid].request_milli, age_s(pod.started, minute.at_s), priority_of(pod))
        for pod, _ in batch_pods(state)
        if pod.uid in measured and pod.labelled_qos is QoSClass.BE and may_be_evicted(pod, EVICTS)
    ]
