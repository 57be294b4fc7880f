"""Koordinator's policies on columns lend what the manager lends on each node, and suppress as the agent does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as changed
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.agent.predict.model import CPU_BUCKETS, CPU_PEAK, MEMORY_BUCKETS, MEMORY_PEAK, PredictionSettings, Used
from koord.agent.predict.reclaim import BY_BANDS, PodPeak, by_predictor, with_margin
from koord.agent.predict.reclaim import Amounts as Predicted
from koord.agent.qos.cpu_budget import CpuBudget
from koord.agent.qos.cpu_evict import order_of, to_release
from koord.agent.qos.cpu_suppress import BestEffortLimits, cpu_count, quota_us
from koord.api.configuration.slo_defaults import THRESHOLD_STRATEGY
from koord.api.protocol.crd.node_slo import ResourceThresholdStrategy
from koord.api.protocol.priority import PriorityClass, QoSClass
from koord.api.stats.histogram import Buckets, DecayingHistogram
from koord.api.text.cpuset import CPUSet
from koord.manager.figures import parts
from koord.manager.lending import batch, mid
from koord.manager.node_state import Amounts, MetricRow, NodeFacts, NodeState, PodRow, PodUsage
from koord.sim.minutes import NodeMinutes
from koord.sim.policies import suppression
from koord.sim.policies.koordinator import MAX_USAGE_REQUEST, REQUEST, USAGE, Koordinator
from koord.sim.policies.mid import POLICY as MID
from koord.sim.policies.policy import Settings
from tests.manager.builders import NOW_S, config
from tests.sim.minutes import GIB, SETTINGS, BatchPod, Future, minutes, nodes

CAPACITY = Amounts(64_000, 256 * GIB)
NODES = nodes(64)
FUTURE = Future([0.0])
ON = replace(THRESHOLD_STRATEGY, enable=True)


class Service(NamedTuple):
    request: Amounts
    used: Amounts


amounts = st.builds(Amounts, st.integers(0, 30_000), st.integers(0, 100 * GIB))
services = st.lists(st.builds(Service, amounts, amounts), max_size=4)
percents = st.integers(0, 100)
shares = st.integers(0, 200)


def minute(running: Sequence[Service], system: Amounts, batch_used_milli: int = 0) -> NodeMinutes:
    def column(value: float) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.array([value], np.float64)

    peaks = [service.request.largest(service.used) for service in running]
    return changed(
        minutes([0.0]),
        services_milli=column(sum(service.used.cpu_milli for service in running) + system.cpu_milli),
        services_memory_bytes=column(sum(service.used.memory_bytes for service in running) + system.memory_bytes),
        services_request_milli=column(sum(service.request.cpu_milli for service in running)),
        services_request_memory_bytes=column(sum(service.request.memory_bytes for service in running)),
        services_peak_milli=column(sum(most.cpu_milli for most in peaks)),
        services_peak_memory_bytes=column(sum(most.memory_bytes for most in peaks)),
        system_milli=column(system.cpu_milli),
        system_memory_bytes=column(system.memory_bytes),
        batch_used_milli=column(batch_used_milli),
        batch_wanted_milli=column(batch_used_milli),
    )


def state(
    running: Sequence[Service], system: Amounts, used: Amounts | None = None, reclaimable: Amounts | None = None
) -> NodeState:
    rows = [
        PodRow(f"default/p{number}", "u", "1", "n0", PriorityClass.PROD, QoSClass.LS, True, True, True, *pair(service))
        for number, service in enumerate(running)
    ]
    usage = {row.key: PodUsage(*pair_used(service)) for row, service in zip(rows, running, strict=True)}
    nothing = Amounts()
    node = NodeFacts("n0", "u", "1", {}, {}, CAPACITY, nothing, nothing, {}, {})
    return NodeState(node, rows, MetricRow("n0", "u", "1", NOW_S, used, system, usage, (), reclaimable))


def pair(service: Service) -> tuple[int, int]:
    return service.request.cpu_milli, service.request.memory_bytes


def pair_used(service: Service) -> tuple[int, int]:
    return service.used.cpu_milli, service.used.memory_bytes


@pytest.mark.parametrize(
    ("policy", "cpu", "memory"),
    [
        (USAGE, "usage", "usage"),
        (REQUEST, "usage", "request"),
        (MAX_USAGE_REQUEST, "maxUsageRequest", "maxUsageRequest"),
    ],
    ids=["usage", "request", "maxUsageRequest"],
)
@given(running=services, system=amounts, reclaim=shares, reclaim_memory=shares, limit=st.none() | shares)
def test_batch_is_what_the_manager_lends(
    policy: Koordinator,
    cpu: str,
    memory: str,
    running: list[Service],
    system: Amounts,
    reclaim: int,
    reclaim_memory: int,
    limit: int | None,
) -> None:
    chosen = config(
        cpuCalculatePolicy=cpu,
        memoryCalculatePolicy=memory,
        cpuReclaimThresholdPercent=reclaim,
        memoryReclaimThresholdPercent=reclaim_memory,
        **({} if limit is None else {"batchCPUThresholdPercent": limit, "batchMemoryThresholdPercent": limit}),
    ).for_node({}, {})
    expected = [figure.amount for figure in batch.calculate(state(running, system), chosen, NOW_S).figures]
    columns = minute(running, system)
    known = policy.begin(NODES, Settings(85, chosen.colocation, ON))
    lent = policy.lent(policy.after_minute(known, columns), columns, FUTURE)
    assert [lent.cpu_milli[0], lent.memory_bytes[0]] == expected
    if policy is not MAX_USAGE_REQUEST:
        assert lent.measured_milli is not None
        assert lent.measured_bytes is not None
        measured = [parts(figure).measured for figure in batch.calculate(state(running, system), chosen, NOW_S).figures]
        assert [lent.measured_milli[0], lent.measured_bytes[0]] == measured


def test_usage_is_the_mean_of_the_five_minutes_that_a_report_covers() -> None:
    memory = USAGE.begin(NODES, SETTINGS)
    for cores in (60, 10, 10, 10, 10, 20):
        columns = minutes([float(cores)])
        memory = USAGE.after_minute(memory, columns)
    assert USAGE.lent(memory, columns, FUTURE).cpu_milli[0] == 64_000 - 25_600 - (10_000 * 4 + 20_000) // 5


@given(
    st.integers(0, 70_000),
    percents,
    st.none() | percents,
    st.sampled_from([None, "cpuset", "cfsQuota"]),
)
def test_batch_is_suppressed_as_the_agent_does(used: int, threshold: int, least: int | None, means: str | None) -> None:
    thresholds = replace(
        ON,
        cpu_suppress_threshold_percent=threshold,
        cpu_suppress_min_percent=least,
        cpu_suppress_policy=means,
    )
    budget = CpuBudget(
        capacity=64_000,
        threshold_percent=threshold,
        pods=used,
        host_applications=0,
        system=0,
        floor=64_000 * least // 100 if least else 0,
    )
    everything = BestEffortLimits(cpus=CPUSet(range(64)), quota_us=10**9)
    if means == "cfsQuota":
        expected = quota_us(budget, everything) / 100
    else:
        expected = 1000 * min(cpu_count(budget.allowed, held=64, cpus=64), 64)
    ceiling = suppression.ceiling(np.array([64_000.0]), np.array([float(used)]), thresholds)
    assert ceiling.tolist() == [expected]


def test_suppression_that_is_off_holds_nothing_back() -> None:
    off = replace(ON, enable=False)
    assert np.isinf(suppression.ceiling(np.array([64_000.0]), np.array([60_000.0]), off)).all()


@given(
    st.lists(st.tuples(st.integers(1, 8), st.floats(0, 1)), min_size=1, max_size=6),
    st.integers(1000, 64_000),
    st.integers(0, 70),
    percents,
)
def test_batch_is_evicted_for_what_the_agent_would_release(
    pods: list[tuple[int, float]], limit: int, lower: int, upper: int
) -> None:
    thresholds: ResourceThresholdStrategy = replace(
        ON, cpu_evict_be_satisfaction_lower_percent=lower, cpu_evict_be_satisfaction_upper_percent=upper
    )
    running = {number: BatchPod(0, float(cores), used=cores * share) for number, (cores, share) in enumerate(pods)}
    columns = minutes([20.0], running)
    rows, _ = suppression.evictions(
        suppression.batch_minutes(1, thresholds), columns, np.array([float(limit)]), np.array([64_000.0]), thresholds
    )
    requested, used = float(columns.pods.request_milli.sum()), float(columns.batch_used_milli[0])
    need = 0
    if 0 < lower <= 60 and lower <= upper < 100:
        need = to_release(requested, limit, used, lower, upper, 90)
    released = 0.0
    leaving = []
    for row in sorted(
        range(len(pods)),
        key=lambda row: order_of(
            0, float(columns.pods.used_milli[row]), float(columns.pods.request_milli[row]), f"{row:03}"
        ),
    ):
        if released >= need:
            break
        leaving.append(row)
        released += columns.pods.request_milli[row]
    assert rows.tolist() == leaving


def test_by_default_koordinator_evicts_nothing_for_cpu() -> None:
    memory = USAGE.begin(NODES, Settings(85, SETTINGS.colocation, ON))
    rows, _ = USAGE.evictions(memory, minutes([63.0], {1: BatchPod(0, 30, 1)}), np.array([2000.0]))
    assert not len(rows)


def peak(buckets: Buckets, half_life_s: float, part: float, values: list[int]) -> float:
    histogram = DecayingHistogram(buckets, half_life_s)
    for number, value in enumerate(values, 1):
        histogram.add(value, 60.0 * number)
    return int(histogram.percentile(part))


@given(
    st.lists(st.tuples(services, amounts), min_size=1, max_size=5),
    st.integers(0, 80_000),
    percents,
    percents,
    percents,
    st.sampled_from(["", "static"]),
)
def test_mid_is_what_the_manager_lends_by_the_prediction_of_bands(
    history: list[tuple[list[Service], Amounts]],
    batch_used: int,
    limit: int,
    unallocated: int,
    static: int,
    mode: str,
) -> None:
    chosen = config(
        metricAggregateDurationSeconds=60,
        midReclaimMode=mode,
        midCPUThresholdPercent=limit,
        midMemoryThresholdPercent=limit,
        midUnallocatedPercent=unallocated,
        midStaticCPUReservedPercent=static,
        midStaticMemoryReservedPercent=static,
    ).for_node({}, {})
    memory = MID.begin(NODES, Settings(85, chosen.colocation, ON))
    for number, (running, system) in enumerate(history, 1):
        columns = changed(minute(running, system, batch_used), at_s=60.0 * number)
        memory = MID.after_minute(memory, columns)
    lent = MID.lent(memory, columns, FUTURE)

    settings = PredictionSettings()
    together = Used(0, 0)
    for of_system in (True, False):
        used = [system if of_system else total(service.used for service in running) for running, system in history]
        together = together.plus(
            Used(
                peak(CPU_BUCKETS, settings.cpu_half_life_s, CPU_PEAK, [part.cpu_milli for part in used]),
                peak(MEMORY_BUCKETS, settings.memory_half_life_s, MEMORY_PEAK, [part.memory_bytes for part in used]),
            )
        )
    running, system = history[-1]
    pods = [PodPeak(Predicted(*pair(service)), None) for service in running]
    bands = with_margin(together, settings.margin_percent)
    reclaimable = by_predictor(Predicted(CAPACITY.cpu_milli, CAPACITY.memory_bytes), pods, bands)[BY_BANDS].reclaimable
    node_used = total(service.used for service in running) + system + Amounts(batch_used)
    now = state(running, system, node_used, Amounts(*reclaimable))
    expected = [figure.amount for figure in mid.calculate(now, chosen, NOW_S).figures]
    assert [lent.cpu_milli[0], lent.memory_bytes[0]] == expected


def total(parts: Any) -> Amounts:
    return sum(parts, Amounts())


def test_mid_is_at_most_what_the_node_does_not_use() -> None:
    calm = Service(request=Amounts(40_000), used=Amounts(10_000))
    memory = MID.begin(NODES, SETTINGS)
    columns = minute([calm], Amounts(), batch_used_milli=45_000)
    assert MID.lent(MID.after_minute(memory, columns), columns, FUTURE).cpu_milli[0] == 64_000 - 55_000
