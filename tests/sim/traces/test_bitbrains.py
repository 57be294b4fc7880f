"""Bitbrains: MHz of virtual machines at any time become milli-cores every 5 minutes."""

from __future__ import annotations

import math

import pytest

from koord.sim.traces.bitbrains import read
from koord.sim.traces.trace import Trace, TraceFault
from tests.sim.traces.samples import BITBRAINS_MACHINES, bitbrains


def curve(trace: Trace) -> list[float | None]:
    assert trace.services is not None
    return [None if math.isnan(value) else round(float(value)) for value in trace.services.cpu_milli[0]]


def test_mhz_become_milli_cores_by_the_capacity_of_a_core() -> None:
    trace = read(bitbrains("vm1,0,300,2,2500\nvm1,300,300,2,5000\n"))
    assert curve(trace) == [1000, 2000]
    assert trace.services is not None
    assert trace.services.ids == ("bitbrains-vm1",)
    assert trace.services.request_cpu_milli is not None
    assert trace.services.request_cpu_milli.tolist() == [2000]
    assert trace.services.request_memory_bytes is not None
    assert trace.services.request_memory_bytes.tolist() == [4 << 30]
    assert trace.repairs == ()


def test_a_sample_covers_the_time_before_it() -> None:
    assert curve(read(bitbrains("vm1,0,300,2,2500\nvm1,900,900,2,5000\n"))) == [1000, 2000, 2000, 2000]


def test_a_sample_is_split_between_two_steps() -> None:
    assert curve(read(bitbrains("vm1,0,300,2,0\nvm1,150,150,2,5000\nvm1,600,450,2,0\n"))) == [0, 1000, 0]


def test_a_short_gap_takes_the_value_before_it_and_is_counted() -> None:
    trace = read(bitbrains("vm1,0,300,2,2500\nvm1,900,300,2,5000\n"))
    assert curve(trace) == [1000, 1000, 1000, 2000]
    (repair,) = trace.repairs
    assert (repair.count, "gap" in repair.rule) == (2, True)


def test_a_machine_does_not_exist_in_a_long_gap() -> None:
    trace = read(bitbrains("vm1,0,300,2,2500\nvm1,7200,300,2,5000\n"))
    assert curve(trace) == [1000, *[None] * 23, 2000]
    assert trace.repairs == ()


def test_negative_use_and_time_that_goes_back_are_repaired_and_counted_with_file_and_line() -> None:
    trace = read(bitbrains("vm1,0,300,2,-1\nvm1,300,300,2,5000\nvm1,300,300,2,1\nvm1,0,300,2,1\n"))
    assert curve(trace) == [0, 2000]
    assert [(repair.rule, repair.count, repair.first) for repair in trace.repairs] == [
        ("negative use set to 0", 1, "vm_cpu_50vms.csv:2"),
        ("sample not later than the one before it left out", 2, "vm_cpu_50vms.csv:4"),
    ]


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ("vm1,0,300,2\n", "vm_cpu_50vms.csv:2: has 4 fields, the header has 5"),
        ("vm1,0,300,2,fast\n", "vm_cpu_50vms.csv:2: column cpu_mhz: 'fast' is not a number"),
        ("vm1,0,300,2,nan\n", "vm_cpu_50vms.csv:2: column cpu_mhz: nan is not a finite number"),
        ("vm1,0,0,2,1\n", "vm_cpu_50vms.csv:2: column dur_s: must be above 0, not 0"),
        ("vm1,0,300,2,1\nvm2,0,300,2,1\n", "vm_cpu_50vms.csv:3: machine vm2 is not in vm_meta.csv"),
        (",0,300,2,1\n", "vm_cpu_50vms.csv:2: column id: must not be empty"),
        ("", "vm_cpu_50vms.csv: has no samples"),
    ],
)
def test_what_no_rule_repairs_is_refused_with_file_and_line(samples: str, message: str) -> None:
    with pytest.raises(TraceFault) as refusal:
        read(bitbrains(samples))
    assert str(refusal.value) == message


def test_a_machine_that_stands_twice_is_refused() -> None:
    machines = BITBRAINS_MACHINES + "vm1,a,b,4,5000,4194304\n"
    with pytest.raises(TraceFault, match=r"vm_meta\.csv:3: machine vm1 stands twice"):
        read(bitbrains("vm1,0,300,2,1\n", machines))


def test_a_missing_column_is_named_beside_those_that_exist() -> None:
    with pytest.raises(
        TraceFault, match=r"vm_meta\.csv:1: column cpu_capacity is missing; the header has id, cpu_count"
    ):
        read(bitbrains("vm1,0,300,2,1\n", "id,cpu_count,mem_capacity\nvm1,2,3\n"))
