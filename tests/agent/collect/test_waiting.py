"""How long pods wait, as /proc and cgroups of both kinds tell it; what a kernel lacks is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.agent.collect import switching
from koord.agent.collect.registry import collect
from koord.agent.collect.round import Rates, Round
from koord.agent.collect.samplers import SwitchSampling
from koord.agent.collect.task_sums import Sum, Waiting, Waitings
from koord.agent.host import perf
from koord.agent.host.cgroups import Version
from koord.agent.host.switch_records import Switch
from koord.agent.series import names
from koord.agent.series.samples import Samples, Series
from koord.agent.state import DEFAULT_GATES
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS
from tests.agent.states import NOW, node, pod
from tests.agent.trees import Tree

MS = 1_000_000
POD = "kubepods/burstable/podweb"


class Host:
    def __init__(self, tree: Tree, *gates: AgentGate) -> None:
        self.tree, self.cgroups, self.now_s = tree, tree.cgroups, NOW
        tree.pod("web", KubeQoS.BURSTABLE, "web-main")
        own = {**DEFAULT_GATES, **dict.fromkeys(gates, True)}
        self.state = replace(node(pod("web", "LS", requests={"cpu": "1"})), driver=tree.driver, gates=own)
        self.samples, self.rates, self.waitings = Samples(), Rates(), Waitings()
        tree.write("proc/self/schedstat", "0 0 0\n")

    def file(self, controller: str, name: str, text: str, directory: str = POD) -> None:
        own = f"{controller}/" if self.tree.version is Version.V1 else ""
        self.tree.write(f"sys/fs/cgroup/{own}{directory}/{name}", text)

    def tasks(self, waited_ms: dict[int, int], letters: str = "") -> None:
        """What runs in the container, and for how long each task has waited."""
        file = "tasks" if self.tree.version is Version.V1 else "cgroup.threads"
        self.file("cpu", file, "".join(f"{task}\n" for task in waited_ms), f"{POD}/web-main")
        for task, letter in zip(waited_ms, letters.ljust(len(waited_ms), "S"), strict=False):
            self.tree.write(f"proc/{task}/schedstat", f"1 {waited_ms[task] * MS} {task}\n")
            self.tree.write(f"proc/{task}/stat", f"{task} (a b) c) {letter} " + "0 " * 38 + "7 0\n")

    def round(self, seconds: float = 5.0) -> None:
        self.now_s += seconds
        collect(
            Round(self.cgroups, self.state, self.samples, self.rates, self.now_s, waitings=self.waitings)
        )  # fmt: skip

    def last(self, series: Series) -> float | None:
        return self.samples.last(series, self.now_s, 0.5)


@pytest.fixture(params=list(Version))
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    tree = Tree(tmp_path, request.param, CgroupDriver.CGROUPFS)
    return Host(tree, AgentGate.CPU_DELAY_COLLECTOR, AgentGate.MEMORY_DELAY_COLLECTOR)


def test_what_ended_tasks_waited_stays_in_the_sum(host: Host) -> None:
    host.tasks({11: 5000, 12: 9000})
    host.round()
    assert host.last(names.pod_wait("web")) == 0, "the time before is unknown"
    host.tasks({11: 5100, 12: 9300})
    host.round()
    host.tasks({11: 5200, 13: 50})
    host.round()
    assert host.last(names.pod_wait("web")) == (100 + 300 + 100 + 50) * MS
    assert host.last(names.container_wait("containerd://web-main")) == 550 * MS
    assert host.last(names.pod_threads("web")) == 2


def test_running_and_stuck_tasks_make_the_load(host: Host) -> None:
    host.tasks({11: 0, 12: 0, 13: 0}, "RRD")
    host.round()
    host.round(5.0)
    # 5 s of a minute: 2 x (1 - e^(-5/60)).
    assert host.last(names.pod_load("web", "R", "1m")) == pytest.approx(2 * 0.07996, rel=1e-3)
    assert host.last(names.pod_load("web", "D", "15m")) == pytest.approx(0.00554, rel=1e-2)


def test_waiting_for_disks_is_told_where_the_kernel_counts_it(host: Host) -> None:
    host.tasks({11: 0})
    host.round()
    assert host.last(names.pod_io_wait("web")) is None
    host.tree.write("proc/sys/kernel/task_delayacct", "1\n")
    host.round()
    assert host.last(names.pod_io_wait("web")) == 70 * MS, "seven hundredths of a second"


def test_a_kernel_without_schedstat_tells_nothing_and_costs_no_look_at_tasks(host: Host) -> None:
    (host.tree.root / "proc/self/schedstat").unlink()
    host.tasks({11: 5000})
    host.round()
    host.round()
    assert host.last(names.pod_wait("web")) is None


def test_without_its_gates_nothing_is_measured(tmp_path: Path) -> None:
    host = Host(Tree(tmp_path, Version.V2, CgroupDriver.CGROUPFS))
    host.tasks({11: 5000})
    host.round()
    assert host.last(names.pod_wait("web")) is host.last(names.pod_major_faults("web")) is None


def test_the_pods_own_limits_are_counted_over_the_pod_and_its_containers(host: Host) -> None:
    unit = "time" if host.tree.version is Version.V1 else "usec"
    for directory in (POD, f"{POD}/web-main"):
        text = f"usage_usec 0\nnr_periods 9\nnr_throttled 2\nthrottled_{unit} 3000\n"
        host.file("cpu", "cpu.stat", text, directory)
    host.tasks({11: 0})
    host.round()
    assert host.last(names.pod_throttled_periods("web")) == 4
    assert host.last(names.pod_throttled_ns("web")) == 6000 * (1 if host.tree.version is Version.V1 else 1000)


def test_memory_delays_are_told_as_far_as_the_kernel_does(host: Host) -> None:
    is_v1 = host.tree.version is Version.V1
    host.file("memory", "memory.stat", "total_pgmajfault 7\n" if is_v1 else "pgmajfault 7\npgscan_direct 300\n")
    host.file("memory", "memory.failcnt" if is_v1 else "memory.events", "4" if is_v1 else "high 1\nmax 3\n")
    host.round()
    assert host.last(names.pod_major_faults("web")) == 7
    assert host.last(names.pod_memory_limit_hits("web")) == 4
    assert host.last(names.pod_direct_reclaim("web")) == (None if is_v1 else 300)


def test_latency_buckets_are_read_where_a_kernel_keeps_them(host: Host) -> None:
    for directory in ("kubepods", POD):
        text = "0-1ms: \t12\n1-5ms: \t3\n>=1000ms: \t0\ntotal(ms): \t17\n"
        host.file("memory", "memory.direct_reclaim_memcg_latency", text, directory)
    host.round()
    assert host.last(names.pod_stalls("web", "direct_reclaim_memcg", "1-5ms")) == 3
    assert host.last(names.pod_stalls("web", "direct_reclaim_memcg", "total")) == 17


def test_what_is_read_from_and_written_to_disks_is_summed_over_devices(host: Host) -> None:
    if host.tree.version is Version.V1:
        host.file("blkio", "blkio.throttle.io_service_bytes_recursive", "8:0 Read 100\n8:0 Write 200\nTotal 300\n")
    else:
        host.file("", "io.stat", "8:0 rbytes=100 wbytes=50 rios=9 wios=9\n8:16 rbytes=0 wbytes=150\n")
    host.round()
    assert host.last(names.pod_io_bytes("web")) == 300


@settings(max_examples=30)
@given(st.lists(st.dictionaries(st.integers(1, 5), st.floats(0, 1e9)), max_size=12))
def test_a_sum_over_tasks_never_goes_backwards(looks: list[dict[int, float]]) -> None:
    total, before = Sum[int](), 0.0
    for look in looks:
        now = total.add(look, most=1e8)
        assert before <= now <= (before + 1e8 * len(look)) * (1 + 1e-12)
        before = now


def throttled(host: Host, directory: str, count: int) -> None:
    unit = "time" if host.tree.version is Version.V1 else "usec"
    host.file("cpu", "cpu.stat", f"nr_periods 9\nnr_throttled {count}\nthrottled_{unit} {count}000\n", directory)


def test_a_limit_that_a_container_gave_to_a_part_of_itself_is_the_pods_own(host: Host) -> None:
    inner = f"{POD}/web-main/inner"
    host.tasks({11: 0})
    host.file("cpu", "tasks" if host.tree.version is Version.V1 else "cgroup.threads", "", inner)
    for directory, count in ((POD, 0), (f"{POD}/web-main", 0), (inner, 7)):
        throttled(host, directory, count)
    host.round()
    assert host.last(names.pod_throttled_periods("web")) == 7


def test_what_stopped_a_container_stays_in_the_sum_when_it_starts_again(host: Host) -> None:
    host.tasks({11: 0})
    throttled(host, POD, 0)
    throttled(host, f"{POD}/web-main", 20)
    host.round()
    throttled(host, f"{POD}/web-main", 3)
    host.round()
    assert host.last(names.pod_throttled_periods("web")) == 23, "three more in its new life"


def test_a_container_that_meets_its_memory_limit_is_its_pods_own_doing(host: Host) -> None:
    is_v1 = host.tree.version is Version.V1
    host.file("memory", "memory.stat", "total_pgmajfault 7\n" if is_v1 else "pgmajfault 7\n")
    for directory, hits in ((POD, 0 if is_v1 else 9), (f"{POD}/web-main", 5), (f"{POD}/web-main/inner", 4)):
        text = f"{hits}\n" if is_v1 else f"high 0\nmax {hits}\n"
        host.file("memory", "memory.failcnt" if is_v1 else "memory.events", text, directory)
    host.round()
    assert host.last(names.pod_memory_limit_hits("web")) == 9


class Ring:
    """What the kernel recorded on one CPU."""

    def __init__(self, *switches: Switch) -> None:
        self.switches = switches

    def start(self) -> None: ...

    def stop(self) -> Sequence[Switch]:
        return self.switches

    def close(self) -> None: ...


def test_who_held_the_cpu_a_while_ago_says_nothing_of_whom_a_pod_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod that has not waited since keeps no old share, which a later episode would be told with."""
    host = Host(Tree(tmp_path, Version.V2, CgroupDriver.CGROUPFS), AgentGate.SCHED_SWITCH_SAMPLER)
    rings = [
        Ring(Switch(0, 9, 0, False, False), Switch(4 * MS, 9, 11, True, False), Switch(4 * MS, 11, 9, False, False))
    ]
    monkeypatch.setattr(perf, "SwitchRing", lambda cpu: rings.pop() if rings else Ring())
    switch_sampling = SwitchSampling()
    host.waitings.by_pod["web"] = Waiting(NOW)
    host.waitings.by_pod["web"].wait.add({11: 0.0})
    host.waitings.by_pod["build"] = Waiting(NOW)
    host.waitings.by_pod["build"].wait.add({9: 0.0})
    seen = []
    for _ in range(12):
        host.now_s += 5.0
        round_ = Round(host.cgroups, host.state, host.samples, host.rates, host.now_s, waitings=host.waitings)
        round_.switches = switch_sampling
        switching.collect(round_)
        seen.append((switch_sampling.held or {}).get("web"))
    assert {"build": 1.0} in seen, "while it is of the last half minute"
    assert seen[-1] is None
