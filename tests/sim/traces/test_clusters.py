"""Production machines and whole clusters as curves: Alibaba 2018, Google 2019, Azure."""

from __future__ import annotations

import pytest

from koord.sim.traces import aggregates, alibaba2018
from koord.sim.traces.trace import Trace, TraceFault
from tests.sim.traces.samples import text

META = "m_1,0,219,17,96,100,USING\nm_1,60,219,17,48,100,USING\n"


def alibaba(usage: str) -> Trace:
    return alibaba2018.read({alibaba2018.USAGE: text(usage), alibaba2018.MACHINES: text(META)})


def test_a_machine_uses_its_percent_of_its_last_known_cores() -> None:
    services = alibaba("m_1,60,50,92,,,43,33,5\nm_1,120,25,92,,,43,33,5\n").services
    assert services is not None
    assert services.ids == ("alibaba2018-m_1",)
    assert services.cpu_milli.tolist() == [[24000, 12000]]
    assert services.request_cpu_milli is not None
    assert services.request_cpu_milli.tolist() == [48000]


def test_samples_out_of_order_or_range_are_left_out_and_counted() -> None:
    trace = alibaba("m_1,60,50,,,,,,\nm_1,60,50,,,,,,\nm_1,90,,,,,,,\nm_1,100,101,,,,,,\nm_1,120,50,,,,,,\n")
    assert trace.services is not None
    assert trace.services.cpu_milli.tolist() == [[24000, 24000]]
    assert [(repair.rule.split()[1], repair.count, repair.first) for repair in trace.repairs] == [
        ("not", 1, f"{alibaba2018.USAGE}:2"),
        ("without", 2, f"{alibaba2018.USAGE}:3"),
    ]


def test_a_machine_without_cores_is_refused() -> None:
    with pytest.raises(TraceFault, match=rf"{alibaba2018.USAGE}:1: machine m_2 is not in {alibaba2018.MACHINES}"):
        alibaba("m_2,60,50,92,,,43,33,5\n")


def test_aggregates_are_one_curve_each() -> None:
    mean = aggregates.read_alibaba({aggregates.ALIBABA: text("cpu_util_percent\n16.5\n20\n")}).services
    cell = aggregates.read_google({aggregates.GOOGLE: text("avg_cpu,avg_mem\n0.5,0.1\n0.25,0.1\n")}).services
    assert mean is not None
    assert cell is not None
    assert (mean.step_s, mean.cpu_milli.tolist()) == (30, [[165, 200]])
    assert (cell.step_s, cell.cpu_milli.tolist()) == (300, [[500, 250]])


def test_azure_has_gaps_filled_and_time_that_goes_back_left_out() -> None:
    lines = "timestamp,cpu_usage,assigned_mem\n0,100,1\n300,200,2\n300,900,9\n900,-5,4\n"
    trace = aggregates.read_azure({aggregates.AZURE: text(lines)})
    assert trace.services is not None
    assert trace.services.memory_bytes is not None
    assert trace.services.cpu_milli.tolist() == [[1000, 2000, 2000, 0]]
    assert trace.services.memory_bytes.tolist() == [[1 << 30, 2 << 30, 2 << 30, 4 << 30]]
    assert [repair.count for repair in trace.repairs] == [1, 1, 1]


def test_more_than_all_of_a_cluster_is_refused() -> None:
    with pytest.raises(TraceFault, match=rf"{aggregates.GOOGLE}:2: column avg_cpu: must be at most 1, not 47"):
        aggregates.read_google({aggregates.GOOGLE: text("avg_cpu\n47\n")})
