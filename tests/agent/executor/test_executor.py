"""What is wanted comes to be, what is not is put back, and being killed in between leaves nothing stuck."""

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from koord.agent.executor.executor import Executor, ExecutorOutcome
from koord.agent.executor.ledger import Ledger, LedgerError
from koord.agent.executor.write import Write
from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.knobs import (
    CPU_BURST,
    CPU_QUOTA,
    CPU_SHARES,
    CPUSET_CPUS,
    GROUP_IDENTITY,
    MEMORY_HIGH,
    MEMORY_LIMIT,
    MOST_BYTES,
    Knob,
    Value,
)
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS
from koord.api.text.cpuset import CPUSet
from tests.agent.trees import Tree

MIB = 1 << 20


@pytest.fixture(params=list(Version))
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    return Tree(tmp_path, request.param, CgroupDriver.CGROUPFS)


def want(directory: str, value: Value, knob: Knob = CPU_QUOTA, by: str = "suppress") -> Write:
    return Write(knob, directory, value, by, "because")


def test_what_is_wanted_is_written_once_and_told(tree: Tree) -> None:
    pod = tree.pod("1", KubeQoS.BEST_EFFORT)
    executor = Executor(tree.cgroups, Ledger())
    outcome = executor.apply([want(pod, 20_000)], {"suppress"}, now_s=0)
    (done,) = outcome.done
    quota = ("-1", "20000") if tree.version is Version.V1 else ("max 100000", "20000 100000")
    assert (done.write.directory, done.old, done.text) == (pod, *quota)
    assert tree.cgroups.get(CPU_QUOTA, pod) == 20_000
    assert executor.apply([want(pod, 20_000)], {"suppress"}, now_s=1).done == []


def test_another_writer_is_corrected_when_the_spot_is_looked_at_again(tree: Tree) -> None:
    pod = tree.pod("1", KubeQoS.BEST_EFFORT)
    executor = Executor(tree.cgroups, Ledger())
    executor.apply([want(pod, 20_000)], {"suppress"}, now_s=0)
    tree.cgroups.set(CPU_QUOTA, pod, 90_000)
    assert executor.apply([want(pod, 20_000)], {"suppress"}, now_s=59).done == []
    assert len(executor.apply([want(pod, 20_000)], {"suppress"}, now_s=61).done) == 1
    assert tree.cgroups.get(CPU_QUOTA, pod) == 20_000


def test_a_directory_that_comes_later_is_written_in_the_next_round(tree: Tree) -> None:
    """Only what a kernel lacks is remembered, not what is yet to be made."""
    executor = Executor(tree.cgroups, Ledger())
    pod = "kubepods/besteffort/pod1"
    write = want(pod, 10_000, CPU_BURST)
    assert executor.apply([write], {"suppress"}, now_s=0).done == []
    tree.pod("1", KubeQoS.BEST_EFFORT)
    assert len(executor.apply([write], {"suppress"}, now_s=1).done) == 1


def test_while_all_is_as_wanted_nothing_is_looked_at_until_something_else_is_wanted(tree: Tree) -> None:
    first, second = tree.pod("1", KubeQoS.BEST_EFFORT), tree.pod("2", KubeQoS.BEST_EFFORT)
    executor = Executor(tree.cgroups, Ledger())
    writes, ran = [want(first, 20_000)], {"suppress"}
    for now_s in (0.0, 1.0, 2.0):
        executor.apply(writes, ran, now_s)
    assert len(executor.apply([*writes, want(second, 30_000)], ran, 3.0).done) == 1
    assert executor.apply([*writes, want(second, 30_000)], ran, 4.0).done == []
    # Of two that want the same, one lets go; then both do.
    assert len(executor.apply(writes, ran, 5.0).done) == 1
    assert executor.apply(writes, ran, 6.0).done == []
    executor.forget(first)
    tree.cgroups.set(CPU_QUOTA, first, 90_000)
    assert len(executor.apply(writes, ran, 7.0).done) == 1, "a new pod of the same name"
    assert executor.apply(writes, ran, 8.0).done == []
    assert executor.apply(writes, {"burst"}, 8.5).done == []
    assert len(executor.restore_all(9.0).done) == 1
    assert tree.cgroups.get(CPU_QUOTA, first) == 90_000
    assert tree.cgroups.get(CPU_QUOTA, second) == -1


def test_a_watched_spot_is_corrected_at_once(tree: Tree) -> None:
    pod = tree.pod("1", KubeQoS.BEST_EFFORT)
    executor = Executor(tree.cgroups, Ledger())
    watched = replace(want(pod, 20_000), is_watched=True)
    executor.apply([watched], {"suppress"}, now_s=0)
    tree.cgroups.set(CPU_QUOTA, pod, 90_000)
    assert len(executor.apply([watched], {"suppress"}, now_s=1).done) == 1
    assert executor.apply([watched], {"suppress"}, now_s=2).done == []
    assert tree.cgroups.get(CPU_QUOTA, pod) == 20_000


def test_what_is_no_longer_wanted_is_as_it_was_found(tree: Tree) -> None:
    pod = tree.pod("1", KubeQoS.BEST_EFFORT)
    tree.cgroups.set(CPU_QUOTA, pod, 70_000)
    executor = Executor(tree.cgroups, Ledger())
    for number, value in enumerate((20_000, 30_000)):
        executor.apply([want(pod, value)], {"suppress"}, now_s=number)
    executor.apply([], {"burst"}, now_s=2)
    assert tree.cgroups.get(CPU_QUOTA, pod) == 30_000, "another strategy's round changes nothing"
    executor.apply([], {"suppress"}, now_s=3)
    assert tree.cgroups.get(CPU_QUOTA, pod) == 70_000
    assert len(executor.ledger) == 0


def test_what_is_made_below_fewer_cpus_is_put_back_like_what_it_was_made_below(tree: Tree) -> None:
    """On v1 a new directory has its parent's CPUs, fewer for now; on v2 it has none of its own."""
    above, few, born = "kubepods/burstable", CPUSet([0, 1]), "" if tree.version is Version.V2 else "0-1"
    tree.cgroups.set(CPUSET_CPUS, above, CPUSet(range(8)))
    executor = Executor(tree.cgroups, Ledger())
    executor.apply([want(above, few, CPUSET_CPUS)], {"suppress"}, now_s=0)
    pod = tree.pod("1", KubeQoS.BURSTABLE, "c1")
    directories = [above, pod, f"{pod}/c1"]
    for directory in (pod, f"{pod}/c1"):
        tree.write(tree.cgroups.file(CPUSET_CPUS, directory), born)
    executor.apply([want(directory, few, CPUSET_CPUS) for directory in directories], {"suppress"}, now_s=1)
    executor.apply([], {"suppress"}, now_s=2)
    free = CPUSet() if tree.version is Version.V2 else CPUSet(range(8))
    assert [tree.cgroups.configured(CPUSET_CPUS, directory) for directory in directories] == [
        CPUSet(range(8)),
        free,
        free,
    ]


def test_a_spot_that_another_took_over_is_left_to_them(tree: Tree) -> None:
    pod = tree.pod("1", KubeQoS.BEST_EFFORT)
    executor = Executor(tree.cgroups, Ledger())
    executor.apply([want(pod, 20_000)], {"suppress"}, now_s=0)
    tree.cgroups.set(CPU_QUOTA, pod, 55_000)
    executor.apply([], {"suppress"}, now_s=1)
    assert tree.cgroups.get(CPU_QUOTA, pod) == 55_000
    assert len(executor.ledger) == 0


def test_shares_are_not_written_again_though_a_weight_reads_back_otherwise(tree: Tree) -> None:
    pod = tree.pod("1", KubeQoS.BEST_EFFORT)
    executor = Executor(tree.cgroups, Ledger())
    assert len(executor.apply([want(pod, 1740, CPU_SHARES)], {"suppress"}, now_s=0).done) == 1
    assert executor.apply([want(pod, 1740, CPU_SHARES)], {"suppress"}, now_s=100).done == []
    executor.apply([], {"suppress"}, now_s=101)
    assert len(executor.ledger) == 0


def test_a_limit_that_the_kernel_keeps_in_pages_is_as_wanted_and_is_put_back(tree: Tree) -> None:
    """1 GB is not a whole number of pages: the kernel shows a little less."""
    pod = tree.pod("1", KubeQoS.BEST_EFFORT)
    executor = Executor(tree.cgroups, Ledger())
    write = want(pod, 10**9, MEMORY_LIMIT)
    executor.apply([write], {"suppress"}, now_s=0)
    tree.write(tree.cgroups.file(MEMORY_LIMIT, pod), f"{10**9 // 4096 * 4096}\n")
    assert executor.apply([write], {"suppress"}, now_s=100).done == []
    executor.apply([], {"suppress"}, now_s=101)
    assert tree.cgroups.get(MEMORY_LIMIT, pod) == -1


def test_no_bound_is_told_as_max_on_either_version(tmp_path: Path) -> None:
    """Where v1 has these files at all, it shows the word too."""
    for version in Version:
        tree = Tree(tmp_path / version, version, CgroupDriver.CGROUPFS, anolis=True)
        pod = tree.pod("1", KubeQoS.BURSTABLE)
        tree.write(tree.cgroups.file(MEMORY_HIGH, pod), "max\n")
        assert tree.cgroups.get(MEMORY_HIGH, pod) == MOST_BYTES
        executor = Executor(tree.cgroups, Ledger())
        assert executor.apply([want(pod, MOST_BYTES, MEMORY_HIGH)], {"suppress"}, now_s=0).done == []


def test_a_file_that_shows_no_value_is_told_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    """The weight of a v2 directory that another process put into the idle class is shown as 0, and cannot be set."""
    tree = Tree(tmp_path, Version.V2, CgroupDriver.CGROUPFS)
    pod = tree.pod("1", KubeQoS.BEST_EFFORT, "c1")
    tree.write(tree.cgroups.file(CPU_SHARES, pod), "0\n")
    executor = Executor(tree.cgroups, Ledger())
    outcome = executor.apply([want(pod, 1024, CPU_SHARES), want(pod, 20_000)], {"suppress"}, now_s=0)
    assert [done.write.knob for done in outcome.done] == [CPU_QUOTA]
    assert [(refused.write.knob, refused.error) for refused in outcome.refused] == [
        (CPU_SHARES, "1024: the file shows '0'")
    ]
    assert tree.read(tree.cgroups.file(CPU_SHARES, pod)) == "0\n"


def test_what_shows_no_value_any_more_is_left_to_whoever_did_that(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Version.V2, CgroupDriver.CGROUPFS)
    pod = tree.pod("1", KubeQoS.BEST_EFFORT)
    executor = Executor(tree.cgroups, Ledger())
    executor.apply([want(pod, 1024, CPU_SHARES)], {"suppress"}, now_s=0)
    tree.write(tree.cgroups.file(CPU_SHARES, pod), "0\n")
    assert executor.apply([], {"suppress"}, now_s=1).done == []
    assert len(executor.ledger) == 0


def test_a_quota_of_another_period_is_another_quota(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Version.V2, CgroupDriver.CGROUPFS)
    pod = tree.pod("1", KubeQoS.BEST_EFFORT)
    tree.write(f"sys/fs/cgroup/{pod}/cpu.max", "20000 50000\n")
    executor = Executor(tree.cgroups, Ledger())
    assert len(executor.apply([want(pod, 20_000)], {"suppress"}, now_s=0).done) == 1
    assert tree.read(f"sys/fs/cgroup/{pod}/cpu.max") == "20000 100000"
    executor.apply([], {"suppress"}, now_s=1)
    assert tree.read(f"sys/fs/cgroup/{pod}/cpu.max") == "20000 50000"


def test_a_directory_that_is_gone_and_a_knob_that_is_not_there_are_no_errors(tree: Tree) -> None:
    pod = tree.pod("1", KubeQoS.BEST_EFFORT)
    writes = [want("kubepods/besteffort/podgone", 20_000), want(pod, 2, GROUP_IDENTITY), want(pod, 20_000)]
    outcome = Executor(tree.cgroups, Ledger()).apply(writes, {"suppress"}, now_s=0)
    assert [done.write.directory for done in outcome.done] == [pod]
    assert outcome.refused == []


def test_a_dry_run_tells_and_writes_nothing(tree: Tree) -> None:
    pod = tree.pod("1", KubeQoS.BEST_EFFORT)
    saved: list[bytes] = []
    executor = Executor(tree.cgroups, Ledger(), saved.append, dry_run=True)
    assert len(executor.apply([want(pod, 20_000)], {"suppress"}, now_s=0).done) == 1
    assert tree.cgroups.get(CPU_QUOTA, pod) == -1
    assert saved == []


@pytest.mark.parametrize("text", [b'[{"knob": 3', b'[{"knob": "\xff\xfe"}]', b'[{"else": ' + b"[" * 100_000])
def test_a_damaged_ledger_is_told(text: bytes) -> None:
    with pytest.raises(LedgerError, match="damaged"):
        Ledger.parse(text)


class Killed(Exception):
    """The agent died here."""


class Dying(Cgroups):
    def __init__(self, living: Cgroups, after: int) -> None:
        super().__init__(living.files, living.version, living.root)
        self.look_for_pods_in("kubepods")
        self.left = after

    def put(self, knob: Knob, directory: str, text: str, ours: Collection[str] = ()) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1
        super().put(knob, directory, text, ours)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rounds=st.lists(st.tuples(st.integers(1, 6), st.sets(st.integers(0, 7), min_size=1)), min_size=1, max_size=4),
    kill=st.integers(0, 25),
    version=st.sampled_from(list(Version)),
)
def test_killed_anywhere_the_next_one_puts_all_back(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[tuple[int, set[int]]], kill: int, version: Version
) -> None:
    tree = Tree(tmp_path_factory.mktemp("host"), version, CgroupDriver.CGROUPFS)
    pod = tree.pod("1", KubeQoS.BEST_EFFORT, "c1", "c2")
    directories = [pod, f"{pod}/c1", f"{pod}/c2"]
    for directory in directories:
        tree.cgroups.set(CPUSET_CPUS, directory, CPUSet(range(8)))
    before = {each: each.read_bytes() for each in tree.root.rglob("*") if each.is_file()}
    saved = [b"[]"]
    executor = Executor(Dying(tree.cgroups, kill), Ledger(), saved.append)
    try:
        for now_s, (cores, cpus) in enumerate(rounds):
            wanted = [want(directory, cores * 10_000) for directory in directories]
            wanted += [want(directory, CPUSet(cpus), CPUSET_CPUS, "cpuset") for directory in directories]
            executor.apply(wanted, {"suppress", "cpuset"}, now_s=now_s)
    except Killed:
        pass
    again = Executor(tree.cgroups, Ledger.parse(saved[-1]))
    again.restore_all(now_s=100)
    after = {each: each.read_bytes() for each in tree.root.rglob("*") if each.is_file()}
    assert after == before


def test_what_another_wrote_in_between_is_what_is_put_back(tree: Tree) -> None:
    pod = tree.pod("1", KubeQoS.BURSTABLE)
    tree.cgroups.set(CPU_QUOTA, pod, 200_000)
    executor = Executor(tree.cgroups, Ledger())
    executor.apply([want(pod, 100_000)], {"suppress"}, now_s=0)
    tree.cgroups.set(CPU_QUOTA, pod, 400_000)
    executor.apply([want(pod, 150_000)], {"suppress"}, now_s=1)
    executor.apply([], {"suppress"}, now_s=2)
    assert tree.cgroups.get(CPU_QUOTA, pod) == 400_000


def test_a_new_spec_is_put_back_though_its_value_looks_like_the_agents(tree: Tree) -> None:
    """Two cores halved are one core; resized to one core, kubelet writes what the agent wrote before."""
    pod = tree.pod("1", KubeQoS.BURSTABLE)
    tree.cgroups.set(CPU_QUOTA, pod, 200_000)
    saved = [b""]
    executor = Executor(tree.cgroups, Ledger(), saved.append)
    executor.apply([replace(want(pod, 100_000), own=200_000)], {"suppress"}, now_s=0)
    tree.cgroups.set(CPU_QUOTA, pod, 100_000)
    executor.apply([replace(want(pod, 50_000), own=100_000)], {"suppress"}, now_s=1)
    again = Executor(tree.cgroups, Ledger.parse(saved[-1]))
    again.restore_all(now_s=2)
    assert tree.cgroups.get(CPU_QUOTA, pod) == 100_000


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"directory": "../../../outside"}, r"entry 1: directory .*without '\.\.'"),
        ({"directory": "/kubepods"}, "entry 1: directory"),
        ({"directory": "kubepods/./pod1"}, "entry 1: directory"),
        ({"found": "much"}, "entry 1: found 'much': not a value of cpu.cfs_quota_us"),
    ],
)
def test_an_entry_that_cannot_be_the_agents_own_is_refused(fields: dict[str, str], told: str) -> None:
    good = {"knob": "cpu.cfs_quota_us", "directory": "kubepods", "by": "x", "found": "-1", "wrote": ["20000"]}
    with pytest.raises(LedgerError, match=told):
        Ledger.parse(json.dumps([good, {**good, **fields}]).encode())


@pytest.mark.parametrize("knob", [CPU_QUOTA, CPU_BURST, GROUP_IDENTITY, MEMORY_HIGH])
def test_no_name_of_a_cgroup_leads_out_of_the_nodes_root(tree: Tree, knob: Knob) -> None:
    """Names come from pods, runtimes and settings, and not only from the ledger."""
    cgroups = Cgroups(tree.cgroups.files, tree.version, root="kubepods/burstable")
    name = tree.cgroups.name("cpu" if tree.version is Version.V1 else "", "kubepods/besteffort/x", "y")
    tree.write(name, "untouched")
    before = {each: each.read_bytes() for each in tree.root.rglob("*") if each.is_file()}
    outcome = Executor(cgroups, Ledger()).apply([want("../besteffort", 1, knob)], {"suppress"}, now_s=0)
    assert (outcome.done, outcome.refused) == ([], [])
    assert cgroups.children("../besteffort") == []
    assert {each: each.read_bytes() for each in tree.root.rglob("*") if each.is_file()} == before


@pytest.mark.parametrize("is_restore", [False, True])
def test_on_v2_no_memory_limit_is_written_below_what_is_in_use(tmp_path: Path, is_restore: bool) -> None:
    """There the kernel would kill; v1's refuses. Page cache is not in the way: it is dropped."""
    tree = Tree(tmp_path, Version.V2, CgroupDriver.CGROUPFS)
    job = tree.pod("job", KubeQoS.BEST_EFFORT)
    low, high = 64 * MIB, 512 * MIB
    tree.cgroups.set(MEMORY_LIMIT, job, low)
    executor = Executor(tree.cgroups, Ledger())

    def limited(to: int, now_s: float) -> ExecutorOutcome:
        wishes = [] if is_restore and to == low else [Write(MEMORY_LIMIT, job, to, "batch_resource", "its spec")]
        return executor.apply(wishes, {"batch_resource"}, now_s)

    limited(high, 0.0)
    tree.used(job, cpu_ns=0, anon=low + 1)
    for now_s in (1.0, 2.0):
        (refused,) = limited(low, now_s).refused
        assert refused.error == f"{low}: {low + 1} bytes are in use there"
        assert tree.cgroups.get(MEMORY_LIMIT, job) == high
    tree.used(job, cpu_ns=0, anon=low - 1, file=high)
    assert limited(low, 3.0).refused == []
    assert tree.cgroups.get(MEMORY_LIMIT, job) == low
    assert (len(executor.ledger) == 0) is is_restore
