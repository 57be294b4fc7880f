"""Cold memory and page cache: what each source tells, and what is reported of it."""

from __future__ import annotations

import errno
import logging
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from koord.agent.collect.registry import collect
from koord.agent.collect.round import Rates, Round
from koord.agent.collect.samplers import ColdSampling
from koord.agent.core import Agent
from koord.agent.executor.executor import Executor
from koord.agent.executor.ledger import Ledger
from koord.agent.host.cgroups import Version
from koord.agent.host.cold import damon, generations, idle_pages, kidled
from koord.agent.host.cold.reading import ColdReading
from koord.agent.host.cold.sources import source_of
from koord.agent.host.features import features
from koord.agent.live.metrics import AgentCollector
from koord.agent.qos import cold_memory
from koord.agent.report.node_metric import node_metric_status
from koord.agent.series import names
from koord.agent.series.samples import Samples
from koord.agent.state import DEFAULT_GATES, NodeState
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS
from koord.api.protocol.crd.node_metric import NodeMetricStatus
from koord.api.protocol.report_policy import ReportPolicy
from koord.api.text.quantity import amount
from tests.agent.states import GIB, NOW, cpus, delivered, node, pod
from tests.agent.trees import Tree

MIB = 1 << 20
PAGE = 4096
WEB = "kubepods/burstable/podweb"
MAIN = f"{WEB}/web-main"


def idle_stats(period_s: int = 5, **rows: tuple[int, ...]) -> str:
    """As kidled writes it: 14 lines of explanation, and 17 of figures, all zero unless said."""
    kinds = [f"{a}{b}{c}{d}" for d in "ia" for c in "eu" for b in "sf" for a in "cd"]
    head = [
        "# version: 1.0",
        "# page_scans: 24",
        "# slab_scans: 0",
        f"# scan_period_in_seconds: {period_s}",
        "# use_hierarchy: 1",
        "# buckets: 1,2,5,15,30,60,120,240",
        "#",
        *["# |"] * 6,
        "#        [1,2) [2,5) [5,15) [15,30) [30,60) [60,120) [120,240) [240,+inf)",
    ]
    figures = [f"  {name} {' '.join(map(str, rows.get(name, (0,) * 8)))}" for name in (*kinds, "slab")]
    return "\n".join([*head, *figures]) + "\n"


def test_of_kidled_inactive_page_cache_counts_that_is_idle_for_five_minutes() -> None:
    # The worked example of the specification: buckets 5..7.
    text = idle_stats(
        cfei=(9, 9, 9, 9, 9, 60 * MIB, 70 * MIB, 80 * MIB),
        cfui=(0, 0, 0, 0, 0, MIB, 2 * MIB, 3 * MIB),
        csei=(0, 0, 0, 0, 0, 500 * MIB, 0, 0),
    )
    assert kidled.cold_bytes(text) == 216 * MIB


@pytest.mark.parametrize(
    ("period_s", "cold"),
    # From 300 s on: [5,15) scans at 60 s, [15,30) at 20 s, none at 1 s. At 0 there is no scan.
    [(60, 4 + 8 + 16 + 32 + 64 + 128), (20, 8 + 16 + 32 + 64 + 128), (1, 0), (0, None)],
)
def test_ages_are_counted_in_scans_as_far_apart_as_the_file_says(period_s: int, cold: int | None) -> None:
    assert kidled.cold_bytes(idle_stats(period_s, dfei=(1, 2, 4, 8, 16, 32, 64, 128))) == cold


@pytest.mark.parametrize("text", ["", "a\n" * 31, idle_stats() + "more\n"])
def test_a_file_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=kidled.FILE):
        kidled.cold_bytes(text)


class Host:
    def __init__(self, tree: Tree, **slo: object) -> None:
        self.tree = tree
        tree.pod("web", KubeQoS.BURSTABLE, "web-main", "web-side")
        containers = [{"name": name, "resources": {"requests": {"cpu": "1"}}} for name in ("main", "side")]
        state = node(pod("web", "LS", containers=containers), slo=slo, topology=cpus(1, 4, 2))
        self.state = self.with_gate(replace(state, driver=tree.driver), True)
        self.samples, self.rates, self.cold, self.now_s = Samples(), Rates(), ColdSampling(), NOW

    def with_gate(self, state: NodeState, on: bool) -> NodeState:
        return replace(state, gates={**state.gates, AgentGate.COLD_PAGE_COLLECTOR: on})

    def round(self, seconds: float = 10.0) -> None:
        self.now_s += seconds
        self.tree.node_usage(busy_ticks=int(self.now_s), memory_used_bytes=8 * GIB, page_cache_bytes=4 * GIB)
        collect(
            Round(self.tree.cgroups, self.state, self.samples, self.rates, self.now_s, is_thorough=True, cold=self.cold)
        )

    def told(self, policy: str) -> NodeMetricStatus:
        status = node_metric_status(self.state, self.samples, ReportPolicy(memory=policy), self.now_s, "")
        assert status is not None
        return status

    def memory(self, policy: str) -> tuple[int, ...]:
        """Of the node, the system and the pod."""
        status = self.told(policy)
        assert status.node_metric is not None
        (web,) = status.pods_metric
        used = (status.node_metric.node_usage, status.node_metric.system_usage, web.pod_usage)
        return tuple(amount("memory", resource_map.resources["memory"]) for resource_map in used)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    tree = Tree(tmp_path, Version.V1, CgroupDriver.CGROUPFS)
    found = Host(tree)
    for directory, anon, file in ((WEB, 600, 400), (MAIN, 500, 300), (f"{WEB}/web-side", 100, 100)):
        tree.used(directory, anon=anon * MIB, file=file * MIB)
    return found


def with_kidled(host: Host, **cold: int) -> None:
    for directory, idle in (("", cold["node"]), (WEB, cold["pod"]), (MAIN, cold["main"])):
        where = "/".join(part for part in ("sys/fs/cgroup/memory", directory, kidled.FILE) if part)
        host.tree.write(where, idle_stats(cfei=(0, 0, 0, 0, 0, 0, 0, idle)))


def test_all_three_memory_policies_count_the_same_part_for_node_system_and_pod(host: Host) -> None:
    with_kidled(host, node=1 * GIB, pod=150 * MIB, main=120 * MIB)
    for _ in range(3):
        host.round()
    assert host.memory("usageWithoutPageCache") == (8 * GIB, 8 * GIB - 600 * MIB, 600 * MIB)
    assert host.memory("usageWithPageCache") == (12 * GIB, 12 * GIB - 1000 * MIB, 1000 * MIB)
    hot = host.memory("usageWithHotPageCache")
    assert hot == (11 * GIB, 11 * GIB - 850 * MIB, 850 * MIB)
    assert hot[0] == hot[1] + hot[2], "what is reported adds up"


def test_page_cache_is_told_apart_for_the_node_the_pod_and_each_container(host: Host) -> None:
    with_kidled(host, node=1 * GIB, pod=150 * MIB, main=120 * MIB)
    for _ in range(2):
        host.round()
    status = host.told("usageWithHotPageCache")
    (web,) = status.pods_metric
    assert web.extensions["pageCache"] == {
        "total": "400Mi",
        "cold": "150Mi",
        "containers": {"main": {"total": "300Mi", "cold": "120Mi"}, "side": {"total": "100Mi"}},
    }
    # Of each container as of its pod, the hot part counts.
    assert {name: each["memory"] for name, each in web.extensions["containers"].items()} == {
        "main": "680Mi",
        "side": "200Mi",
    }
    assert status.node_metric is not None
    cache = status.node_metric.page_cache
    assert cache is not None
    assert (cache.cold, cache.counted) == ("1Gi", "hot")


def test_without_a_source_it_is_said_once_and_no_page_cache_counts(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            host.round()
    assert [record.message for record in caplog.records if "cold memory" in record.message] == [
        "cold memory is not available: this kernel does not tell hot and cold page cache apart"
    ]
    assert host.memory("usageWithHotPageCache") == host.memory("usageWithoutPageCache")
    status = host.told("usageWithHotPageCache")
    assert status.node_metric is not None
    assert status.node_metric.page_cache is not None
    assert (status.node_metric.page_cache.cold, status.node_metric.page_cache.counted) == (None, "none")
    (shown,) = [feature for feature in features(host.tree.cgroups, "") if feature.name == "cold memory"]
    assert not shown.is_there
    assert shown.how.startswith("not available")


def test_a_damaged_file_of_one_kernel_is_told_once_and_the_rest_goes_on(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    with_kidled(host, node=0, pod=0, main=0)
    host.tree.write(f"sys/fs/cgroup/memory/{WEB}/{kidled.FILE}", "short\n")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            host.round()
    assert len([record for record in caplog.records if "cold memory is not known" in record.message]) == 1
    assert host.samples.last(names.pod_memory("web"), host.now_s, 1) == 600 * MIB


def test_a_source_that_is_refused_does_not_keep_the_agent_from_its_work(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As idle pages are where /sys is mounted for reading alone."""

    class Refused:
        name = "refused"

        def look(self, directories: object, now_s: float) -> ColdReading | None:
            raise OSError(errno.EROFS, "Read-only file system", "/sys/kernel/mm/page_idle/bitmap")

    tree = Tree(tmp_path, Version.V1, CgroupDriver.CGROUPFS)
    agent = Agent(tree.cgroups, Executor(tree.cgroups, Ledger()))
    agent.cold = ColdSampling(Refused(), is_asked=True)
    agent.slowly_s = 0.0
    state = replace(node(slo={}), gates={**DEFAULT_GATES, AgentGate.COLD_PAGE_COLLECTOR: True})
    with caplog.at_level(logging.WARNING):
        for second in range(3):
            tree.node_usage(busy_ticks=second, memory_used_bytes=GIB, page_cache_bytes=GIB)
            agent.round(state, NOW + second)
    told = [record.message for record in caplog.records if "cold memory is not known" in record.message]
    assert len(told) == 1
    assert "Read-only file system" in told[0]


def test_with_the_gate_off_no_source_is_looked_for(host: Host) -> None:
    with_kidled(host, node=GIB, pod=0, main=0)
    host.state = host.with_gate(host.state, False)
    host.round()
    assert host.samples.last(names.NODE_COLD, host.now_s, 1) is None
    assert not host.cold.is_asked


def test_kidled_is_switched_on_and_put_back_as_it_was(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Version.V1, CgroupDriver.CGROUPFS)
    files = ("sys/kernel/mm/kidled/scan_period_in_seconds", "sys/kernel/mm/kidled/use_hierarchy")
    for file in files:
        tree.write(file, "0\n")
    saved: list[bytes] = []
    executor = Executor(tree.cgroups, Ledger(), saved.append)
    state = node(slo={})

    def shown() -> list[str]:
        return [tree.cgroups.files.text_if_any(file) for file in files]

    decision = cold_memory.decide(state)
    assert decision is not None
    writes = delivered(state, decision.wishes)
    assert len(executor.apply(writes, {cold_memory.NAME}, NOW).done) == 2
    assert shown() == ["5", "1"]
    assert not executor.apply(writes, {cold_memory.NAME}, NOW + 1).done, "nothing the second time"
    again = Executor(tree.cgroups, Ledger.parse(saved[0]))
    again.restore_all(NOW)
    assert shown() == ["0", "0"]
    assert cold_memory.decide(node()) is None, "without a NodeSLO nothing is changed"


LRU_GEN = """memcg     1 /
 node     0
         10     900000        100        200
         11     400000         10         20
         12      20000          5          6
memcg     7 /kubepods/burstable/podweb
 node     0
          3     310000          1         50
          4       1000          1          2
memcg     8 /kubepods/burstable/podweb/web-main
 node     0
          3     310000          1          7
          4       1000          1          2
 node     1
          3     900000          1         70
          4     310000          1        700
"""


def test_generations_older_than_five_minutes_are_cold_where_the_kernel_looked_since(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Version.V2, CgroupDriver.CGROUPFS)
    tree.write("sys/kernel/debug/lru_gen", LRU_GEN)
    source = source_of(tree.cgroups)
    assert isinstance(source, generations.Generations)
    cold_reading = source.look([WEB, MAIN], NOW)
    assert cold_reading is not None
    # NUMA node 1 is unknown: its youngest generation is old as well.
    assert cold_reading.by_directory == {WEB: 57 * PAGE, MAIN: 7 * PAGE}
    assert cold_reading.node == (220 + 57) * PAGE


def test_idle_pages_of_a_sample_stand_for_all(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Version.V2, CgroupDriver.CGROUPFS)
    tree.pod("web", KubeQoS.BURSTABLE, "web-main")
    pages = idle_pages.STEPS * 64 * 2
    tree.write("proc/zoneinfo", f"Node 0, zone   Normal\n        spanned  {pages}\n  start_pfn:           0\n")
    paths = [tmp_path / each for each in (idle_pages.BITMAP, idle_pages.FLAGS, idle_pages.OWNERS)]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    bitmap, flags, owners = paths
    own = tree.cgroups.files.inode(tree.cgroups.name("memory", MAIN))
    lru, anon = 1 << 5, 1 << 12
    bitmap.write_bytes(bytes(pages // 8))
    # Every second page is of a file, the others are anonymous; all are the container's.
    flags.write_bytes(struct.pack(f"={pages}Q", *[lru, lru | anon] * (pages // 2)))
    owners.write_bytes(struct.pack(f"={pages}Q", *[own] * pages))
    source = source_of(tree.cgroups)
    assert isinstance(source, idle_pages.IdlePages)
    for step in range(idle_pages.STEPS):
        assert source.look([WEB, MAIN], NOW + 10 * step) is None, "nothing is known before five minutes"
    assert bitmap.read_bytes() == b"\xff" * (pages // 8), "all of the sample is marked"
    # A quarter of the pages was used since: of each word the first 16.
    bitmap.write_bytes(struct.pack("=Q", ~0xFFFF & (1 << 64) - 1) * (pages // 64))
    cold_reading = source.look([WEB, MAIN], NOW + 300)
    assert cold_reading is not None
    assert cold_reading.node == pages // 2 * 3 // 4 * PAGE
    assert cold_reading.by_directory == {WEB: cold_reading.node, MAIN: cold_reading.node}


def test_a_monitor_of_somebody_else_is_read_and_never_written(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Version.V2, CgroupDriver.CGROUPFS)
    monitor = f"{damon.MONITORS}/0"
    scheme = f"{monitor}/contexts/0/schemes/0"
    shown = {
        f"{monitor}/state": "on",
        f"{monitor}/refresh_ms": "1000",
        f"{monitor}/contexts/0/operations": "paddr",
        f"{monitor}/contexts/0/monitoring_attrs/intervals/aggr_us": "100000",
        f"{scheme}/action": "stat",
        f"{scheme}/access_pattern/nr_accesses/max": "0",
        f"{scheme}/access_pattern/age/min": "3000",
        f"{scheme}/apply_interval_us": "0",
        f"{scheme}/ops_filters/0/type": "anon",
        f"{scheme}/ops_filters/0/matching": "Y",
        f"{scheme}/ops_filters/0/allow": "N",
        f"{scheme}/stats/sz_ops_filter_passed": "0",
    }
    for file, text in shown.items():
        tree.write(file, f"{text}\n")
        (tmp_path / file).chmod(0o444)
    source = source_of(tree.cgroups)
    assert isinstance(source, damon.Damon)
    assert source.look([WEB], NOW) is None, "one reading of a counter tells nothing"
    # In 10 s it looked 100 times, and found 3 MiB each time.
    tree.write(f"{scheme}/stats/sz_ops_filter_passed", f"{300 * MIB}\n")
    cold_reading = source.look([WEB], NOW + 10)
    assert cold_reading is not None
    assert (cold_reading.node, cold_reading.by_directory) == (3 * MIB, {})


@pytest.mark.parametrize(("file", "text"), [("state", "off"), ("refresh_ms", "0"), ("contexts/0/operations", "vaddr")])
def test_a_monitor_that_tells_something_else_is_no_source(tmp_path: Path, file: str, text: str) -> None:
    test_a_monitor_of_somebody_else_is_read_and_never_written(tmp_path)
    tree = Tree(tmp_path, Version.V2, CgroupDriver.CGROUPFS)
    tree.write(f"{damon.MONITORS}/0/{file}", f"{text}\n")
    assert source_of(tree.cgroups) is None


def test_page_cache_is_a_metric_of_its_own(host: Host) -> None:
    with_kidled(host, node=1 * GIB, pod=150 * MIB, main=120 * MIB)
    host.round()
    agent = Agent(host.tree.cgroups, Executor(host.tree.cgroups, Ledger()), samples=host.samples)
    found = AgentCollector(agent, lambda: host.state, {}, lambda: host.now_s).collect()
    (cache,) = [metric for metric in found if metric.name == "koordlet_page_cache_bytes"]
    assert {(sample.labels["pod_name"], sample.labels["what"]): sample.value for sample in cache.samples} == {
        ("", "total"): 4 * GIB,
        ("", "cold"): GIB,
        ("web", "total"): 400 * MIB,
        ("web", "cold"): 150 * MIB,
    }
