"""Memory eviction: the specification's examples, and who stays."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.agent.qos import memory_evict
from koord.agent.qos.allocatable_evict import to_release as above_allocatable
from koord.agent.qos.decision import NOTHING
from koord.agent.series.names import NODE_MEMORY, pod_memory
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState
from koord.api.configuration.features import AgentGate
from tests.agent.states import GIB, NOW, evicting, node, pod, samples

GATES = {gate: gate.default for gate in AgentGate}
BE = {**GATES, AgentGate.BE_MEMORY_EVICT: True}
ANY = {**GATES, AgentGate.MEMORY_EVICT: True}
NEVER = float("-inf")
PODS = (pod("a", "BE", priority=5000), pod("b", "BE", priority=5000), pod("c", "BE", priority=5400))
USED = {pod_memory("a"): 3.0 * GIB, pod_memory("b"): 4.0 * GIB, pod_memory("c"): 9.0 * GIB}


def full(*pods: Any, **strategy: Any) -> NodeState:
    settings = {"enable": True, "memoryEvictThresholdPercent": 75, **strategy}
    return node(*(pods or PODS), slo={"resourceUsedThresholdWithBE": settings}, memory=128 * GIB)


def evicted(state: NodeState, usage: Samples, gates: dict[AgentGate, bool], *gone: str) -> list[str]:
    decision = evicting(memory_evict.STRATEGY, state, usage, gates, gone, NEVER, NOW)
    assert decision is not None
    return [eviction.pod.meta.name for eviction in decision.evictions]


def test_how_much_has_to_go() -> None:
    # 99 of 128 GiB is 77%; down to 73%.
    strategy = full().slo
    assert strategy is not None
    assert strategy.resource_used_threshold_with_be is not None
    need, why = memory_evict.to_release(
        full(), samples({NODE_MEMORY: 99 * GIB}), strategy.resource_used_threshold_with_be, NOW
    )
    assert need == 5497558138
    assert "77%" in why
    assert "75%" in why


def test_the_lowest_priority_and_among_equals_the_largest_go_first() -> None:
    assert evicted(full(), samples({NODE_MEMORY: 99 * GIB, **USED}), BE) == ["b", "a"]


def test_who_asks_an_autoscaler_to_stay_goes_all_the_same_when_memory_runs_short() -> None:
    """These annotations prevent optional moves; this eviction protects the services of the node."""
    kept = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
    asking = pod("b", "BE", priority=5000, annotations=kept)
    assert asking.meta.annotations.items() >= kept.items()
    assert evicted(full(asking, PODS[2]), samples({NODE_MEMORY: 99 * GIB, **USED}), BE)[0] == "b"


def test_a_job_that_exempts_itself_goes_last_and_only_before_the_kernel_kills_services() -> None:
    """Its memory is lent. At 95% of 128 GiB the kernel may kill any process."""
    exempt = pod("b", "BE", priority=5000, annotations={"koordinator.sh/eviction-policy": "[]"})
    state = full(exempt, PODS[2])
    assert evicted(state, samples({NODE_MEMORY: 99 * GIB, **USED}), BE) == ["c"]
    assert evicted(full(exempt), samples({NODE_MEMORY: 120 * GIB, **USED}), BE) == []
    assert evicted(state, samples({NODE_MEMORY: 125 * GIB, **USED}), BE) == ["c", "b"]


def test_below_the_threshold_or_without_a_fresh_figure_nobody_goes() -> None:
    assert evicted(full(), samples({NODE_MEMORY: 95 * GIB, **USED}), BE) == []
    assert evicted(full(), samples(USED), BE) == []


def test_pods_without_a_figure_go_last() -> None:
    usage = samples({NODE_MEMORY: 128 * GIB, pod_memory("c"): float(GIB)})
    assert evicted(full(), usage, BE) == ["c", "b", "a"]


def test_a_pod_of_any_class_frees_what_it_uses_and_not_a_thousand_times_that() -> None:
    labels = {"koordinator.sh/eviction-enabled": "true"}
    pods = [pod(name, priority=5000, labels=labels, requests={"cpu": "1"}) for name in ("x", "y")]
    usage = samples({NODE_MEMORY: 99 * GIB, pod_memory("x"): float(GIB), pod_memory("y"): 2.0 * GIB})
    assert evicted(full(*pods, evictEnabledPriorityThreshold=5999), usage, ANY) == ["y", "x"]
    assert evicted(full(*pods), usage, ANY) == [], "without a highest priority no pod of any class goes"


def test_requests_above_what_the_node_sells() -> None:
    assert above_allocatable(40 * GIB, 64 * GIB, 60, 50) == 8 * GIB
    assert above_allocatable(38 * GIB, 64 * GIB, 60, 50) == 0
    assert above_allocatable(40 * GIB, 0, 60, 50) == 40 * GIB


def test_it_waits_after_a_release_and_keeps_still_when_off() -> None:
    usage = samples({NODE_MEMORY: 99 * GIB, **USED})
    assert evicting(memory_evict.STRATEGY, full(), usage, BE, (), NOW - 3.9, NOW) == NOTHING
    assert evicting(memory_evict.STRATEGY, full(enable=False), usage, BE, (), NEVER, NOW) == NOTHING


@given(
    used=st.lists(st.integers(0, 20 * GIB), min_size=3, max_size=3),
    node_used=st.integers(0, 128 * GIB),
    gone=st.sets(st.sampled_from("abc")),
)
def test_nobody_goes_who_need_not(used: list[int], node_used: int, gone: set[str]) -> None:
    by_name = dict(zip("abc", used, strict=True))
    usage = samples({NODE_MEMORY: node_used, **{pod_memory(name): each for name, each in by_name.items()}})
    names = evicted(full(), usage, BE, *gone)
    need = (
        max(128 * GIB * (node_used * 100 // (128 * GIB) - 73) // 100, 0) if node_used * 100 // (128 * GIB) >= 75 else 0
    )
    released = sum(by_name[name] for name in gone)
    for name in names:
        assert released < need, "enough was released already"
        assert name not in gone
        released += by_name[name]
