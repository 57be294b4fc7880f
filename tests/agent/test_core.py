"""Rounds of the whole agent on a composed host: what strategies and hooks make of it together."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koord.agent import wish
from koord.agent.core import Agent
from koord.agent.executor.executor import Executor
from koord.agent.executor.ledger import Ledger
from koord.agent.host import usage
from koord.agent.host.cgroups import Version
from koord.agent.host.features import features
from koord.agent.host.knobs import (
    CPU_IDLE,
    CPU_PERIOD,
    CPU_QUOTA,
    CPU_SHARES,
    CPUSET_CPUS,
    MEMORY_HIGH,
    MOST_BYTES,
    Knob,
)
from koord.agent.qos import memory_qos
from koord.agent.qos.decision import Eviction, StrategyDecision
from koord.agent.qos.strategy import Sight, Strategy, Turn
from koord.agent.series import names
from koord.agent.state import NodeState
from koord.agent.wish import Wish
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS
from koord.api.text.cpuset import CPUSet
from tests.agent.states import GIB, NOW, cpus, node, pod
from tests.agent.trees import Tree

S = 1_000_000_000
BE = "kubepods/besteffort"
GATES = {gate: gate.default for gate in AgentGate}


class Host:
    """A node of eight CPUs with a service and a batch job, in rounds of a second."""

    def __init__(self, tree: Tree, **threshold: Any) -> None:
        self.tree = tree
        tree.pod("web", KubeQoS.BURSTABLE, "web-main")
        tree.pod("job", KubeQoS.BEST_EFFORT, "job-main")
        for directory in tree.made:
            tree.cgroups.set(CPUSET_CPUS, directory, CPUSet(range(8)))
        job = pod(
            "job", "BE", priority=5500, requests={"kubernetes.io/batch-cpu": "4000"},
            limits={"kubernetes.io/batch-cpu": "4000"},
        )  # fmt: skip
        self.state = replace(
            node(pod("web", "LS", requests={"cpu": "4"}, limits={"cpu": "6"}), job, slo={}, topology=cpus(1, 8, 1)),
            driver=tree.driver,
        )
        self.settings(enable=True, **threshold)
        self.agent = Agent(tree.cgroups, Executor(tree.cgroups, Ledger()))
        self.now_s, self.used = NOW, {"node": 0.0, "web": 0.0, "job": 0.0}

    def settings(self, **threshold: Any) -> None:
        slo = node(slo={"resourceUsedThresholdWithBE": threshold}).slo
        self.state = replace(self.state, slo=slo)

    def round(self, web: float = 0.0, job: float = 0.0, memory: int = 0) -> tuple[Eviction, ...]:
        """A second in which they used N cores."""
        self.now_s += 1
        self.used["web"] += web
        self.used["job"] += job
        busy = int((self.used["web"] + self.used["job"]) * 100)
        self.tree.node_usage(busy_ticks=busy, memory_used_bytes=memory)
        self.tree.used("kubepods/burstable/podweb", cpu_ns=int(self.used["web"] * S))
        self.tree.used(f"{BE}/podjob", cpu_ns=int(self.used["job"] * S), anon=memory // 2)
        self.tree.used(BE, cpu_ns=int(self.used["job"] * S))
        return self.agent.round(self.state, self.now_s).evictions

    def get(self, knob: Any, directory: str = BE) -> Any:
        return self.tree.cgroups.configured(knob, directory)


@pytest.fixture(params=list(Version))
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    return Tree(tmp_path, request.param, CgroupDriver.CGROUPFS, cores=8, threads=1)


def files_of(tree: Tree) -> dict[Path, bytes]:
    kept = {"cpu.stat", "memory.stat", "memory.current", "cpuacct.usage", "memory.usage_in_bytes"}
    cgroups = (each for each in (tree.root / "sys/fs/cgroup").rglob("*") if each.is_file() and each.name not in kept)
    return {cgroup: cgroup.read_bytes() for cgroup in cgroups}


def test_best_effort_yields_and_comes_back(tree: Tree) -> None:
    host = Host(tree, cpuSuppressPolicy="cfsQuota")
    for _ in range(3):
        host.round(web=1, job=3)
    # 65% of 8 cores is 5200m, less 1000m.
    assert host.get(CPU_QUOTA) == 420_000
    host.round(web=5, job=3)
    assert host.get(CPU_QUOTA) == 20_000
    host.round(web=1, job=0.2)
    assert host.get(CPU_QUOTA) == 100_000, "a tenth of the node more per round"


def test_fewer_cpus_for_everything_below_best_effort(tree: Tree) -> None:
    host = Host(tree)
    for _ in range(3):
        host.round(web=2, job=3)
    for directory in (BE, f"{BE}/podjob", f"{BE}/podjob/job-main"):
        # 5200m - 2000m is 3200m: 4 CPUs
        assert len(host.get(CPUSET_CPUS, directory)) == 4
    assert len(host.get(CPUSET_CPUS, "kubepods/burstable/podweb")) == 8


def test_with_the_schedulers_cpus_for_best_effort_it_is_not_suppressed(tree: Tree) -> None:
    host = Host(tree, cpuSuppressPolicy="cfsQuota")
    for _ in range(3):
        host.round(web=4, job=3)
    assert host.get(CPU_QUOTA) != -1
    host.state = replace(host.state, gates={**GATES, AgentGate.BE_CPU_MANAGER: True})
    host.round(web=4, job=3)
    assert host.get(CPU_QUOTA) == -1


def test_what_another_agent_left_is_corrected_in_the_first_round(tree: Tree) -> None:
    host = Host(tree, cpuSuppressPolicy="cfsQuota")
    host.round(web=1, job=3)
    tree.cgroups.set(CPU_QUOTA, BE, 400_000)
    seen = host.agent
    host.agent = Agent(tree.cgroups, Executor(tree.cgroups, Ledger()), samples=seen.samples, rates=seen.rates)
    host.round(web=1, job=3)
    # 5200m - 1000m: less than a twentieth of the node more, which waits only where the agent has seen it change.
    assert host.get(CPU_QUOTA) == 420_000


def test_switched_off_the_node_is_as_it_was(tree: Tree) -> None:
    host = Host(tree)
    before = files_of(tree)
    for _ in range(3):
        host.round(web=2, job=3)
    assert files_of(tree) != before
    host.agent.executor.restore_all(host.now_s)
    assert files_of(tree) == before


def test_the_settings_turned_off_undo_suppression_alone(tree: Tree) -> None:
    host = Host(tree, cpuSuppressPolicy="cfsQuota")
    host.round(web=4, job=3)
    host.round(web=4, job=3)
    assert host.get(CPU_QUOTA) != -1
    host.settings(enable=False)
    host.round(web=4, job=3)
    assert host.get(CPU_QUOTA) == -1
    assert host.get(CPU_SHARES, f"{BE}/podjob") != 1024, "the pod's own shares stay"


@pytest.mark.parametrize("knob", [CPU_IDLE, CPU_SHARES], ids=lambda knob: knob.name)
def test_where_it_yields_best_effort_is_counted_by_long_periods_and_the_other_way_back(tree: Tree, knob: Knob) -> None:
    host = Host(tree, cpuSuppressPolicy="cfsQuota")
    before, usual = files_of(tree), tree.cgroups.text(knob, BE)
    tree.cgroups.set(knob, BE, 1 if knob is CPU_IDLE else 2)
    for _ in range(3):
        host.round(web=4, job=3)
    # 65% of 8 cores less 4000m: 1200m, in a second.
    shown = [tree.cgroups.text(knob, BE) for knob in (CPU_QUOTA, CPU_PERIOD) if tree.cgroups.has(knob, BE)]
    assert shown == (["1200000", "1000000"] if tree.version is Version.V1 else ["1200000 1000000"])
    assert usage.cpu_quota_us(tree.cgroups, BE) == 120_000
    assert host.agent.samples.last(names.BE_CPU_LIMIT, host.now_s, 2.0) == 1200
    tree.cgroups.put(knob, BE, usual)
    host.round(web=4, job=3)
    assert usage.cpu_quota_us(tree.cgroups, BE) == host.get(CPU_QUOTA) == 120_000
    host.agent.executor.restore_all(host.now_s)
    assert files_of(tree) == before


def test_lost_usage_changes_nothing(tree: Tree) -> None:
    host = Host(tree, cpuSuppressPolicy="cfsQuota")
    for _ in range(2):
        host.round(web=2, job=3)
    held = host.get(CPU_QUOTA)
    host.agent.decide(host.state, host.now_s + 5)
    assert host.get(CPU_QUOTA) == held


def test_a_full_node_evicts_once(tree: Tree) -> None:
    host = Host(tree, memoryEvictThresholdPercent=70)
    host.state = replace(host.state, gates={**GATES, AgentGate.BE_MEMORY_EVICT: True})
    (eviction,) = host.round(memory=60 * GIB)
    assert eviction.pod.meta.name == "job"
    host.agent.was_evicted(eviction, host.now_s)
    assert host.round(memory=60 * GIB) == ()
    host.now_s += 10
    assert host.round(memory=60 * GIB) == (), "it is on its way out"


def test_identity_on_a_mainline_kernel(tree: Tree) -> None:
    host = Host(tree)
    slo = {"resourceQOSStrategy": {"beClass": {"cpuQOS": {"enable": True}}}}
    with_identity: NodeState = node(slo=slo)
    host.state = replace(host.state, slo=with_identity.slo, qos=with_identity.qos)
    host.round()
    assert host.get(CPU_SHARES) == 2


@pytest.mark.parametrize("anolis", [True, False])
def test_what_this_kernel_can_do(tmp_path: Path, anolis: bool) -> None:
    tree = Tree(tmp_path, Version.V1, CgroupDriver.CGROUPFS, anolis=anolis)
    found = {feature.name: feature for feature in features(tree.cgroups, "kubepods")}
    assert found["group identity"].is_there == anolis
    assert found["idle class"].is_there
    assert found["slowed memory"].is_there == anolis
    if not anolis:
        assert "weight" in found["group identity"].how


def test_a_pods_sandbox_goes_where_its_pod_goes(tree: Tree) -> None:
    """On v1, or its pod's directory could not have fewer CPUs; on v2 it follows by itself."""
    host = Host(tree)
    sandbox = tree.cgroup("kubepods/burstable/podweb/pause")
    tree.cgroups.set(CPUSET_CPUS, sandbox, CPUSet(range(8)))
    before = files_of(tree)
    reserved = {"node.koordinator.sh/reservation": '{"reservedCPUs": "0-1"}'}
    host.state = replace(host.state, node=node(annotations=reserved).node)
    host.round()
    rest = CPUSet(range(2, 8))
    assert host.get(CPUSET_CPUS, "kubepods/burstable/podweb") == rest
    assert host.get(CPUSET_CPUS, sandbox) == (rest if tree.version is Version.V1 else CPUSet(range(8)))
    host.agent.executor.restore_all(host.now_s)
    assert files_of(tree) == before


def test_an_annotation_that_cannot_be_read_leaves_its_hook_as_it_was(tree: Tree, caplog: Any) -> None:
    host = Host(tree, cpuSuppressPolicy="cfsQuota")
    reserved = {"node.koordinator.sh/reservation": '{"reservedCPUs": "0-1"}'}
    host.state = replace(host.state, node=node(annotations=reserved).node)
    host.round()
    host.state = replace(host.state, node=node(annotations={"node.koordinator.sh/reservation": "{"}).node)
    host.round()
    assert "cpu_set wants nothing new" in caplog.text
    assert host.get(CPUSET_CPUS, "kubepods/burstable/podweb") == CPUSet(range(2, 8))
    assert host.get(CPU_SHARES, f"{BE}/podjob") != 1024, "the others go on"


class Holding:
    """A strategy that holds the batch job's memory back until the test ends that."""

    is_on = True

    def decide(self, sight: Sight, held: None, memory: None) -> Turn[None]:
        wishes = (
            (Wish(wish.container("job", "main"), MEMORY_HIGH, GIB, "holding", "for a while"),) if self.is_on else ()
        )
        return Turn(StrategyDecision(wishes), None)


def test_what_one_strategy_gives_back_another_has_in_the_next_round(tmp_path: Path) -> None:
    """Memory QoS says its wishes when something changed, and every ten seconds."""
    host, holding = Host(Tree(tmp_path, Version.V2, CgroupDriver.CGROUPFS, cores=8, threads=1)), Holding()
    job, qos = f"{BE}/podjob/job-main", {"enable": True, "throttlingPercent": 80}
    slo = {"resourceQOSStrategy": {"beClass": {"memoryQOS": qos}}}
    limited = pod("job", "BE", priority=5500, requests={"kubernetes.io/batch-memory": "4Gi"},
                  limits={"kubernetes.io/batch-memory": "4Gi"})  # fmt: skip
    host.state = replace(
        node(limited, slo=slo, topology=cpus(1, 8, 1)),
        driver=host.tree.driver, gates={**GATES, AgentGate.CGROUP_RECONCILE: True},
    )  # fmt: skip
    asked: list[float] = []

    def counted(sight: Sight, is_due: bool, memory: NodeState | None) -> Turn[NodeState | None]:
        turn = memory_qos.STRATEGY.decide(sight, is_due, memory)
        asked.extend([sight.now_s] if turn.decision is not None else [])
        return turn

    host.agent.strategies = (
        replace(memory_qos.STRATEGY, decide=counted),
        Strategy("holding", (AgentGate.CGROUP_RECONCILE,), None, holding.decide),
    )
    host.round()
    assert host.get(MEMORY_HIGH, job) == GIB
    holding.is_on = False
    host.round()
    host.round()
    wanted = host.get(MEMORY_HIGH, job)
    assert wanted not in (GIB, MOST_BYTES), "a share of its limit"
    for _ in range(20):
        host.round()
    assert host.get(MEMORY_HIGH, job) == wanted
    assert len(asked) <= 5


@pytest.mark.parametrize("is_on", [True, False], ids=["all gates on", "all gates off"])
@pytest.mark.parametrize("has_pods", [True, False])
def test_without_a_node_slo_nothing_is_written_or_put_back(tmp_path: Path, is_on: bool, has_pods: bool) -> None:
    host = Host(Tree(tmp_path, Version.V1, CgroupDriver.CGROUPFS), cpuSuppressThresholdPercent=50)
    for _ in range(3):
        host.round(web=1.0)
    executor = host.agent.executor
    assert {entry.by for entry in executor.ledger} >= {"batch_resource", "cpu_suppress"}
    before = executor.ledger.text()
    lost = replace(host.state, slo=None, gates=dict.fromkeys(AgentGate, is_on))
    host.state = lost if has_pods else replace(lost, pods={})
    for agent in (host.agent, Agent(host.tree.cgroups, executor)):
        for later_s in (1, 20, 40):
            done = agent.round(host.state, host.now_s + later_s)
            assert (done.outcome.done, done.evictions) == ([], ())
    assert executor.ledger.text() == before
