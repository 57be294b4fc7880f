"""The agent on this machine's kernel: what its rounds do to processes, and what being killed or disturbed leaves.

Only cgroups that the test made. What is compared is what the kernel counted with what the agent's formula says; how
fast the machine is does not matter.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from koord.agent.executor.write import Spot
from koord.agent.host import usage
from koord.agent.host.cgroups import Version
from koord.agent.host.knobs import CPU_BURST, CPU_IDLE, CPU_QUOTA, CPU_SHARES, CPUSET_CPUS
from koord.agent.pods import AgentPod
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.words import KubeQoS
from koord.api.text.cpuset import CPUSet
from tests.agent.loads import Level, Process, burn, burn_on, bursts, cores, hold
from tests.agent.real_node import MARK, ROUND_S, THRESHOLD, RealNode, adaptive, batch, owning, real_node, suppressed

pytestmark = pytest.mark.root

MIB = 1 << 20
HYSTERESIS = 0.01
"Of the node: smaller changes are not written."
PERIOD_S = 0.1
MARGIN = float(os.environ.get("KOORD_TEST_MARGIN", "0.05"))
"Of the budget. An emulated CPU that has to wait for a real one does not keep account of it."


@dataclass(frozen=True)
class Spell:
    """What a few rounds' time showed, in cores."""

    seconds: float
    service: float
    best_effort: float
    budget: float
    "What the formula gives best effort: the node's threshold, less what all others used."
    quota: float
    "What it was given, round by round."
    held_back: float
    "In which part of the periods best effort wanted more than it had."
    writes: int
    "How often the quota was written. The kernel then gives it again, though a part of the period is over."

    def keeps_to_its_budget(self) -> bool:
        """Within 5%. A period's quota is spent at its beginning: how many of those a spell sees may differ by one."""
        margin = MARGIN * self.budget + HYSTERESIS
        a_period = self.budget * PERIOD_S / self.seconds
        uses_no_more = self.best_effort <= self.budget + margin + (1 + self.writes) * a_period
        uses_no_less = self.held_back < 0.9 or self.best_effort >= self.budget - margin - a_period
        return abs(self.quota - self.budget) <= margin and uses_no_more and uses_no_less


def spell(node: RealNode, service: AgentPod, rounds: int) -> Spell:
    def look() -> list[float]:
        used = [node.used_s(service.directory), node.used_s(node.best_effort), node.all_used_s()]
        found = usage.throttling(node.cgroups, node.best_effort)
        return [time.monotonic(), *used, found.periods, found.throttled]

    before, quotas, writes = look(), [], 0
    for _ in range(rounds):
        quotas.append(node.best_effort_cores)
        (done,) = node.rounds(1)
        writes += sum(each.write.spot == Spot(CPU_QUOTA.name, node.best_effort) for each in done.outcome.done)
    took_s, web, best_effort, everything, periods, throttled = (b - a for a, b in zip(before, look(), strict=True))
    capacity = node.state().capacity_cpu_milli / 1000
    budget = capacity * THRESHOLD / 100 - (everything - best_effort) / took_s
    share = throttled / max(periods, 1)
    return Spell(took_s, web / took_s, best_effort / took_s, budget, mean(quotas), share, writes)


def test_best_effort_gives_way_within_three_rounds_and_comes_back(tmp_path: Path) -> None:
    with real_node(tmp_path, cores=1, slo=suppressed("cfsQuota")) as node, ExitStack() as running:
        web, job, demand = node.pod("web", "LS", requests={"cpu": "400m"}), node.pod("job", **batch()), Level(0.1)
        running.enter_context(Process(node.cgroups, web.containers[0].directory, cores(demand)))
        for cpu in sorted(node.topology.all)[:2]:
            running.enter_context(Process(node.cgroups, job.containers[0].directory, burn_on(cpu)))
        node.rounds(3)
        calm = spell(node, web, 4)
        demand.set(0.35)
        node.rounds(3)
        assert node.best_effort_cores < 0.75 * calm.budget, "the service took what best effort had"
        busy = spell(node, web, 5)
        demand.set(0.1)
        node.rounds(7)
        again = spell(node, web, 4)
        assert all(each.keeps_to_its_budget() for each in (calm, busy, again)), (calm, busy, again)
        assert busy.service > 2 * calm.service
        assert again.best_effort > 1.3 * busy.best_effort, "and got it back"


@pytest.mark.parametrize("settings", [suppressed, adaptive])
def test_a_service_whose_load_triples_within_a_second_has_its_cpu_back_within_the_next(
    tmp_path: Path, settings: Callable[[str], dict[str, Any]]
) -> None:
    """By the ceiling too: its mean of 30 s is slow, but what services need beyond the margin counts at once."""
    with real_node(tmp_path, cores=1, slo=settings("cfsQuota")) as node, ExitStack() as running:
        web, job, demand = node.pod("web", "LS", requests={"cpu": "400m"}), node.pod("job", **batch()), Level(0.15)
        running.enter_context(Process(node.cgroups, web.containers[0].directory, cores(demand)))
        for cpu in sorted(node.topology.all)[:2]:
            running.enter_context(Process(node.cgroups, job.containers[0].directory, burn_on(cpu)))
        node.rounds(6)
        calm = node.best_effort_cores
        demand.set(0.45)
        node.rounds(round(1.0 / ROUND_S))
        at_s, used_s = time.monotonic(), node.used_s(web.directory)
        node.rounds(round(2.0 / ROUND_S))
        service = (node.used_s(web.directory) - used_s) / (time.monotonic() - at_s)
        most = MARK if settings is adaptive else THRESHOLD
        assert service >= 0.45 * 0.93, "the service has what it needs"
        assert node.best_effort_cores <= most / 100 - service + MARGIN, (calm, node.best_effort_cores, service)
        assert node.best_effort_cores < 0.8 * calm


def test_best_effort_runs_on_fewer_cpus_and_on_more_again(tmp_path: Path) -> None:
    with real_node(tmp_path, slo=suppressed("cpuset")) as node, ExitStack() as running:
        all_cpus = node.topology.all
        if len(all_cpus) < 4:
            pytest.skip("best effort has at least two CPUs: a machine of four is needed to see it have fewer")
        web, job, demand = node.pod("web", "LS", requests={"cpu": "1"}), node.pod("job", **batch()), Level(0.05)
        before = node.settings()
        for _ in range(len(all_cpus) - 1):
            running.enter_context(Process(node.cgroups, web.containers[0].directory, cores(demand)))
        burner = running.enter_context(Process(node.cgroups, job.containers[0].directory, burn))

        def count() -> int:
            return len(node.cpus(node.best_effort))

        assert node.until(lambda: count() > 2), "65% of four CPUs or more are more than two"
        demand.set(0.9)
        assert node.until(lambda: count() == 2, most=3)
        fewer = node.cpus(node.best_effort)
        assert node.cpus(job.directory) == node.cpus(job.containers[0].directory) == fewer
        assert allowed_cpus(burner.pid) == fewer
        demand.set(0.05)
        assert node.until(lambda: count() > 2), "and again"
        assert not node.agent.executor.restore_all(node.now_s).refused
        assert node.settings() == before


def allowed_cpus(pid: int) -> CPUSet:
    """Of a process, by the kernel's word."""
    status = Path(f"/proc/{pid}/status").read_text()
    return CPUSet.parse(next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list")))


def test_services_make_room_for_a_pod_with_cpus_of_its_own_below_running_children(tmp_path: Path) -> None:
    """From both CPUs to one, to the other one, to both: each directory before or after its children, as it must be."""
    with real_node(tmp_path) as node, ExitStack() as running:
        first, second, *_ = sorted(node.topology.all)
        containers = [{"name": each, "resources": {"requests": {"cpu": "100m"}}} for each in ("a", "b")]
        web = node.pod("web", "LS", containers=containers)
        before = node.settings()
        directories = [
            node.directory(KubeQoS.BURSTABLE),
            web.directory,
            *(container.directory for container in web.containers),
        ]
        sleepers = [
            running.enter_context(Process(node.cgroups, container.directory, lambda: time.sleep(600)))
            for container in web.containers
        ]
        everything = node.topology.all
        for given in (first, second):
            pod = node.pod(f"owner-{given}", **owning(given))
            done = node.round().outcome
            assert not done.refused
            for directory in directories:
                assert node.cpus(directory) == everything - CPUSet([given])
            assert [allowed_cpus(sleeper.pid) for sleeper in sleepers] == [everything - CPUSet([given])] * 2
            if given == first:
                node.drop(pod)
        node.drop(pod)
        assert not node.round().outcome.refused
        assert [allowed_cpus(sleeper.pid) for sleeper in sleepers] == [everything] * 2
        assert node.settings() == before


def test_saved_up_time_ends_the_throttling_of_a_bursty_service(tmp_path: Path) -> None:
    with real_node(tmp_path, slo={"cpuBurstStrategy": {"policy": "none"}}) as node:
        web = node.pod("web", "LS", limits={"cpu": "200m"})
        container = web.containers[0].directory
        if not node.cgroups.has(CPU_BURST, container):
            pytest.skip("this kernel has no burst")

        def throttled() -> int:
            return usage.throttling(node.cgroups, container).throttled

        # Half of what it may on average, but more in one period than a period's quota.
        with Process(node.cgroups, container, bursts(cpu_s=0.036, every_s=0.3)):
            # Beside much else, it may take a while until one of them meets its quota.
            rounds, without = 0, 0
            while without < 4 and rounds < 40:
                without += node.rounds_and(1, throttled)
                rounds += 1
            node.slo = {"cpuBurstStrategy": {"policy": "cpuBurstOnly"}}
            node.rounds(1)
            assert node.cgroups.get(CPU_BURST, container) == node.cgroups.get(CPU_QUOTA, container) == 20_000
            saved_up = node.rounds_and(rounds, throttled)
            node.slo = {"cpuBurstStrategy": {"policy": "none"}}
            node.round()
            assert node.cgroups.get(CPU_BURST, container) == 0
        assert without >= 4
        assert saved_up <= 1


def test_a_throttled_service_gets_a_larger_quota_and_loses_it_when_it_is_switched_off(tmp_path: Path) -> None:
    with real_node(tmp_path, cores=1, slo={"cpuBurstStrategy": {"policy": "cfsQuotaBurstOnly"}}) as node:
        web = node.pod("web", "LS", limits={"cpu": "100m"})
        before = node.settings()
        with Process(node.cgroups, web.containers[0].directory, burn):
            node.rounds(8)
            raised = node.cgroups.get(CPU_QUOTA, web.containers[0].directory)
            assert isinstance(raised, int)
            assert 10_000 < raised <= 30_000
            assert node.cgroups.get(CPU_QUOTA, web.directory) == raised
            node.slo = {"cpuBurstStrategy": {"policy": "none"}}
            assert not node.round().outcome.refused
        assert node.settings() == before


def test_best_effort_yields_whatever_weight_it_had_and_kubelet_can_write_its_own(tmp_path: Path) -> None:
    slo = {"resourceQOSStrategy": {"beClass": {"cpuQOS": {"enable": True}}}}
    with real_node(tmp_path, slo={}) as node, ExitStack() as running:
        web, job = node.pod("web", "LS", requests={"cpu": "1"}), node.pod("job", **batch())
        for pod in (web, job):
            node.cgroups.set(CPUSET_CPUS, pod.containers[0].directory, CPUSet([min(node.topology.all)]))
            running.enter_context(Process(node.cgroups, pod.containers[0].directory, burn))

        def share() -> float:
            """Of what both used, best effort's."""
            before = [node.used_s(each.directory) for each in (web, job)]
            node.rounds(3)
            services, jobs = (node.used_s(each.directory) - b for each, b in zip((web, job), before, strict=True))
            return jobs / (services + jobs)

        node.rounds(1)
        beside = share()
        node.slo = slo
        node.round()
        assert share() < 0.1 < 0.3 < beside
        node.cgroups.set(CPU_SHARES, node.best_effort, 2)
        assert not node.agent.executor.restore_all(node.now_s).refused


def sched_idle(value: int) -> dict[str, Any]:
    own = {"policies": {"cpuPolicy": "coreSched"}, "beClass": {"cpuQOS": {"enable": True, "schedIdle": value}}}
    return {"resourceQOSStrategy": own}


def test_what_comes_out_of_the_idle_class_has_its_weight_again(tmp_path: Path) -> None:
    """The kernel gives it the weight of a new directory."""
    with real_node(tmp_path, slo=sched_idle(0)) as node:
        node.gates[AgentGate.CORE_SCHED] = True
        job = node.pod("job", **batch())
        if not node.cgroups.has(CPU_IDLE, job.directory):
            pytest.skip("this kernel has no idle class")
        node.cgroups.set(CPU_SHARES, job.directory, 2)
        before = node.settings()
        assert not node.round().outcome.refused
        of_batch = node.cgroups.get(CPU_SHARES, job.directory)
        assert of_batch != 2

        def become_idle() -> None:
            node.slo = sched_idle(1)
            assert not [done for done in node.rounds(2, each_s=0.1) if done.outcome.refused]
            assert node.cgroups.get(CPU_IDLE, job.directory) == 1

        become_idle()
        node.slo = sched_idle(0)
        assert not [done for done in node.rounds(2, each_s=0.1) if done.outcome.refused]
        assert node.cgroups.get(CPU_IDLE, job.directory) == 0
        assert node.cgroups.get(CPU_SHARES, job.directory) == of_batch
        become_idle()
        # An agent that is killed between the two writes of coming out, and the next one.
        node.cgroups.files.write(node.cgroups.file(CPU_IDLE, job.directory), "0")
        node.start()
        assert not node.agent.executor.restore_all(node.now_s).refused
        assert node.settings() == before


def test_where_best_effort_yields_its_time_is_counted_by_the_second(tmp_path: Path) -> None:
    idle = {"resourceQOSStrategy": {"beClass": {"cpuQOS": {"enable": True}}}}
    with real_node(tmp_path, slo={**suppressed("cfsQuota"), **idle}) as node, ExitStack() as running:
        before = node.settings()
        job = node.pod("job", **batch())
        running.enter_context(Process(node.cgroups, job.containers[0].directory, burn))

        def periods() -> float:
            """In a second."""
            counted, began = usage.throttling(node.cgroups, node.best_effort).periods, time.monotonic()
            assert not any(done.outcome.refused for done in node.rounds(3))
            return (usage.throttling(node.cgroups, node.best_effort).periods - counted) / (time.monotonic() - began)

        node.rounds(3)
        held = usage.cpu_quota_us(node.cgroups, node.best_effort)
        assert 0 < held <= 65 * node.state().capacity_cpu_milli
        assert periods() < 2
        node.slo = suppressed("cfsQuota")
        # Up to a second of these is the last long period, which ends when it would have.
        node.rounds(max(3, round(2 / ROUND_S)))
        assert periods() > 5
        assert not node.agent.executor.restore_all(node.now_s).refused
        node.drop(job)
        assert node.settings() == before


def limit_hits(node: RealNode) -> int:
    """How often all pods together met their limit."""
    if node.cgroups.version is Version.V1:
        return int(node.cgroups.files.once(node.cgroups.name("memory", node.top, "memory.failcnt")))
    text = node.cgroups.files.once(node.cgroups.name("memory", node.top, "memory.events")).decode()
    return int(dict(line.split() for line in text.splitlines())["max"])


def test_memory_is_freed_before_the_node_meets_its_limit_by_the_least_important(tmp_path: Path) -> None:
    with real_node(tmp_path, memory_bytes=192 * MIB) as node:
        upper, lower = node.percent_of_memory(0.7), node.percent_of_memory(0.6)
        threshold = {"enable": True, "memoryEvictThresholdPercent": upper, "memoryEvictLowerPercent": lower}
        node.slo = {"resourceUsedThresholdWithBE": threshold}
        node.gates[AgentGate.BE_MEMORY_EVICT] = True
        demand, running = Level(16 * MIB), {}
        web = node.pod("web", "LS", requests={"memory": "64Mi"})
        jobs = {"small": (5000, 16), "large": (5000, 32), "important": (5900, 40)}
        with ExitStack() as ending:
            ending.enter_context(Process(node.cgroups, web.containers[0].directory, hold(demand)))
            for name, (priority, mib) in jobs.items():
                pod = node.pod(name, **batch(priority=priority))
                work = hold(Level(mib * MIB))
                running[name] = ending.enter_context(Process(node.cgroups, pod.containers[0].directory, work))
            assert not any(done.evictions for done in node.rounds(2)), "104 of 192 MiB are less than 70%"
            gone: list[str] = []
            for _ in range(40):
                demand.set(demand.get() + 4 * MIB)
                for done in node.rounds(1, each_s=0.2):
                    for eviction in done.evictions:
                        # What kubelet then does, and the time that it may take.
                        running[eviction.pod.meta.name].end()
                        node.agent.was_evicted(eviction, time.monotonic() - 10)
                        node.drop(eviction.pod)
                        gone.append(eviction.pod.meta.name)
                if len(gone) == 3:
                    break
            # 134 MiB are met with 120 wanted: the larger of the less important ones is enough.
            assert gone == ["large", "small", "important"]
            assert limit_hits(node) == 0
