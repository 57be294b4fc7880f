"""The cluster of a scenario: nodes are packed as it says, halves share no curve, equal seeds give equal bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.machinery.faults import BadInput
from koord.sim import mix_services, mix_tasks
from koord.sim.cluster import UNPLACED, Cluster
from koord.sim.columns import ServiceCurves
from koord.sim.live.traces import cluster_of, read_trace
from koord.sim.minutes import NodeColumns
from koord.sim.mix import build
from koord.sim.scenario import Scenario, from_data
from koord.sim.traces.synthetic import read as synthetic
from koord.sim.traces.trace import Trace, TraceFault


def scenario(**fields: Any) -> Scenario:
    return from_data({"name": "mix", "duration": "48h", "cluster": {"nodes": 6}} | fields, "mix.yaml")


def built(seed: int = 1, **fields: Any) -> Cluster:
    trace = synthetic({})
    return build(scenario(**fields), [trace], trace, seed)


@given(st.integers(0, 2**40), st.floats(10, 60), st.floats(61, 100))
@settings(max_examples=10)
def test_services_request_the_share_of_their_node_that_the_scenario_says(seed: int, least: float, most: float) -> None:
    cluster = built(seed, cluster={"nodes": 4, "requestedPercent": {"least": least, "most": most}})
    assert cluster.services.request_cpu_milli is not None
    requested = np.bincount(cluster.service_node, cluster.services.request_cpu_milli, 4) / cluster.nodes.cpu_milli
    assert (requested <= most / 100).all()
    assert (requested >= least / 100 - 0.6 / 32).all()


def test_a_service_requests_a_multiple_of_its_peak() -> None:
    week = built(duration="168h", cluster={"nodes": 6, "requestOverPeak": {"least": 1.5, "most": 1.5}}).services
    assert week.request_cpu_milli is not None
    assert np.allclose(week.request_cpu_milli, 1.5 * week.cpu_milli.max(1), rtol=0.051)


def test_requests_of_memory_fit_on_each_node() -> None:
    cluster = built()
    assert cluster.services.request_memory_bytes is not None
    assert cluster.services.memory_bytes is not None
    requested = np.bincount(cluster.service_node, cluster.services.request_memory_bytes)
    assert (requested <= cluster.nodes.memory_bytes).all()
    assert (cluster.services.memory_bytes.max(1) <= cluster.services.request_memory_bytes).all()


def test_equal_seeds_give_equal_bytes_and_others_do_not() -> None:
    first, again, other = built(1), built(1), built(2)
    assert first.services.cpu_milli.tobytes() == again.services.cpu_milli.tobytes()
    assert first.tasks.use_milli.tobytes() == again.tasks.use_milli.tobytes()
    assert np.array_equal(first.nodes.cpu_milli, again.nodes.cpu_milli)
    assert first.services.ids != other.services.ids or (first.services.cpu_milli != other.services.cpu_milli).any()


def test_a_node_keeps_its_services_when_nodes_are_added() -> None:
    small, large = built(cluster={"nodes": 3}), built(cluster={"nodes": 6})
    count = len(small.services.ids)
    assert large.services.ids[:count] == small.services.ids
    assert np.array_equal(large.services.cpu_milli[:count], small.services.cpu_milli)


def test_halves_share_no_curve_and_have_a_like_use() -> None:
    flat = np.arange(1, 41, dtype=np.float32)[:, None] * np.ones((1, 288), np.float32)
    services = ServiceCurves(tuple(f"s{row}" for row in range(40)), 300, flat)
    recorded = Trace(services=services, nodes=NodeColumns(("n",), np.array([64000]), np.array([1 << 38]), ("",)))
    halves = [
        build(scenario(cluster={}, services={"machines": half}), [recorded], None, 1).services
        for half in ("first", "second")
    ]
    assert set(halves[0].ids).isdisjoint(halves[1].ids)
    assert abs(halves[0].cpu_milli.mean() / halves[1].cpu_milli.mean() - 1) < 0.1


def test_use_is_scaled_and_requests_are_not() -> None:
    whole, half = built(), built(services={"usePercent": 50})
    assert np.allclose(half.services.cpu_milli * 2, whole.services.cpu_milli)
    assert half.services.request_cpu_milli is not None
    assert whole.services.request_cpu_milli is not None
    assert np.array_equal(half.services.request_cpu_milli, whole.services.request_cpu_milli)


def test_pools_take_their_shares_of_the_nodes() -> None:
    cluster = built(
        cluster={"nodes": 300, "pools": {"web": 0.25, "rest": 0.75}, "serviceCores": {"least": 8, "most": 16}}
    )
    assert 50 < cluster.nodes.pool.count("web") < 100
    assert set(cluster.nodes.pool) == {"web", "rest"}


def test_a_recording_keeps_its_nodes_and_places_and_repeats() -> None:
    services = ServiceCurves(
        ids=("a", "b"),
        step_s=3600,
        cpu_milli=np.arange(48, dtype=np.float32).reshape(2, 24),
        request_cpu_milli=np.array([100, 200]),
        node=("n2", ""),
    )
    nodes = NodeColumns(("n1", "n2"), np.array([4000, 8000]), np.array([1 << 33] * 2), ("", ""))
    cluster = build(scenario(cluster={}), [Trace(services=services, nodes=nodes)], None, 1)
    assert cluster.nodes is nodes
    assert cluster.service_node.tolist() == [1, UNPLACED]
    assert cluster.services.cpu_milli.shape == (2, 48)
    assert np.array_equal(cluster.services.cpu_milli[:, :24], cluster.services.cpu_milli[:, 24:])


def test_tasks_repeat_until_there_are_as_many_pods_as_the_scenario_says() -> None:
    cluster = built(batch={"pods": 1500, "cores": [2], "memoryPerCore": "2Gi", "shortest": "10m", "longest": "1h"})
    assert len(cluster.services.ids) + len(cluster.tasks.ids) == 1500
    assert len(set(cluster.tasks.ids)) == len(cluster.tasks.ids)
    assert (cluster.tasks.duration_s >= 600).all()
    assert (cluster.tasks.duration_s <= 3600).all()
    assert set(cluster.tasks.request_cpu_milli.tolist()) == {2000}
    assert set(cluster.tasks.request_memory_bytes.tolist()) == {4 << 30}
    assert (cluster.tasks.use_milli <= 2000).all()
    assert (np.diff(cluster.tasks.arrival_s) >= 0).all()
    assert cluster.tasks.arrival_s[-1] < 48 * 3600


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"batch": {"longest": "1m"}}, "batch.trace: no task runs 0s to 1m"),
        ({"batch": {"pods": 3}}, r"batch.pods \(3\) must be above the number of services"),
        ({"cluster": {}}, "cluster.nodes: is required: trace synthetic has no nodes"),
    ],
)
def test_what_cannot_be_built_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        built(**fields)


def test_a_cluster_that_would_fill_memory_is_refused_before_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mix_services, "MOST_CELLS", 2_000_000)
    with pytest.raises(BadInput, match="services times steps may be 2 million; use fewer nodes"):
        built(cluster={"nodes": 5000}, duration="24h")
    monkeypatch.setattr(mix_tasks, "MOST_SAMPLES", 1000)
    with pytest.raises(BadInput, match=r"batch\.pods: .* tasks have .* use fewer pods"):
        built(batch={"pods": 5000})


def test_a_scenario_without_traces_runs_on_formulas(tmp_path: Path) -> None:
    assert len(cluster_of(scenario(), tmp_path, 1).services.ids) > 6


def test_a_trace_that_does_not_exist_or_lacks_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        TraceFault, match="bitbrain: is not a trace; valid: synthetic, bitbrains, planetlab, surf, openb"
    ):
        read_trace("bitbrain", tmp_path)
    (tmp_path / "vm_meta.csv").write_text("id\n")
    with pytest.raises(TraceFault, match=r"needs vm_cpu_50vms\.csv, vm_meta\.csv .*: vm_cpu_50vms\.csv is missing"):
        read_trace("bitbrains", tmp_path)


def test_a_damaged_packed_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vm_meta.csv").write_text("id,cpu_count,cpu_capacity,mem_capacity\nvm1,2,5000,1\n")
    (tmp_path / "vm_cpu_50vms.csv.gz").write_bytes(b"\x1f\x8b\x08\x00 broken")
    with pytest.raises(TraceFault, match="a packed file of bitbrains is damaged"):
        read_trace("bitbrains", tmp_path)
