"""The box of another system's policy, carried out by suppression; its evictions; and what survives a restart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from koord.agent.host.convert import UNLIMITED
from koord.agent.host.knobs import CPU_QUOTA
from koord.agent.lending.checkpoint import CheckpointError
from koord.agent.lending.peers.caster import CasterMemory
from koord.agent.lending.peers.checkpoint import learned_in, of_learned
from koord.agent.lending.peers.learned import PeerLearned, after_minute, node_of
from koord.agent.lending.peers.policy import Load
from koord.agent.lending.peers.registry import PEERS
from koord.agent.qos import cpu_evict
from koord.agent.qos.cpu_suppress import BestEffortLimits, decide
from koord.agent.qos.strategy import Sight
from koord.agent.series import names
from koord.agent.series.samples import Samples
from koord.agent.state import DEFAULT_GATES, NodeState
from koord.api.configuration.features import AgentGate
from koord.api.text.cpuset import NO_CPUS
from tests.agent.states import NOW, cpus, node, pod


def owned_by(policy: str, *, evicts: bool = False) -> NodeState:
    strategy = {"enable": True, "cpuSuppressPolicy": "cfsQuota"}
    slo = {"resourceUsedThresholdWithBE": strategy, "lendingStrategy": {"policy": policy}}
    job = pod("job", "BE", priority=5500, requests={"kubernetes.io/batch-cpu": "2000"})
    gates = {**DEFAULT_GATES, AgentGate.BE_CPU_EVICT: evicts}
    return replace(node(job, slo=slo, topology=cpus(1, 32, 2)), gates=gates)


def using(milli: float) -> Samples:
    samples = Samples()
    samples.add(names.SERVICES_CPU, NOW, milli)
    return samples


def test_best_effort_gets_what_the_box_leaves_and_the_wish_tells_the_calculation() -> None:
    decision = decide(owned_by("caster"), using(20_000), BestEffortLimits(NO_CPUS, UNLIMITED), NOW)
    assert decision is not None
    quota = next(wish for wish in decision.wishes if wish.setting is CPU_QUOTA)
    assert quota.value == 24_800 * 100
    assert quota.why == "caster: watermark 44800m - online 20000m at least nothing 0m = 24800m"


def test_without_a_measurement_nothing_changes() -> None:
    assert decide(owned_by("lar"), Samples(), BestEffortLimits(NO_CPUS, UNLIMITED), NOW) is None


@pytest.mark.parametrize("policy", ["caster", "crane"])
def test_the_pods_that_the_policy_in_force_chose_are_evicted(policy: str) -> None:
    learned = PeerLearned("caster", CasterMemory(), 0.0, ("job",), "services alone use 60000m")
    state = owned_by(policy, evicts=True)
    turn = cpu_evict.STRATEGY.decide(Sight(state, using(60_000), NOW, peer=learned), None, None)
    assert turn.decision is not None
    evicted = [(eviction.pod.meta.name, eviction.why) for eviction in turn.decision.evictions]
    assert evicted == ([("job", "caster: services alone use 60000m")] if policy == "caster" else [])


@pytest.mark.parametrize("policy", PEERS)
def test_what_was_learned_survives_a_restart(policy: str) -> None:
    learned, of_node = None, node_of(None, 64_000, 1 << 38)
    for minute in range(130):
        load = Load(minute * 1800.0, 20_000, 40_000, 1 << 36, 1 << 37, 8000, 9000)
        learned = after_minute(learned, PEERS[policy], load, of_node, ())
    assert learned is not None
    assert learned_in(of_learned(learned)) == learned


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"version": 1, "policy": "fancy", "atS": 0, "memory": {}}',
        b'{"version": 1, "policy": "caster", "atS": 0, "memory": {"services_milli": -5}}',
        b'{"version": 1, "policy": "caster", "atS": 0, "memory": {"services_milli": "many"}}',
    ],
)
def test_a_damaged_file_is_not_used(data: bytes) -> None:
    with pytest.raises(CheckpointError):
        learned_in(data)
