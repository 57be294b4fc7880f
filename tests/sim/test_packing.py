"""GPUs in the simulator: pods that come and go, placed by the scheduler under a packing policy."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from koord.api.machinery.faults import BadInput, Invalid
from koord.sim.cluster import Cluster
from koord.sim.jobs import Job, policies_of, side_by_side
from koord.sim.mix import build
from koord.sim.packing import POLICIES, Window, gpu_milli_of, tasks_of
from koord.sim.run import run
from koord.sim.scenario import Scenario, from_data
from koord.sim.traces.trace import GpuNode, GpuPod, Trace
from tests.sim import small

NODES = [GpuNode(f"n{i}", "T4" if i % 2 else "A10", 2, 16_000, 65_536) for i in range(4)]
"""8 GPUs."""
WINDOW = Window(3600.0, 4 * 3600.0)


def pods(
    count: int = 40, *, milli: int = 1000, life_s: int = 1200, models: frozenset[str] = frozenset()
) -> list[GpuPod]:
    return [GpuPod(f"p{i}", 2000, 4096, 1, milli, models, i * 600, i * 600 + life_s) for i in range(count)]


def trace(given: list[GpuPod]) -> Trace:
    nodes = small.nodes(len(NODES), cores=16)
    named = type(nodes)(tuple(node.name for node in NODES), nodes.cpu_milli, nodes.memory_bytes, nodes.pool)
    return Trace(nodes=named, gpu_nodes=tuple(NODES), gpu_pods=tuple(given))


def scenario(packing: str = "MostAllocated", load: float = 0.5) -> Scenario:
    return from_data(
        {
            "name": "gpus", "duration": "4h", "warmUp": "1h", "policy": "none", "packing": packing,
            "batch": {"trace": "openb", "load": load, "start": "0s"},
        },
        "gpus",
    )  # fmt: skip


def cluster(given: list[GpuPod], load: float = 0.5) -> Cluster:
    return build(scenario(load=load), [], trace(given), seed=1)


@pytest.mark.parametrize("load", [0.2, 0.9, 2.0])
def test_pods_ask_for_the_share_of_all_gpus_that_the_load_says(load: float) -> None:
    tasks = tasks_of(pods(), NODES, load, WINDOW, 60.0, seed=1)
    begin = np.maximum(tasks.arrival_s, WINDOW.from_s)
    end = np.minimum(tasks.arrival_s + tasks.duration_s, WINDOW.to_s)
    asked = float((gpu_milli_of(tasks) * np.maximum(end - begin, 0)).sum())
    one_pod = 1000 * 1200.0
    assert load * 8000 * 3 * 3600 == pytest.approx(asked, abs=one_pod)
    assert (np.diff(tasks.arrival_s) >= 0).all()
    assert len(set(tasks.ids)) == len(tasks.ids)


@pytest.mark.parametrize("packing", POLICIES)
def test_every_policy_places_all_pods_where_there_is_room(packing: str) -> None:
    given = scenario(packing)
    outcome = run(given, cluster(pods(milli=500)), policies_of(given), seed=1)
    assert outcome.totals.gpu_allocated_percent == pytest.approx(50, abs=8)
    assert outcome.totals.gpu_waiting_percent < 1
    assert (outcome.series.gpu_allocated_milli <= outcome.series.gpu_milli).all()


def test_pods_wait_for_gpus_that_others_have_and_for_their_model() -> None:
    given = scenario()
    both = cluster(pods(models=frozenset({"T4"})), load=1.0)
    outcome = run(given, both, policies_of(given), seed=1)
    assert outcome.series.gpu_allocated_milli.max() == 4000
    assert outcome.totals.gpu_allocated_percent < 51
    assert outcome.totals.gpu_waiting_percent > 5


def test_a_run_that_packs_stands_beside_the_other_policies_that_pack() -> None:
    jobs = side_by_side(Job("FGD", scenario("FGD"), 1, "traces"))
    assert [job.name for job in jobs] == ["FGD", "ShadowPrices", "MostAllocated", "LeastAllocated"]
    assert [job.scenario.packing for job in jobs] == [job.name for job in jobs]


def test_what_contradicts_a_trace_of_gpus_is_refused() -> None:
    saturated = from_data(
        {
            "name": "gpus", "duration": "1h", "policy": "none",
            "batch": {"trace": "openb", "arrivals": "saturate", "pending": 3},
        },
        "gpus",
    )  # fmt: skip
    with pytest.raises(BadInput, match="come as recorded; load alone changes it"):
        build(saturated, [], trace(pods()), seed=1)
    with pytest.raises(BadInput, match=r"packing: MostAllocated packs GPUs, and trace openb has none"):
        build(scenario(), [], Trace(tasks=small.tasks(1)), seed=1)
    with pytest.raises(BadInput, match=r"batch\.load: is for traces with GPUs"):
        build(replace(scenario(), packing=""), [], Trace(tasks=small.tasks(1)), seed=1)
    with pytest.raises(BadInput, match="no pod with GPUs that lived"):
        build(scenario(), [], trace(pods(life_s=0)), seed=1)
    with pytest.raises(Invalid, match="packing"):
        scenario("Random")
