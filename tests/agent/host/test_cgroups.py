"""The same names on every kind of host: what is set is what is read, and what a kernel lacks is said."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.host import knobs, usage
from koord.agent.host.cgroups import Version
from koord.agent.host.knobs import KNOBS, Knob, Place
from koord.agent.host.layout import driver_of, owner_of, pods_in, sandbox_dir
from koord.agent.host.topology import topology
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS
from koord.api.text.cpuset import CPUSet
from tests.agent.trees import GIB, Tree

KINDS = [(version, driver) for version in Version for driver in CgroupDriver]


@pytest.fixture(params=KINDS, ids=lambda kind: "-".join(kind))
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    version, driver = request.param
    return Tree(tmp_path, version, driver, anolis=True)


def sample(knob: Knob) -> int | CPUSet:
    if knob is knobs.CPUSET_CPUS:
        return CPUSet([0, 1, 3])
    return 1 if knob.most in (1, 2) else 1740 if knob is knobs.CPU_SHARES else max(knob.least or 0, 12)


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: knob.name)
def test_what_is_set_is_what_is_read(tree: Tree, knob: Knob) -> None:
    pod = tree.pod("p-1", KubeQoS.BURSTABLE)
    if not tree.cgroups.has(knob, pod):
        assert (knob.v1 if tree.version is Version.V1 else knob.v2) is None
        return
    tree.cgroups.set(knob, pod, sample(knob))
    read = tree.cgroups.configured(knob, pod)
    # A weight has fewer steps than shares.
    expected = 1732 if knob is knobs.CPU_SHARES and tree.version is Version.V2 else sample(knob)
    assert read == expected


def test_no_limit_is_minus_one_on_both_versions(tree: Tree) -> None:
    pod = tree.pod("p-1", KubeQoS.BEST_EFFORT)
    for knob in (knobs.CPU_QUOTA, knobs.MEMORY_LIMIT):
        assert tree.cgroups.get(knob, pod) == -1
        tree.cgroups.set(knob, pod, 2000)
        assert tree.cgroups.get(knob, pod) == 2000
        tree.cgroups.set(knob, pod, -1)
        assert tree.cgroups.get(knob, pod) == -1


def test_a_quota_of_v2_brings_its_period(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Version.V2)
    pod = tree.pod("p-1", KubeQoS.BURSTABLE)
    tree.cgroups.set(knobs.CPU_QUOTA, pod, 235_000)
    assert tree.read(f"sys/fs/cgroup/{pod}/cpu.max") == "235000 100000"
    tree.cgroups.set(knobs.CPU_QUOTA, pod, -1)
    assert tree.read(f"sys/fs/cgroup/{pod}/cpu.max") == "max 100000"


def test_a_mainline_kernel_says_what_it_lacks(tmp_path: Path) -> None:
    v1, v2 = Tree(tmp_path / "v1", Version.V1), Tree(tmp_path / "v2", Version.V2)
    for tree in (v1, v2):
        pod = tree.pod("p-1", KubeQoS.BURSTABLE)
        has = {knob.name for knob in KNOBS if tree.cgroups.has(knob, pod)}
        assert "cpu.idle" in has
        assert "cpu.bvt_warp_ns" not in has
        assert ("memory.high" in has) == (tree is v2)
        assert "memory.wmark_ratio" not in has


def test_an_old_kernel_lacks_burst_and_the_idle_class(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Version.V1, bare=True)
    pod = tree.pod("p-1", KubeQoS.BURSTABLE)
    assert not tree.cgroups.has(knobs.CPU_BURST, pod)
    assert not tree.cgroups.has(knobs.CPU_IDLE, pod)


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        (knobs.CPU_SHARES, 1),
        (knobs.CPU_SHARES, 262_145),
        (knobs.CPU_QUOTA, 999),
        (knobs.CPU_QUOTA, -2),
        (knobs.CPU_IDLE, 2),
        (knobs.GROUP_IDENTITY, 3),
        (knobs.MEMORY_WMARK_MIN_ADJ, 51),
        (knobs.MEMORY_LIMIT, -2),
    ],
)
def test_values_out_of_range_change_nothing(tree: Tree, knob: Knob, value: int) -> None:
    pod = tree.pod("p-1", KubeQoS.BURSTABLE)
    before = tree.cgroups.configured(knob, pod)
    with pytest.raises(ValueError, match="valid is"):
        tree.cgroups.set(knob, pod, value)
    assert tree.cgroups.configured(knob, pod) == before


def test_a_directory_that_is_not_there_is_a_missing_file(tree: Tree) -> None:
    with pytest.raises(FileNotFoundError):
        tree.cgroups.get(knobs.CPU_QUOTA, "kubepods/podnone")
    with pytest.raises(FileNotFoundError):
        tree.cgroups.set(knobs.CPU_QUOTA, "kubepods/podnone", 5000)


def test_pods_are_found_by_their_directories(tree: Tree) -> None:
    made = {tree.pod("u-1", KubeQoS.GUARANTEED, "c1"), tree.pod("u-2", KubeQoS.BEST_EFFORT)}
    tree.cgroup("system.slice/sshd.service")
    assert driver_of(tree.cgroups) is tree.driver
    found = dict(pods_in(tree.cgroups, tree.driver))
    assert set(found) == made
    assert {owner.qos for owner in found.values()} == {KubeQoS.GUARANTEED, KubeQoS.BEST_EFFORT}


def test_the_sandbox_is_the_child_that_is_no_container(tree: Tree) -> None:
    pod = tree.pod("u-1", KubeQoS.BURSTABLE, "c1", "c2", "pause")
    directories = [f"{pod}/{name}" for name in tree.cgroups.children(pod)]
    owners = {owner.container: directory for directory in directories if (owner := owner_of(directory, tree.driver))}
    containers = [owners["c1"], owners["c2"]]
    assert sandbox_dir(tree.cgroups, pod, containers) == owners["pause"]
    assert sandbox_dir(tree.cgroups, pod, containers[:1]) is None


def test_usage_reads_alike_on_both_versions(tree: Tree) -> None:
    pod = tree.pod("u-1", KubeQoS.BURSTABLE)
    tree.used(pod, cpu_ns=5_000_000, anon=GIB, file=2 * GIB)
    assert usage.cpu_ns(tree.cgroups, pod) == 5_000_000
    memory = usage.memory(tree.cgroups, pod)
    assert memory.without_page_cache == GIB
    assert memory.with_page_cache == 3 * GIB


@pytest.mark.parametrize("version", list(Version))
def test_throttling_is_in_nanoseconds_on_both_versions(tmp_path: Path, version: Version) -> None:
    tree = Tree(tmp_path, version)
    pod = tree.pod("u-1", KubeQoS.BURSTABLE)
    name, unit = ("cpu/", 1000) if version is Version.V1 else ("", 1)
    line = "throttled_time" if version is Version.V1 else "throttled_usec"
    tree.write(f"sys/fs/cgroup/{name}{pod}/cpu.stat", f"nr_periods 600\nnr_throttled 42\n{line} {7 * unit}\n")
    assert usage.throttling(tree.cgroups, pod) == (600, 42, 7000)


def test_pressure_is_read_and_a_missing_full_line_is_told(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Version.V2)
    pod = tree.pod("u-1", KubeQoS.BURSTABLE)
    tree.write(f"sys/fs/cgroup/{pod}/cpu.pressure", "some avg10=1.50 avg60=0.20 avg300=0.00 total=77\n")
    pressure = usage.pressure(tree.cgroups, pod, "cpu")
    assert pressure is not None
    assert pressure.some.avg10 == 1.5
    assert pressure.some.total_us == 77
    assert not pressure.full_supported
    assert usage.pressure(Tree(tmp_path / "v1", Version.V1).cgroups, "kubepods.slice", "cpu") is None


def test_two_sockets_of_128_cpus(tmp_path: Path) -> None:
    found = topology(Tree(tmp_path, sockets=2, cores=32, threads=2).files)
    assert len(found.all) == 128
    assert found.hyper_threads
    assert found.siblings[0] == CPUSet([0, 64])
    assert found.nodes[1] == CPUSet.parse("32-63,96-127")
    assert {cpu.cache for cpu in found.cpus if cpu.node == 1} == {1}


@pytest.mark.parametrize("name", ["core_cpus_list", "thread_siblings_list"])
def test_cores_whose_numbers_begin_anew_on_each_die_are_told_by_their_threads(tmp_path: Path, name: str) -> None:
    tree = Tree(tmp_path, cores=4, threads=2)
    for cpu in range(8):
        base = f"sys/devices/system/cpu/cpu{cpu}/topology"
        tree.write(f"{base}/core_id", f"{cpu % 2}\n")
        tree.write(f"{base}/{name}", f"{cpu % 4},{cpu % 4 + 4}\n")
    assert topology(tree.files).siblings == {core: CPUSet([core, core + 4]) for core in range(4)}


def test_a_machine_that_tells_no_socket_has_one(tmp_path: Path) -> None:
    tree = Tree(tmp_path, cores=2, threads=1)
    for cpu in range(2):
        tree.write(f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", "-1\n")
    assert [(cpu.core, cpu.socket) for cpu in topology(tree.files).cpus] == [(0, 0), (1, 0)]


@given(st.sampled_from([knob for knob in KNOBS if knob is not knobs.CPUSET_CPUS]), st.integers(-3, 2**40))
def test_each_valid_value_survives_being_written(knob: Knob, value: int) -> None:
    if knob.fault(value) is None:
        for place in filter(None, (knob.v1, knob.v2)):
            survives(knob, place, value)


def survives(knob: Knob, place: Place, value: int) -> None:
    read = place.form.read(place.form.write(value))
    if place.file == "cpu.weight":
        assert isinstance(read, int)
        assert abs(read - value) <= 54
    else:
        assert read == value
