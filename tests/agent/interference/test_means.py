"""A neighbour is held back by what its victim lacks, where the kernel has the means: on composed hosts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from koord.agent.executor.delivery import Delivery
from koord.agent.executor.executor import Executor
from koord.agent.executor.ledger import Ledger
from koord.agent.host.cgroups import Version
from koord.agent.host.knobs import Knob, Value
from koord.agent.interference.control import LEAST_IO, OwnMeans
from koord.agent.interference.signals import Dimension, Signal
from koord.agent.qos.interference import strategy_of
from koord.agent.qos.strategy import Reader, Sight
from koord.agent.series import names
from koord.agent.series.samples import Samples
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import CgroupDriver, qos_dir
from koord.api.kubernetes.words import KubeQoS
from tests.agent import states
from tests.agent.interference.nodes import BATCH, SERVICE, Story
from tests.agent.trees import Tree

GIB, MIB = 1 << 30, 1 << 20
IO_STAT = "8:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n8:16 rbytes=0 wbytes=0\n\n253:0 wbytes=9\n"


def held(signal: Signal, use: float, means: OwnMeans) -> tuple[int, int, int]:
    """By CPU, memory and disks."""
    node = Story({"web": SERVICE, "build": replace(BATCH, means=means)})
    for _ in range(8):
        node.window({"web": 0.5}, {"build": 1.0}, signal, signal.dimension)
    for _ in range(3):
        node.window({"web": 60.0}, {"build": use}, signal, signal.dimension)
    hold = node.held("build")[0]
    return hold.milli, hold.memory_bytes, hold.io_bytes_s


@pytest.mark.parametrize(
    ("signal", "use", "means", "expected"),
    [
        (Signal.IO_PRESSURE, 400.0 * MIB, OwnMeans(GIB, ("8:0",)), (0, 0, 100 * MIB)),
        (Signal.IO_PRESSURE, 2.0 * MIB, OwnMeans(0, ("8:0",)), (0, 0, LEAST_IO)),
        (Signal.IO_PRESSURE, 400.0 * MIB, OwnMeans(GIB), (100, 0, 0)),
        (Signal.MEMORY_PRESSURE, 8.0 * GIB, OwnMeans(GIB, ("8:0",)), (0, GIB, 0)),
        (Signal.MEMORY_PRESSURE, 8.0 * GIB, OwnMeans(0, ("8:0",)), (100, 0, 0)),
        (Signal.RUN_QUEUE_DELAY, 2000.0, OwnMeans(GIB, ("8:0",)), (500, 0, 0)),
    ],
)
def test_a_neighbour_is_held_by_what_its_victim_lacks_else_by_cpu(
    signal: Signal, use: float, means: OwnMeans, expected: tuple[int, int, int]
) -> None:
    assert held(signal, use, means) == expected


def wishes(
    tmp_path: Path, version: Version, dimension: Dimension, *, is_idle: bool = False, limited: str = ""
) -> tuple[dict[str, Value | str], dict[str, str]]:
    """What the strategy wants of the neighbour after three windows in which the service waited; and the pod's files
    afterwards, and when it was let go."""
    tree = Tree(tmp_path, version=version, driver=CgroupDriver.CGROUPFS)
    web = states.pod("web", "LS", requests={"cpu": "1"})
    build = states.pod("build", "BE", requests={"kubernetes.io/batch-memory": "1Gi"})
    directory = tree.pod("build", KubeQoS.BEST_EFFORT, "build-main")
    if version is Version.V2:
        tree.write(f"sys/fs/cgroup/{directory}/io.stat", IO_STAT)
        tree.write(f"sys/fs/cgroup/{directory}/io.max", "")
    if limited:
        tree.pod("web", KubeQoS.BURSTABLE, "web-main")
        tree.write(
            f"{tree.cgroups.name('blkio' if version is Version.V1 else '', web.directory, limited)}", "8:0 1048576\n"
        )
    if is_idle:
        tree.write(f"{tree.cgroups.name('cpu', qos_dir(KubeQoS.BEST_EFFORT, CgroupDriver.CGROUPFS))}/cpu.idle", "1")
    state = states.node(web, build, slo={})
    state = replace(state, gates={**state.gates, AgentGate.INTERFERENCE_CONTROL: True})
    strategy, samples, now_s, stalled, moved = strategy_of(), Samples(), 1000.0, 0.0, 0.0
    memory, decision, teaches = strategy.memory, None, list[bool]()
    for window in range(12):
        hot = window >= 9
        now_s += 10
        stalled += 5e6 if hot else 1e4
        moved += 10 * (400 * MIB if hot else 1024)
        resource = "io" if dimension is Dimension.IO else "memory"
        samples.add(names.pod_stalled_us("web", resource), now_s, stalled)
        samples.add(names.pod_io_bytes("build"), now_s, moved)
        samples.add(names.pod_charged_bytes("build"), now_s, 9.0 * GIB if hot else 1.0)
        samples.add(names.pod_memory("build"), now_s, 2.0 * GIB)
        samples.add(names.pod_cpu("build"), now_s, 400.0)
        reader = Reader(tree.cgroups, state, now_s)
        turn = strategy.decide(Sight(state, samples, now_s), strategy.look(reader, memory), memory)
        memory, decision = turn.memory, turn.decision
        if decision is not None and decision.signals:
            teaches.append("web" in decision.usual_signals)
    assert decision is not None
    assert (teaches[0], teaches[-1]) == (True, bool(limited)), "a disturbed pod does not learn that this is usual"
    wanted = {
        f"{wish.target} {wish.setting.name}": wish.value for wish in decision.wishes if isinstance(wish.setting, Knob)
    }
    executor = Executor(tree.cgroups, Ledger(), lambda text: None)
    executor.apply(Delivery(tree.cgroups).writes([decision.wishes], state), {strategy.name}, now_s)
    after = (
        {name: tree.read(f"sys/fs/cgroup/{directory}/{name}") for name in ("memory.high", "io.max")}
        if (version is Version.V2)
        else {}
    )
    executor.apply([], {strategy.name}, now_s + 1)
    if version is Version.V2:
        after["memory.high then"] = tree.read(f"sys/fs/cgroup/{directory}/memory.high")
    return wanted, after


def test_on_v2_a_writer_is_held_by_the_disks_that_it_uses(tmp_path: Path) -> None:
    wanted, _ = wishes(tmp_path, Version.V2, Dimension.IO)
    assert set(wanted) == {f"pod build io.max {what} {disk}" for what in ("rbps", "wbps") for disk in ("8:0", "253:0")}
    (limit,) = set(wanted.values())
    assert isinstance(limit, int)
    assert 50 * MIB <= limit <= 100 * MIB, "a quarter of what it moved, over a window or two"


def test_on_v2_who_takes_memory_keeps_what_it_works_with_and_is_let_go_later(tmp_path: Path) -> None:
    wanted, files = wishes(tmp_path, Version.V2, Dimension.MEMORY)
    assert wanted == {"pod build memory.high": 2 * GIB, "container build main memory.high": 2 * GIB}
    assert files["memory.high"].strip() == str(2 * GIB)
    assert files["memory.high then"].strip() == "max"


@pytest.mark.parametrize(
    ("version", "file"), [(Version.V2, "io.max"), (Version.V1, "blkio.throttle.write_iops_device")]
)
def test_a_service_that_waits_for_disks_by_its_own_limit_is_no_victim(
    version: Version, file: str, tmp_path: Path
) -> None:
    wanted, _ = wishes(tmp_path, version, Dimension.IO, limited=file)
    assert not wanted


@pytest.mark.parametrize("dimension", [Dimension.IO, Dimension.MEMORY])
def test_on_v1_without_means_it_is_held_by_cpu(dimension: Dimension, tmp_path: Path) -> None:
    wanted, _ = wishes(tmp_path, Version.V1, dimension)
    assert wanted == {
        "pod build cpu.cfs_quota_us": 10000,
        "container build main cpu.cfs_quota_us": 10000,
    }


def test_where_best_effort_yields_its_quota_counts_by_the_second(tmp_path: Path) -> None:
    """Quotas that are filled up ten times a second keep services off their CPUs ten times a second."""
    wanted, _ = wishes(tmp_path, Version.V1, Dimension.IO, is_idle=True)
    assert wanted == {
        f"{target} {knob}": value
        for target in ("pod build", "container build main")
        for knob, value in (("cpu.cfs_period_us", 1_000_000), ("cpu.cfs_quota_us", 10000))
    }
