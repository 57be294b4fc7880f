"""The agent on this machine's kernel, killed at any point, and beside another process that writes the same files."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from koord.agent.executor.executor import VERIFIED_FOR_S
from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.files import Files
from koord.agent.host.knobs import CPU_BURST, CPU_QUOTA, CPUSET_CPUS, Knob, Value
from koord.agent.live import keeping
from koord.agent.pods import BATCH_CPU
from koord.api.text.cpuset import CPUSet
from koord.cli.agent import agent as command
from tests.agent.loads import Level, Process, burn, cores
from tests.agent.real_node import RealNode, batch, owning, real_node, suppressed

pytestmark = pytest.mark.root

KILLS = int(os.environ.get("KOORD_KILLS", "20"))
BURST = {"cpuBurstStrategy": {"policy": "auto"}}
IDENTITY = {"resourceQOSStrategy": {"beClass": {"cpuQOS": {"enable": True}}}}
SETTINGS: list[dict[str, Any]] = [
    {**suppressed("cfsQuota"), **BURST},
    {**suppressed("cpuset"), **IDENTITY},
    {**suppressed("cfsQuota"), **IDENTITY, **BURST},
    {"resourceUsedThresholdWithBE": {"enable": False}, "cpuBurstStrategy": {"policy": "none"}},
]


class Upset:
    """Another writer on the same files, with other values."""

    def __init__(self, node: RealNode, writes: list[tuple[Knob, str, list[Value]]]) -> None:
        self._node, self._writes, self._done = node, writes, threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.written = 0

    def _work(self) -> None:
        # Descriptors are not shared between threads.
        files = Files("/")
        cgroups = Cgroups(files, self._node.cgroups.version, self._node.cgroups.root)
        dice = random.Random(1)
        while not self._done.is_set():
            knob, directory, values = dice.choice(self._writes)
            with suppress(OSError):
                cgroups.set(knob, directory, dice.choice(values))
                self.written += 1
            time.sleep(0.001)

    def __enter__(self) -> Upset:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join(60)


def test_a_second_writer_is_survived_and_corrected(tmp_path: Path) -> None:
    with real_node(tmp_path, cores=1, slo=SETTINGS[0]) as node, ExitStack() as running:
        first, second, *_ = sorted(node.topology.all)
        web = node.pod("web", "LS", limits={"cpu": "300m"})
        job = node.pod("job", **batch(limits={BATCH_CPU: "500"}))
        owner = node.pod("owner", **owning(first))
        before = node.settings()
        for pod, work in ((web, cores(Level(0.1))), (job, burn)):
            running.enter_context(Process(node.cgroups, pod.containers[0].directory, work))
        everything, container = node.topology.all, web.containers[0].directory
        contested: list[tuple[Knob, str, list[Value]]] = [
            (CPU_QUOTA, node.best_effort, [-1, 80_000, 5_000]),
            (CPU_BURST, container, [0, 1000]),
            (CPUSET_CPUS, web.directory, [everything, CPUSet([second])]),
            (CPUSET_CPUS, container, [everything, CPUSet([first]), CPUSet([second])]),
            (CPUSET_CPUS, owner.directory, [everything, CPUSet([first]), CPUSet([second])]),
        ]
        node.rounds(2)
        with Upset(node, contested) as upset:
            node.rounds(20, each_s=0.1)
        assert upset.written > 20
        node.cgroups.set(CPU_QUOTA, node.best_effort, -1)
        node.rounds(2)
        assert node.best_effort_cores < 0.7, "what holds best effort back is looked at in each round"
        # The rest is looked at again after a minute.
        node.later_s += VERIFIED_FOR_S
        assert not [done for done in node.rounds(2) if done.outcome.refused]
        assert node.cpus(container) == everything - CPUSet([first])
        assert node.cpus(owner.directory) == CPUSet([first])
        assert node.cgroups.get(CPU_BURST, container) == 30_000
        assert not node.agent.executor.restore_all(node.now_s).refused
        # What the other wrote last is put back, and everywhere else what was there before.
        after = node.settings()
        others = {f"{directory}: {knob.name}": {*map(str, values)} for knob, directory, values in contested}
        if node.cgroups.version is Version.V2:
            # A directory has no CPUs in effect that the one above it has not.
            below = f"{owner.containers[0].directory}: {CPUSET_CPUS.name}"
            others[below] = others[f"{owner.directory}: {CPUSET_CPUS.name}"]
        assert {key: text for key, text in after.items() if key not in others} == {
            key: text for key, text in before.items() if key not in others
        }
        for key, texts in others.items():
            assert after[key].split()[:1] in [before[key].split()[:1], *([text] for text in texts)]


def test_best_effort_gives_way_while_the_record_cannot_be_written(tmp_path: Path) -> None:
    """A read-only disk. What was set in the meantime is put back once the record can be written."""
    state_dir = tmp_path / "state"
    with real_node(state_dir, cores=1, slo=SETTINGS[0]) as node, ExitStack() as running:
        first, *_ = sorted(node.topology.all)
        web, job = node.pod("web", "LS", limits={"cpu": "600m"}), node.pod("job", **batch())
        owner = node.pod("owner", **owning(first))
        before, demand = node.settings(), Level(0.1)
        for pod, work in ((web, cores(demand)), (job, burn)):
            running.enter_context(Process(node.cgroups, pod.containers[0].directory, work))
        state_dir.write_text("in the way")
        assert not [done for done in node.rounds(4) if done.outcome.refused]
        calm = node.best_effort_cores
        assert calm < 0.7
        assert node.cpus(owner.directory) == CPUSet([first])
        demand.set(0.4)
        assert node.until(lambda: node.best_effort_cores < calm - 0.15)
        state_dir.unlink()
        node.rounds(1)
        restore(node, before, "with a record that came late")


class Killed:
    """An agent that works without a pause in a process of its own, until it is killed there or from here."""

    def __init__(self, node: RealNode, dice: random.Random) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._work(node, dice)
            finally:
                os._exit(1)

    def _work(self, node: RealNode, dice: random.Random) -> None:
        signal.alarm(60)
        if dice.random() < 0.7:
            steps = _Steps(dice.randrange(1, 120), dice.random() < 0.5)
            node.cgroups.put = steps.around(node.cgroups.put)  # type: ignore[method-assign]  # in this process alone
            keeping.swap = steps.around(keeping.swap)  # the same
        node.start()
        while True:
            if dice.random() < 0.2:
                node.slo = dice.choice(SETTINGS)
            node.round()
            node.later_s += 1

    def end(self, after_s: float) -> None:
        """At the latest then; a process that killed itself is past caring."""
        time.sleep(after_s)
        os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        assert os.WIFSIGNALED(status), f"the agent ended by itself: {status}"
        assert os.WTERMSIG(status) == signal.SIGKILL


class _Steps:
    """Counts what is done, and dies before or after one of them."""

    def __init__(self, last: int, after: bool) -> None:
        self._left, self._after = last, after

    def around(self, step: Callable[..., None]) -> Callable[..., None]:
        def counted(*given: Any) -> None:
            self._left -= 1
            if self._left <= 0 and not self._after:
                os.kill(os.getpid(), signal.SIGKILL)
            step(*given)
            if self._left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

        return counted


def test_killed_at_any_point_the_next_start_converges_and_restore_gives_all_back(tmp_path: Path) -> None:
    seed = int(os.environ.get("KOORD_SEED", "0"))
    dice = random.Random(seed)
    with real_node(tmp_path / "state", cores=1) as node, ExitStack() as running:
        first, *_ = sorted(node.topology.all)
        web = node.pod("web", "LS", limits={"cpu": "100m"})
        job = node.pod("job", **batch(limits={BATCH_CPU: "500"}))
        node.pod("owner", **owning(first))
        for pod in (web, job):
            running.enter_context(Process(node.cgroups, pod.containers[0].directory, burn))
        before = node.settings()
        # Of these, nothing depends on what is used at the moment.
        final = {**IDENTITY, "cpuBurstStrategy": {"policy": "cpuBurstOnly"}}
        node.slo = final
        node.start()
        node.round()
        wanted = node.settings()
        assert wanted != before
        restore(node, before, "with no agent killed")
        for number in range(KILLS):
            Killed(node, random.Random(dice.random())).end(dice.random() * 0.15)
            if dice.random() < 0.7:
                where = f"kill {number} of seed {seed}"
                node.slo = final
                node.start()
                refused = [node.round().outcome.refused for _ in range(2)]
                assert not any(refused), where
                assert node.settings() == wanted, where
            if dice.random() < 0.5:
                restore(node, before, f"kill {number} of seed {seed}")
        restore(node, before, "in the end")


def restore(node: RealNode, before: dict[str, str], where: str) -> None:
    result = CliRunner().invoke(
        command,
        ["--cgroup-root", node.cgroups.root, "--state-dir", str(node.state_dir), "restore"],
        standalone_mode=False,
    )
    assert result.exception is None, (where, result.exception)
    assert result.return_value == 0, (where, result.stderr)
    assert node.settings() == before, where
