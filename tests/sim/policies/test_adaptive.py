"""The policy `adaptive` on columns decides what `koord.agent.lending` decides on each node."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.lending import eviction
from koord.agent.lending.eviction import Starving, to_evict
from koord.agent.lending.learning import LendingMemory, after_minute, ceiling, figures, services_most_bytes
from koord.agent.lending.minute import Capacity, Minute, PodMinute
from koord.agent.lending.sale import batch_memory_bytes
from koord.sim.minutes import NodeMinutes
from koord.sim.policies.adaptive import POLICY, AdaptiveMemory
from tests.sim.minutes import GIB, SETTINGS, BatchPod, Future, minutes, nodes

CORES = (32, 64, 96)
NODES = nodes(*CORES)
CAPACITIES = [Capacity(cores * 1000.0) for cores in CORES]
FUTURE = Future([0.0] * 3)

SHARES = st.floats(0, 1)
CORES_USED = st.sampled_from([0.0, 0.3, 10.0, 27.0, 31.0, 54.4]) | st.floats(0, 100)
PODS = st.dictionaries(
    st.integers(0, 5),
    st.builds(
        BatchPod,
        node=st.just(0),
        request=st.sampled_from([1.0, 4.0, 8.0]),
        used=st.floats(0, 8),
        wanted=st.none(),
        age_s=st.sampled_from([60.0, 179.0, 180.0, 4000.0]),
        unsaved_core_s=st.floats(0, 10_000),
    ),
).map(lambda pods: {number: dataclasses.replace(pod, node=number % 3) for number, pod in pods.items()})
MINUTES = st.builds(
    lambda gap_s, services, rise, used, more, memory_gib, pods: (
        gap_s,
        minutes(
            services,
            pods,
            rise=rise,
            used=used,
            wanted=[a + b for a, b in zip(used, more, strict=True)],
            memory_gib=memory_gib,
        ),
    ),
    gap_s=st.sampled_from([60.0, 60.0, 60.0, 60.0, 1801.0, 7200.0]),
    services=st.lists(CORES_USED | st.just(float("nan")), min_size=3, max_size=3),
    rise=st.floats(-20, 20),
    used=st.lists(CORES_USED, min_size=3, max_size=3),
    more=st.lists(st.sampled_from([0.0, 0.0, 0.1, 5.0, 60.0]), min_size=3, max_size=3),
    memory_gib=st.floats(0, 256),
    pods=PODS,
)


def on_node(columns: NodeMinutes, node: int) -> Minute | None:
    """What the agent of that node learns from; None while it is down."""
    services = float(columns.services_milli[node])
    if np.isnan(services):
        return None
    pods = columns.pods
    return Minute(
        at_s=columns.at_s,
        services_milli=services,
        rise_milli=float(columns.rise_milli[node]),
        services_memory_bytes=float(columns.services_memory_bytes[node]),
        batch_used_milli=float(columns.batch_used_milli[node]),
        batch_wanted_milli=float(columns.batch_wanted_milli[node]),
        pods={
            uid(pods.number[row]): PodMinute(
                float(pods.request_milli[row]), float(pods.used_milli[row]), float(pods.age_s[row])
            )
            for row in np.flatnonzero(pods.node == node)
        },
    )


def uid(number: int) -> str:
    return f"{number:020}"


def without_pods_of_nodes_that_are_down(columns: NodeMinutes) -> NodeMinutes:
    runs = ~np.isnan(columns.services_milli[columns.pods.node])
    pods = type(columns.pods)(*(getattr(columns.pods, field.name)[runs] for field in dataclasses.fields(columns.pods)))
    return dataclasses.replace(columns, pods=pods)


class Both:
    """The policy on columns, and the agents of three nodes."""

    def __init__(self) -> None:
        self.vector: AdaptiveMemory = POLICY.begin(NODES, SETTINGS)
        self.single = [LendingMemory()] * 3
        self.at_s = 0.0
        self.evicted_s = [-np.inf] * 3

    def live(self, gap_s: float, columns: NodeMinutes) -> NodeMinutes:
        self.at_s += gap_s
        columns = without_pods_of_nodes_that_are_down(dataclasses.replace(columns, at_s=self.at_s))
        self.vector = POLICY.after_minute(self.vector, columns)
        for node, capacity in enumerate(CAPACITIES):
            minute = on_node(columns, node)
            if minute is None:
                self.single[node] = dataclasses.replace(self.single[node], counted={})
            else:
                self.single[node] = after_minute(self.single[node], minute, capacity)
        return columns

    def agree(self, columns: NodeMinutes) -> None:
        vector, now = self.vector, np.array([5000.0, 30_000.0, 90_000.0])
        ceilings = POLICY.ceiling(vector, now)
        lent = POLICY.lent(vector, columns, FUTURE)
        pods = columns.pods
        for node, (memory, capacity) in enumerate(zip(self.single, CAPACITIES, strict=True)):
            lines = figures(memory, capacity)
            for vector_value, value in (
                (vector.scale[node], memory.scale),
                (vector.more[node], memory.more_milli),
                (vector.got_mean[node], memory.got_mean),
                (vector.minutes[node], memory.minutes),
                (vector.batch_minutes[node], memory.batch_minutes),
                (vector.short_share[node], memory.short_share),
                (vector.violated_share[node], memory.violated_share),
                (vector.rise[node], lines.rise),
                (vector.counted[node], lines.counted),
                (ceilings[node], ceiling(memory, float(now[node]), capacity)),
            ):
                assert vector_value == pytest.approx(value, rel=1e-9, abs=1e-6)
            if np.isnan(columns.services_milli[node]):
                assert np.isnan(lent.cpu_milli[node])
                continue
            requested = float(pods.request_milli[pods.node == node].sum())
            assert lent.cpu_milli[node] == pytest.approx(requested + max(0.0, lines.amount - lines.counted), abs=1e-5)
            assert lent.memory_bytes[node] == pytest.approx(
                batch_memory_bytes(float(NODES.memory_bytes[node]), services_most_bytes(memory))
            )

    def evict_alike(self, columns: NodeMinutes, ceilings: np.ndarray) -> int:
        rows, self.vector = POLICY.evictions(self.vector, columns, ceilings)
        pods, expected = columns.pods, []
        for node, memory in enumerate(self.single):
            if not eviction.starves(memory.got_mean) or self.at_s - self.evicted_s[node] < eviction.PEACE_S:
                continue
            by_uid = {uid(pods.number[row]): row for row in np.flatnonzero(pods.node == node)}
            starving = [
                Starving(
                    key, float(pods.request_milli[row]), memory.counted[key].milli, float(pods.unsaved_milli_s[row])
                )
                for key, row in by_uid.items()
            ]
            leaving = [by_uid[pod.uid] for pod in to_evict(starving, float(ceilings[node]))]
            if leaving:
                self.evicted_s[node] = self.at_s
            expected.extend(leaving)
        assert rows.tolist() == expected
        return len(expected)


@given(st.lists(MINUTES, max_size=12))
def test_columns_decide_as_the_agent_of_each_node(rounds: list[tuple[float, NodeMinutes]]) -> None:
    both = Both()
    for gap_s, columns in rounds:
        lived = both.live(gap_s, columns)
        both.agree(lived)
        both.evict_alike(lived, np.array([500.0, 5000.0, 20_000.0]))


def test_columns_decide_as_the_agent_of_each_node_over_a_day() -> None:
    """Warm, with pods that come and go, violations and want."""
    chance = np.random.default_rng(7)
    both, evicted = Both(), 0
    for number in range(1500):
        pods = {
            pod: BatchPod(
                node=pod % 3,
                request=4.0,
                used=float(chance.uniform(0, 4)),
                age_s=60.0 * (number - 10 * (pod // 3) + 1),
                unsaved_core_s=float(chance.uniform(0, 5000)),
            )
            for pod in range(3 * max(0, number // 10 - 8), 3 * (number // 10 + 1))
        }
        used = chance.uniform(0, 30, 3)
        wanted = used * chance.choice(
            [1.0, 1.01, 1.2, 4.0], 3, p=[0.5, 0.2, 0.2, 0.1] if number < 1000 else [0, 0, 0, 1]
        )
        services = chance.uniform(5, 27, 3)
        columns = minutes(
            services.tolist(),
            pods,
            rise=float(chance.normal(0, 1)),
            used=used.tolist(),
            wanted=wanted.tolist(),
            memory_gib=float(chance.uniform(5, 90)),
        )
        if 300 < number < 320:
            columns.services_milli[1] = np.nan
        lived = both.live(60.0, columns)
        if number % 50 == 0 or number > 1490:
            both.agree(lived)
        evicted += both.evict_alike(lived, np.array([2000.0, 5000.0, 20_000.0]))
    assert evicted > 0


def test_a_node_without_a_report_keeps_its_figure() -> None:
    both = Both()
    columns = both.live(60.0, minutes([10.0, 10.0, 10.0]))
    columns.reported[1] = False
    assert np.isnan(POLICY.lent(both.vector, columns, FUTURE).cpu_milli).tolist() == [False, True, False]


def test_closing_is_not_evicting() -> None:
    """Services take the whole node: what is lent does not fall below what batch requests."""
    both = Both()
    columns = both.live(60.0, minutes([32.0, 64.0, 96.0], {1: BatchPod(0, 8, 0.1), 2: BatchPod(2, 4, 0.1)}))
    assert POLICY.lent(both.vector, columns, FUTURE).cpu_milli.tolist() == [8000, 0, 4000]


def test_memory_is_not_lent_by_use() -> None:
    both = Both()
    for used_gib in (10.0, 60.0, 10.0):
        columns = both.live(60.0, minutes([10.0] * 3, memory_gib=used_gib))
    assert POLICY.lent(both.vector, columns, FUTURE).memory_bytes[0] == pytest.approx((0.9 * 256 - 60) * GIB)
