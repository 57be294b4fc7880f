"""CPU eviction: the specification's examples, and who stays."""

from typing import Any

import pytest

from koord.agent.qos import cpu_evict
from koord.agent.qos.cpu_evict import to_release
from koord.agent.qos.decision import NOTHING
from koord.agent.series.names import BE_CPU, BE_CPU_LIMIT, BE_CPU_REQUEST, NODE_CPU, pod_cpu
from koord.agent.series.samples import Samples, Series
from koord.agent.state import NodeState
from koord.api.configuration.features import AgentGate
from tests.agent.states import NOW, cpus, evicting, node, pod

GATES = {gate: gate.default for gate in AgentGate}
BE = {**GATES, AgentGate.BE_CPU_EVICT: True}
USAGE = {**GATES, AgentGate.CPU_EVICT: True}
ALLOCATABLE = {**GATES, AgentGate.CPU_ALLOCATABLE_EVICT: True}
LONG_AGO = NOW - 1000


def filled(series: dict[Series, list[float]]) -> Samples:
    """Samples of the last seconds, one each, the last one now."""
    samples = Samples()
    for name, values in series.items():
        for number, value in enumerate(values):
            samples.add(name, NOW - len(values) + 1 + number, value)
    return samples


def evicted(state: NodeState, samples: Samples, gates: dict[AgentGate, bool], *gone: str) -> list[str]:
    decision = evicting(cpu_evict.STRATEGY, state, samples, gates, gone, LONG_AGO, NOW)
    assert decision is not None
    return [eviction.pod.meta.name for eviction in decision.evictions]


def best_effort(name: str, priority: int, request: int) -> Any:
    return pod(name, "BE", priority=priority, requests={"kubernetes.io/batch-cpu": str(request)})


PODS = (best_effort("A", 5100, 6000), best_effort("B", 5100, 4000), best_effort("C", 5500, 8000))
USED = {pod_cpu("A"): [3000.0], pod_cpu("B"): [3600.0], pod_cpu("C"): [8000.0]}


def satisfaction(**extra: Any) -> NodeState:
    strategy = {
        "enable": True,
        "cpuEvictBESatisfactionLowerPercent": 40,
        "cpuEvictBESatisfactionUpperPercent": 75,
        "cpuEvictTimeWindowSeconds": 10,
        **extra,
    }
    return node(*PODS, slo={"resourceUsedThresholdWithBE": strategy}, topology=cpus(2, 16, 2))


def satisfied(limits: tuple[float, float] = (5400, 4500), used: tuple[float, float] = (5100, 4300)) -> Samples:
    """Ten seconds whose mean is the first of each pair and whose last sample is the second."""

    def series(mean: float, last: float) -> list[float]:
        return [(10 * mean - last) / 9] * 9 + [last]

    own = {BE_CPU_REQUEST: [18_000.0] * 10, BE_CPU_LIMIT: series(*limits), BE_CPU: series(*used)}
    return filled({**own, **USED})


@pytest.mark.parametrize(
    ("request_milli", "limit", "used", "lower", "upper", "expected"),
    [
        (18_000, 5400, 5100, 40, 75, 8100),  # 0.30 of what they asked for
        (18_000, 4500, 4300, 40, 75, 9000),
        (18_000, 5400, 4000, 40, 75, 0),  # they use 74% of what they have: no harm done
        (18_000, 800, 0, 40, 75, 12_700),  # hardly anything is left to use
        (20_000, 9500, 9000, 50, 60, 2500),
        (18_000, 9000, 9000, 40, 75, 0),  # half of it is enough
        (18_000, 0, 0, 40, 75, 0),
    ],
)
def test_how_much_has_to_go(request_milli: int, limit: int, used: int, lower: int, upper: int, expected: int) -> None:
    assert to_release(request_milli, limit, used, lower, upper, 90) == expected


def test_the_lowest_priority_and_among_equals_the_busiest_go_first() -> None:
    # min(8100, 9000) = 8100: B frees 4000, A 6000.
    assert evicted(satisfaction(), satisfied(), BE) == ["B", "A"]


def test_what_is_on_its_way_out_counts_as_released() -> None:
    assert evicted(satisfaction(), satisfied(), BE, "C") == ["B"]


def test_what_has_just_got_better_evicts_nobody() -> None:
    assert evicted(satisfaction(), satisfied(limits=(5400, 17_000), used=(5100, 16_000)), BE) == []


def test_by_allocatable_the_limit_is_what_the_node_sells() -> None:
    strategy = {"cpuEvictPolicy": "evictByAllocatable", "cpuEvictBESatisfactionLowerPercent": 50}
    state = satisfaction(**strategy)
    # No batch-cpu on the node: nothing is known.
    assert evicted(state, satisfied(), BE) == []


def test_too_few_samples_decide_nothing() -> None:
    def seconds(number: int) -> Samples:
        own = {BE_CPU_REQUEST: [18_000.0], BE_CPU_LIMIT: [5400.0], BE_CPU: [5100.0]}
        return filled({**{series: values * number for series, values in own.items()}, **USED})

    assert evicted(satisfaction(), seconds(2), BE) == []
    assert evicted(satisfaction(), seconds(3), BE) == ["B", "A"], "a third of the window, in whole seconds, is enough"


def test_what_is_no_longer_measured_evicts_nobody() -> None:
    decision = evicting(cpu_evict.STRATEGY, satisfaction(), satisfied(), BE, (), LONG_AGO, NOW + 3)
    assert decision == NOTHING


@pytest.mark.parametrize("bounds", [(0, 75), (61, 75), (40, 100), (40, 39)])
def test_bounds_that_make_no_sense_evict_nobody(bounds: tuple[int, int]) -> None:
    lower, upper = bounds
    state = satisfaction(cpuEvictBESatisfactionLowerPercent=lower, cpuEvictBESatisfactionUpperPercent=upper)
    assert evicted(state, satisfied(), BE) == []


def offered(name: str, priority: int, **annotations: str) -> Any:
    keys = {f"koordinator.sh/{key.replace('_', '-')}": value for key, value in annotations.items()}
    labels = {"koordinator.sh/eviction-enabled": "true"}
    return pod(name, priority=priority, labels=labels, annotations=keys, requests={"cpu": "1"})


def busy(*pods: Any, **strategy: Any) -> NodeState:
    settings = {"enable": True, "cpuEvictThresholdPercent": 80, "evictEnabledPriorityThreshold": 7999, **strategy}
    return node(*pods, slo={"resourceUsedThresholdWithBE": settings}, topology=cpus(2, 16, 2))


def test_a_busy_node_sheds_down_to_its_lower_bound() -> None:
    pods = [offered(name, 5000) for name in ("a", "b", "c")]
    usage = {NODE_CPU: [53_120.0], pod_cpu("a"): [2000.0], pod_cpu("b"): [3000.0], pod_cpu("c"): [2500.0]}
    # 83% of 64 cores: 64000 * (83 - 78) / 100 = 3200m; with a lower bound of 72%, 7040m.
    assert evicted(busy(*pods), filled(usage), USAGE) == ["b", "c"]
    assert evicted(busy(*pods, cpuEvictLowerPercent=72), filled(usage), USAGE) == ["b", "c", "a"]
    assert evicted(busy(*pods), filled({**usage, NODE_CPU: [51_100.0]}), USAGE) == []


def test_pods_that_did_not_offer_themselves_or_are_too_important_stay() -> None:
    pods = [
        pod("silent", priority=5000, requests={"cpu": "1"}),
        offered("important", 9000),
        offered("elsewhere", 5000, eviction_policy='["MemoryEvict"]'),
        offered("malformed", 5000, eviction_policy="{"),
        offered("here", 5000, eviction_policy='["CPUEvict"]'),
        offered("unmeasured", 4000),
    ]
    usage = {NODE_CPU: [60_000.0], **{pod_cpu(pod.meta.name): [100.0] for pod in pods[:-1]}}
    assert evicted(busy(*pods), filled(usage), USAGE) == ["here"]


def test_the_order_is_eviction_priority_then_priority_then_sub_priority_then_usage() -> None:
    pods = [
        offered("first", 6000, eviction_priority="-5"),
        offered("second", 4000),
        offered("fourth", 5000),
        offered("third", 5000),
    ]
    usage = {NODE_CPU: [64_000.0], pod_cpu("first"): [10.0], pod_cpu("second"): [10.0], pod_cpu("third"): [30.0]}
    usage[pod_cpu("fourth")] = [20.0]
    assert evicted(busy(*pods), filled(usage), USAGE) == ["first", "second", "third", "fourth"]


def test_what_the_node_no_longer_has_is_given_back() -> None:
    labels = {"koordinator.sh/eviction-enabled": "true"}
    pods = [
        pod(name, "BE", priority=5000, labels=labels, requests={"kubernetes.io/batch-cpu": str(milli)})
        for name, milli in (("a", 4000), ("b", 6000), ("c", 2000))
    ]
    strategy = {
        "enable": True,
        "allocatableEvictPriorityThreshold": 5999,
        "cpuAllocatableEvictThresholdPercent": 100,
        "cpuAllocatableEvictLowerPercent": 90,
    }

    def sold(milli: str) -> NodeState:
        return node(
            *pods, slo={"resourceUsedThresholdWithBE": strategy}, allocatable={"kubernetes.io/batch-cpu": milli}
        )

    # 12000 requested. Of 10000 stay 9000: 3000 go.
    assert evicted(sold("10000"), Samples(), ALLOCATABLE) == ["b"]
    assert evicted(sold("12000"), Samples(), ALLOCATABLE) == []
    assert evicted(sold("0"), Samples(), ALLOCATABLE) == ["b", "a", "c"]


def test_after_a_release_it_waits() -> None:
    decision = evicting(cpu_evict.STRATEGY, satisfaction(), satisfied(), BE, (), NOW - 19, NOW)
    assert decision == NOTHING
    assert evicting(cpu_evict.STRATEGY, node(slo=None), satisfied(), BE, (), LONG_AGO, NOW) is None
