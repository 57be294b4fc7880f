"""Time slices of best effort on a kernel that lets them be chosen: given, inherited, left alone, taken back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from koord.agent.executor.executor import Executor
from koord.agent.host import time_slices
from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.files import Files
from koord.agent.host.time_slices import LONG, TIME_SLICE, USUAL, give, slice_reader
from koord.agent.live.keeping import read_ledger
from tests.agent.loads import Process, nap
from tests.agent.real import make
from tests.agent.real_node import RealNode, batch, real_node
from tests.waiting import until

pytestmark = pytest.mark.root

YIELDS = {"resourceQOSStrategy": {each: {"cpuQOS": {"enable": True}} for each in ("lsClass", "beClass")}}
THEIRS = "3000000"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RealNode]:
    if missing := time_slices.absence(Files("/")):
        pytest.skip(missing)
    with real_node(tmp_path, slo=YIELDS) as found:
        yield found


def slice_of(task: int) -> str | None:
    return slice_reader()(task)


def _slices(tasks: dict[str, int]) -> dict[str, str | None]:
    return {name: slice_of(task) for name, task in tasks.items()}


def _choosing(slice_ns: str) -> Callable[[], None]:
    def work() -> None:
        give(0, slice_ns)
        nap()

    return work


def _nicely() -> None:
    os.setpriority(os.PRIO_PROCESS, 0, 7)
    os.sched_setscheduler(0, os.SCHED_BATCH | os.SCHED_RESET_ON_FORK, os.sched_param(0))
    nap()


def _settled(tasks: dict[str, int]) -> None:
    """A process says that it is there before it begins to work."""

    def have_begun() -> bool:
        is_nice = os.sched_getscheduler(tasks["nice"]) & ~os.SCHED_RESET_ON_FORK == os.SCHED_BATCH
        return is_nice and slice_of(tasks["chose"]) == THEIRS

    until(have_begun)


def test_best_effort_has_long_ones_and_everybody_else_what_they_had(node: RealNode) -> None:
    web, job = node.pod("web", "LS", requests={"cpu": "1"}), node.pod("job", **batch())
    own = job.containers[0].directory
    inner = make(node.cgroups, f"{own}/made-inside")
    if node.cgroups.version is Version.V2:
        # Where it has others below, a directory has no processes of its own.
        own = make(node.cgroups, f"{own}/made-first")
    with ExitStack() as running:

        def start(directory: str, work: Callable[[], None] = nap) -> int:
            return running.enter_context(Process(node.cgroups, directory, work)).pid

        tasks = {"service": start(web.containers[0].directory), "plain": start(own), "inner": start(inner)}
        tasks |= {"chose": start(own, _choosing(THEIRS)), "nice": start(own, _nicely)}
        _settled(tasks)
        before = _slices(tasks)
        assert before == {"service": USUAL, "plain": USUAL, "inner": USUAL, "chose": THEIRS, "nice": USUAL}
        node.reconciled()
        given = {**before, "plain": LONG, "inner": LONG, "nice": LONG}
        assert _slices(tasks) == given
        nice = tasks["nice"]
        assert os.getpriority(os.PRIO_PROCESS, nice) == 7
        assert os.sched_getscheduler(nice) == os.SCHED_BATCH | os.SCHED_RESET_ON_FORK
        tasks["joined"] = start(own)
        node.start()
        node.reconciled()
        assert _slices(tasks) == {**given, "joined": LONG}, "what comes later, and by another agent"
        assert not node.round().outcome.done, "nothing is left to do"
        node.slo = {"resourceQOSStrategy": {"lsClass": {"cpuQOS": {"enable": True}}}}
        node.reconciled()
        assert _slices(tasks) == {**before, "joined": USUAL}
        node.slo = YIELDS
        node.reconciled()
        assert _slices(tasks) == {**given, "joined": LONG}
        node.start()
        assert not node.agent.executor.restore_all(node.now_s).refused
        assert _slices(tasks) == {**before, "joined": USUAL}
        assert os.getpriority(os.PRIO_PROCESS, nice) == 7


def test_a_process_has_its_parents(node: RealNode) -> None:
    job = node.pod("job", **batch())
    asked, asks = os.pipe()
    told, tells = os.pipe()

    def forks() -> None:
        os.read(asked, 1)
        child = os.fork()
        if child == 0:
            nap()
        os.write(tells, str(child).encode())
        nap()

    with Process(node.cgroups, job.containers[0].directory, forks):
        node.reconciled()
        os.write(asks, b"!")
        child = int(os.read(told, 64))
        try:
            assert slice_of(child) == LONG
        finally:
            os.kill(child, signal.SIGKILL)
    for each in (asked, asks, told, tells):
        os.close(each)


def test_what_has_no_time_slice_is_left_alone(node: RealNode) -> None:
    """Only by its priority, and outside the node: a v1 cgroup may have no runtime for real-time tasks."""
    child = os.fork()
    if child == 0:
        try:
            nap()
        finally:
            os._exit(1)
    try:
        try:
            os.sched_setscheduler(child, os.SCHED_RR, os.sched_param(1))
        except PermissionError:
            pytest.skip("this machine lets nothing go before all others")
        assert slice_of(child) is None
        give(child, LONG)
        assert os.sched_getscheduler(child) == os.SCHED_RR
        assert os.sched_getparam(child).sched_priority == 1
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert slice_of(child) is None, "it has ended"
    with pytest.raises(ProcessLookupError):
        give(child, LONG)


def test_where_other_processes_are_seen_nothing_is_put_back(node: RealNode, tmp_path: Path) -> None:
    """By a record of another machine: its numbers are others' here."""
    job = node.pod("job", **batch())
    with Process(node.cgroups, job.containers[0].directory, nap) as process:
        node.reconciled()
        (tmp_path / "proc").mkdir()
        (tmp_path / "sys").symlink_to("/sys")
        elsewhere = Cgroups(Files(str(tmp_path)), node.cgroups.version, node.cgroups.root)
        executor = Executor(elsewhere, read_ledger(node.state_dir))
        told = [refused_write.error for refused_write in executor.restore_all(node.now_s).refused]
        assert any("does not see the host's processes" in each for each in told), told
        assert slice_of(process.pid) == LONG


def test_killed_at_any_task_restore_takes_all_back(node: RealNode) -> None:
    job = node.pod("job", **batch())
    with ExitStack() as running:
        own = job.containers[0].directory
        tasks = {str(number): running.enter_context(Process(node.cgroups, own, nap)).pid for number in range(3)}
        for step in range(len(tasks) + 1):
            pid = os.fork()
            if pid == 0:
                try:
                    _dies(step)
                    node.later_s += 11
                    node.round()
                finally:
                    os._exit(0)
            _, status = os.waitpid(pid, 0)
            assert os.WIFSIGNALED(status) == (step < len(tasks))
            assert list(_slices(tasks).values()).count(LONG) == step
            node.start()
            assert not node.agent.executor.restore_all(node.now_s).refused
            assert {*_slices(tasks).values()} == {USUAL}


def _dies(step: int) -> None:
    """In this process alone."""
    left = [step]

    def counted(task: int, chosen: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        give(task, chosen)

    time_slices.give = counted


@pytest.mark.parametrize("found", ["0", "", f"0,{LONG}", "5", "9" * 40])
def test_what_a_record_says_beside_long_ones_is_the_usual_one(node: RealNode, found: str) -> None:
    job = node.pod("job", **batch())
    with Process(node.cgroups, job.containers[0].directory, nap) as process:
        node.reconciled()
        node.cgroups.put(TIME_SLICE, job.containers[0].directory, found)
        assert slice_of(process.pid) == USUAL
