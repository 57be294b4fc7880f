"""Perf events: what the kernel records of switches, and whom it makes responsible for a pod's waiting."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from koord.agent.collect.cpi import collect as collect_cpi
from koord.agent.collect.round import Rates, Round
from koord.agent.collect.samplers import CpiSampling
from koord.agent.host import perf
from koord.agent.host.switch_records import Switch, held, switches_in, waited_in
from koord.agent.series.samples import Samples
from koord.api.configuration.features import AgentGate
from tests.agent.loads import burn_on
from tests.agent.real_node import batch, real_node
from tests.agent.test_real_interference import periodic_on
from tests.waiting import until

MS = 1_000_000
PODS = {1: "web", 2: "build", 3: "train", 11: "web"}


def came(at_ms: int, task: int, after: int) -> Switch:
    return Switch(at_ms * MS, task, after, is_out=False, was_preempted=False)


def went(at_ms: int, task: int, to: int, *, preempted: bool = False) -> Switch:
    return Switch(at_ms * MS, task, to, is_out=True, was_preempted=preempted)


def test_who_ran_while_a_preempted_task_waited_held_its_cpu() -> None:
    # web runs, is taken off at 10; build has 6 ms and train 2 before it is back.
    timeline = [
        *(came(0, 1, 0), went(10, 1, 2, preempted=True)),
        *(came(10, 2, 1), went(16, 2, 3, preempted=True)),
        *(came(16, 3, 2), went(18, 3, 1)),
        came(18, 1, 3),
    ]
    assert held([waited_in([timeline], PODS)])["web"] == {"build": pytest.approx(0.75), "train": pytest.approx(0.25)}


def test_a_woken_task_blames_who_ran_before_it_for_a_few_milliseconds_at_most() -> None:
    # Once behind build, which had run for 90 ms; once behind a task of no pod, for 4 ms.
    timeline = [came(0, 2, 0), went(90, 2, 1), came(90, 1, 2), went(91, 1, 9), came(91, 9, 1), went(95, 9, 1)]
    timeline.append(came(95, 1, 9))
    assert held([waited_in([timeline], PODS)])["web"] == {"build": pytest.approx(0.5)}


def test_an_idle_cpu_was_held_by_nobody_and_a_pod_can_wait_for_itself() -> None:
    assert held([waited_in([[came(0, 1, 0), went(5, 1, 0), came(50, 1, 0)]], PODS)]) == {}
    own = [came(0, 11, 0), went(4, 11, 1), came(4, 1, 11)]
    assert held([waited_in([own], PODS)])["web"] == {"web": 1.0}


def test_records_are_read_as_the_kernel_writes_them() -> None:
    """Header (kind, misc, size), process and task of the other, process and task, time."""
    other_kind = struct.pack("IHHQ", 3, 0, 16, 0)
    came_in = struct.pack("IHHIIIIQ", 15, 0, 32, 200, 201, 100, 101, 5 * MS)
    went_out = struct.pack("IHHIIIIQ", 15, (1 << 13) | (1 << 14), 32, 200, 201, 100, 101, 9 * MS)
    cut_off = struct.pack("IHH", 15, 0, 32)
    assert list(switches_in(came_in + other_kind + went_out + cut_off)) == [
        Switch(5 * MS, 101, 201, is_out=False, was_preempted=False),
        Switch(9 * MS, 101, 201, is_out=True, was_preempted=True),
    ]


@pytest.mark.root
def test_a_spinner_on_its_cpu_is_seen_to_hold_it(tmp_path: Path) -> None:
    if not perf.records_switches():
        pytest.skip("this kernel does not tell who is switched in after whom")
    from tests.agent.loads import Process

    with real_node(tmp_path, slo={}) as node:
        node.gates |= {AgentGate.CPU_DELAY_COLLECTOR: True, AgentGate.SCHED_SWITCH_SAMPLER: True}
        node.agent.waitings.every_s = 0.0
        web, build, cpu = node.pod("web", "LS"), node.pod("build", **batch()), min(node.topology.all)
        with (
            Process(node.cgroups, web.containers[0].directory, periodic_on(cpu)),
            Process(node.cgroups, build.containers[0].directory, burn_on(cpu)),
        ):
            node.until(lambda: bool((node.agent.switches.held or {}).get("web")), most=40)
        shares = (node.agent.switches.held or {})["web"]
        assert shares["build"] > 0.5 > shares.get("web", 0.0)
        node.gates[AgentGate.SCHED_SWITCH_SAMPLER] = False
        node.round()
        assert node.agent.switches.held is None
        assert not node.agent.switches.rings


@pytest.fixture
def unified() -> Iterator[Path]:
    """A cgroup of this test's in a hierarchy that knows perf events."""
    for mount in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")):
        if (mount / "cgroup.controllers").exists() and os.geteuid() == 0:
            own = mount / f"koord-test-perf-{os.getpid()}"
            own.mkdir()
            try:
                yield own
            finally:
                own.rmdir()
            return
    pytest.skip("needs root and a cgroup v2 mount")


@pytest.mark.root
def test_counters_of_a_cgroup_count_what_runs_in_it(unified: Path) -> None:
    """With clocks in the place of cycles, which not every machine counts."""
    pid = os.fork()
    if pid == 0:
        (unified / "cgroup.procs").write_text("0")
        burn_on(0)()
        os._exit(1)
    try:
        group = perf.Group(str(unified), [0], (perf.CPU_CLOCK, perf.CONTEXT_SWITCHES))
        until(lambda: group.read().values[0] >= 1e6)
        clock_ns, switches = group.read().values
        group.close()
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    assert clock_ns >= 1e6
    assert switches >= 0


def test_a_machine_that_counts_no_cycles_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from koord.agent.host.cgroups import Version
    from koord.api.kubernetes.cgroup import CgroupDriver
    from tests.agent.states import NOW, node, pod
    from tests.agent.trees import Tree

    asked: list[int] = []

    def has_none() -> bool:
        asked.append(1)
        return False

    monkeypatch.setattr(perf, "has_cycles", has_none)
    tree, cpi_sampling = Tree(tmp_path, Version.V2, CgroupDriver.CGROUPFS), CpiSampling()
    state = node(pod("web", "LS"))
    state = replace(state, gates={**state.gates, AgentGate.CPI_COLLECTOR: True})
    for second in range(3):
        collect_cpi(Round(tree.cgroups, state, Samples(), Rates(), NOW + 60 * second, cpi=cpi_sampling))
    assert (asked, cpi_sampling.is_there, cpi_sampling.groups) == ([1], False, {})
