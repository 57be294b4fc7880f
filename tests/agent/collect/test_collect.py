"""What collectors make of counters, on composed hosts of both kinds."""

from dataclasses import replace
from pathlib import Path

import pytest

from koord.agent.collect.registry import collect
from koord.agent.collect.round import Rates, Round
from koord.agent.collect.system import collect as collect_system
from koord.agent.host.cgroups import Version
from koord.agent.host.knobs import CPU_QUOTA, CPUSET_CPUS
from koord.agent.report.node_metric import node_metric_status
from koord.agent.series import names
from koord.agent.series.samples import Samples, Series
from koord.agent.state import NodeState
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS
from koord.api.protocol.report_policy import ReportPolicy
from koord.api.text.cpuset import CPUSet
from tests.agent.states import GIB, NOW, cpus, node, pod
from tests.agent.trees import Tree

S = 1_000_000_000
MIB = 1 << 20


class Watched:
    """A host, its pods, and rounds a second apart."""

    def __init__(self, tree: Tree, state: NodeState) -> None:
        self.tree = tree
        self.state = replace(state, driver=tree.driver)
        self.samples, self.rates, self.now_s = Samples(), Rates(), NOW
        self.cgroups = tree.cgroups

    def round(self, seconds: float = 1.0, *, is_thorough: bool = True) -> None:
        self.now_s += seconds
        collect(Round(self.cgroups, self.state, self.samples, self.rates, self.now_s, is_thorough=is_thorough))

    def last(self, series: Series) -> float | None:
        return self.samples.last(series, self.now_s, 0.5)


@pytest.fixture(params=list(Version))
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Watched:
    tree = Tree(tmp_path, request.param, CgroupDriver.CGROUPFS)
    tree.pod("web", KubeQoS.BURSTABLE, "web-main")
    tree.pod("job", KubeQoS.BEST_EFFORT, "job-main")
    tree.cgroup("host-latency-sensitive/nginx")
    web = pod("web", "LS", requests={"cpu": "1"}, limits={"cpu": "2"})
    job = pod("job", "BE", requests={"kubernetes.io/batch-cpu": "3000"})
    slo = {"hostApplications": [{"name": "nginx", "qos": "LS"}]}
    return Watched(tree, node(web, job, slo=slo, topology=cpus(1, 4, 2)))


def test_the_first_reading_of_a_counter_tells_no_rate(host: Watched) -> None:
    host.round()
    assert host.last(names.NODE_CPU) is None
    assert host.last(names.NODE_MEMORY) == 0


def test_counters_become_milli_cores(host: Watched) -> None:
    host.round()
    # In one second: node 3 cores, web 1.5, job 0.5, nginx 0.25.
    host.tree.node_usage(busy_ticks=300, memory_used_bytes=8 * GIB)
    host.tree.used("kubepods/burstable/podweb", cpu_ns=3 * S // 2, anon=2 * GIB, file=GIB)
    host.tree.used("kubepods/burstable/podweb/web-main", cpu_ns=S, anon=GIB)
    host.tree.used("kubepods/besteffort/podjob", cpu_ns=S // 2, anon=GIB)
    host.tree.used("kubepods/besteffort", cpu_ns=S // 2)
    host.tree.used("host-latency-sensitive/nginx", cpu_ns=S // 4, anon=GIB // 2)
    host.round()
    assert host.last(names.NODE_CPU) == pytest.approx(3000)
    assert host.last(names.pod_cpu("web")) == pytest.approx(1500)
    assert host.last(names.container_cpu("containerd://web-main")) == pytest.approx(1000)
    assert host.last(names.BE_CPU) == pytest.approx(500)
    assert host.last(names.BE_CPU_REQUEST) == 3000
    assert host.last(names.host_application_cpu("nginx")) == pytest.approx(250)
    assert host.last(names.SYSTEM_CPU) == pytest.approx(3000 - 1500 - 500 - 250)
    assert host.last(names.NODE_MEMORY) == 8 * GIB
    assert host.last(names.pod_memory("web")) == 2 * GIB
    assert host.last(names.SYSTEM_MEMORY) == 8 * GIB - 2 * GIB - GIB - GIB // 2


@pytest.mark.parametrize(("expires_s", "of_the_system"), [(10.0, 3000), (30.0, 1500)])
def test_a_sample_that_has_expired_does_not_count_in_what_the_system_uses(
    host: Watched, expires_s: float, of_the_system: float
) -> None:
    """The pod used 1.5 cores 20 s ago. Whether that still counts depends on who starts the agent."""
    host.samples.add(names.pod_cpu("web"), NOW - 20, 1500)
    host.samples.add(names.NODE_CPU, NOW, 3000)
    collect_system(Round(host.cgroups, host.state, host.samples, host.rates, NOW, expires_s=expires_s))
    assert host.last(names.SYSTEM_CPU) == of_the_system


def test_without_a_fresh_sample_of_the_node_there_is_none_of_the_system(host: Watched) -> None:
    host.samples.add(names.NODE_CPU, NOW - 4, 3000)
    collect_system(Round(host.cgroups, host.state, host.samples, host.rates, NOW, expires_s=3.0))
    assert host.last(names.SYSTEM_CPU) is None


def test_a_counter_that_was_read_long_ago_begins_anew(host: Watched) -> None:
    host.round()
    host.tree.node_usage(busy_ticks=300, memory_used_bytes=0)
    host.round(seconds=21)
    assert host.last(names.NODE_CPU) is None
    host.tree.node_usage(busy_ticks=400, memory_used_bytes=0)
    host.round()
    assert host.last(names.NODE_CPU) == pytest.approx(1000)


def test_a_cgroup_that_was_made_anew_is_not_negative(host: Watched) -> None:
    for used in (5 * S, S):
        host.tree.used("kubepods/burstable/podweb", cpu_ns=used)
        host.round()
    assert host.last(names.pod_cpu("web")) is None


def test_throttled_periods_of_periods(host: Watched) -> None:
    def stat(periods: int, throttled: int) -> None:
        v1 = host.tree.version is Version.V1
        where = "cpu/kubepods" if v1 else "kubepods"
        text = f"usage_usec {periods}\nnr_periods {periods}\nnr_throttled {throttled}\n"
        if v1:
            host.tree.write("sys/fs/cgroup/cpuacct/kubepods/burstable/podweb/web-main/cpuacct.usage", f"{periods}000\n")
        host.tree.write(f"sys/fs/cgroup/{where}/burstable/podweb/web-main/cpu.stat", text)

    stat(100, 10)
    host.round()
    stat(700, 52)
    host.round()
    series = names.container_throttled("containerd://web-main")
    assert host.last(series) == pytest.approx(42 / 600)
    host.round()
    assert host.last(series) == 0
    # After a pause, too, the periods since the last change count.
    for _ in range(30):
        host.round()
    stat(710, 57)
    host.round()
    assert host.last(series) == pytest.approx(0.5)


def test_memory_that_is_as_large_as_before_is_what_it_was_and_looked_at_again_in_time(host: Watched) -> None:
    def charge(charged: int, anon: int) -> None:
        host.tree.used("kubepods/burstable/podweb", anon=anon, file=charged - anon)

    series = names.pod_memory("web")
    charge(100 * MIB, anon=60 * MIB)
    host.round()
    host.round(is_thorough=False)
    assert host.last(series) == 60 * MIB
    charge(100 * MIB, anon=61 * MIB)
    host.round(is_thorough=False)
    assert host.last(series) == 60 * MIB
    charge(102 * MIB, anon=62 * MIB)
    host.round(is_thorough=False)
    assert host.last(series) == 62 * MIB
    charge(102 * MIB, anon=63 * MIB)
    host.round()
    assert host.last(series) == 63 * MIB


@pytest.mark.parametrize(("quota", "expected"), [(450_000, 4500), (-1, 6000)])
def test_what_best_effort_may_really_use(tmp_path: Path, quota: int, expected: int) -> None:
    tree = Tree(tmp_path, Version.V1, CgroupDriver.CGROUPFS, cores=16, threads=1)
    tree.pod("job", KubeQoS.BEST_EFFORT, "job-main")
    cgroups = tree.cgroups
    cgroups.set(CPUSET_CPUS, "kubepods/besteffort", CPUSet(range(10)))
    cgroups.set(CPUSET_CPUS, "kubepods/besteffort/podjob/job-main", CPUSet(range(6)))
    cgroups.set(CPU_QUOTA, "kubepods/besteffort", quota)
    host = Watched(tree, node(pod("job", "BE"), topology=cpus(1, 16, 1)))
    host.round()
    assert host.last(names.BE_CPU_LIMIT) == expected


def test_pressure_is_looked_at_when_it_is_time(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Version.V2, CgroupDriver.CGROUPFS)
    directory = tree.pod("web", KubeQoS.BURSTABLE)
    line = "some avg10=12.50 avg60=0.00 avg300=0.00 total=9\nfull avg10=2.00 avg60=0.00 avg300=0.00 total=3\n"
    tree.write(f"sys/fs/cgroup/{directory}/memory.pressure", line)
    host = Watched(tree, node(pod("web", "LS", requests={"cpu": "1"})))
    series = names.pressure("web", "memory", "some")
    host.round()
    assert host.last(series) is None
    collect(Round(host.cgroups, host.state, host.samples, host.rates, host.now_s, asks_pressure=True))
    assert host.last(series) == 12.5
    assert host.last(names.pressure("web", "memory", "full")) == 2.0


def test_what_is_gone_leaves_nothing_behind(host: Watched) -> None:
    host.round()
    host.state = replace(host.state, pods={})
    host.round()
    assert host.samples.owners("pod_memory") == []
    assert host.samples.owners("container_memory") == []


def test_cpu_and_memory_of_each_numa_node(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Version.V2, CgroupDriver.CGROUPFS, sockets=2, cores=2, threads=1)
    host = Watched(tree, node(topology=cpus(2, 2, 1)))
    host.round()
    tree.write("proc/stat", "cpu  300 0 0 9 0 0 0 0\ncpu0 100 0 0 9 0 0 0 0\ncpu1 150 0 0 9 0 0 0 0\n"
               "cpu2 50 0 0 9 0 0 0 0\ncpu3 0 0 0 9 0 0 0 0\n")  # fmt: skip
    host.round()
    assert host.last(names.numa_cpu(0)) == pytest.approx(2500)
    assert host.last(names.numa_cpu(1)) == pytest.approx(500)
    assert host.last(names.numa_memory(0)) == 0


def test_pods_and_applications_are_reported_with_page_cache_where_that_is_asked_for(host: Watched) -> None:
    host.tree.used("kubepods/burstable/podweb", anon=60 * MIB, file=40 * MIB)
    host.tree.used("host-latency-sensitive/nginx", anon=10 * MIB, file=5 * MIB)
    for _ in range(2):
        host.round()
        host.tree.node_usage(busy_ticks=int(host.now_s), memory_used_bytes=0)

    def told(policy: str) -> list[object]:
        status = node_metric_status(host.state, host.samples, ReportPolicy(memory=policy), host.now_s, "")
        assert status is not None
        (web,) = [metric for metric in status.pods_metric if metric.name == "web"]
        (nginx,) = status.host_application_metric
        return [web.pod_usage.resources["memory"], nginx.usage.resources["memory"]]

    host.round()
    assert told("usageWithoutPageCache") == ["60Mi", "10Mi"]
    assert told("usageWithPageCache") == ["100Mi", "15Mi"]


def test_a_node_that_is_part_of_a_machine_has_no_more_for_best_effort_than_itself(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Version.V1, CgroupDriver.CGROUPFS, cores=4, threads=1)
    tree.pod("job", KubeQoS.BEST_EFFORT, "job-main")
    state = replace(node(pod("job", "BE"), topology=cpus(1, 4, 1)), capacity_cpu_milli=1500)
    host = Watched(tree, state)
    host.round()
    assert host.last(names.BE_CPU_LIMIT) == 1500


def test_services_are_what_is_used_outside_best_effort_and_what_is_kept_for_them(host: Watched) -> None:
    """Node 3 cores, best effort 0.5; the node reserves 1 core for a system that uses a quarter of it."""
    owner = pod("owner", "LSE", requests={"cpu": "2"})
    host.state = replace(
        node(*host.state.pods.values(), owner, slo={}, topology=cpus(1, 4, 2), allocatable={"cpu": "7"}),
        driver=host.tree.driver,
    )
    host.tree.pod("owner", KubeQoS.BURSTABLE, "owner-main")
    host.round()
    host.tree.node_usage(busy_ticks=300, memory_used_bytes=8 * GIB)
    host.tree.used("kubepods/burstable/podweb", cpu_ns=S)
    host.tree.used("kubepods/burstable/podowner", cpu_ns=5 * S // 4)
    host.tree.used("kubepods/besteffort", cpu_ns=S // 2)
    host.tree.used("kubepods/besteffort/podjob", cpu_ns=S // 2)
    host.round()
    system = host.last(names.SYSTEM_CPU)
    assert system == pytest.approx(250)
    assert host.last(names.SERVICES_CPU) == pytest.approx(2_500 + (1_000 - 250) + (2_000 - 1_250))


def test_a_node_without_best_effort_has_services_alone(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Version.V2, CgroupDriver.CGROUPFS)
    bare = Watched(tree, node(slo={}, topology=cpus(1, 4, 2)))
    bare.round()
    tree.node_usage(busy_ticks=300, memory_used_bytes=GIB)
    bare.round()
    assert bare.last(names.SERVICES_CPU) == pytest.approx(3_000)


def test_time_that_best_effort_was_throttled_becomes_milli_cores(host: Watched) -> None:
    host.round()
    if host.tree.version is Version.V1:
        text = f"nr_periods 20\nnr_throttled 10\nthrottled_time {S // 2}\n"
        host.tree.write("sys/fs/cgroup/cpu/kubepods/besteffort/cpu.stat", text)
    else:
        text = "usage_usec 0\nnr_periods 20\nnr_throttled 10\nthrottled_usec 500000\n"
        host.tree.write("sys/fs/cgroup/kubepods/besteffort/cpu.stat", text)
    host.round(2.0)
    assert host.last(names.BE_THROTTLED) == pytest.approx(250)
