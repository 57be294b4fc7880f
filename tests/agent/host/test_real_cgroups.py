"""The names of knobs against this machine's kernel."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from koord.agent.host import knobs, proc, usage
from koord.agent.host.cgroups import Cgroups
from koord.agent.host.files import Files
from koord.agent.host.tasks import tasks_in
from koord.agent.host.topology import topology
from koord.api.text.cpuset import CPUSet
from tests.agent.real import make, put, real_cgroups
from tests.waiting import until

pytestmark = pytest.mark.root


@pytest.fixture
def cgroups() -> Iterator[Cgroups]:
    with real_cgroups() as found:
        yield found


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        (knobs.CPU_SHARES, 512),
        (knobs.CPU_QUOTA, 50_000),
        (knobs.CPU_QUOTA, -1),
        (knobs.CPU_IDLE, 1),
        (knobs.MEMORY_LIMIT, 64 << 20),
        (knobs.MEMORY_LIMIT, -1),
        (knobs.CPUSET_CPUS, CPUSet([0])),
    ],
    ids=lambda each: getattr(each, "name", str(each)),
)
def test_the_kernel_takes_what_is_set(cgroups: Cgroups, knob: knobs.Knob, value: knobs.Value) -> None:
    pod = make(cgroups, "kubepods/besteffort/pod1")
    if not cgroups.has(knob, pod):
        pytest.skip(f"this kernel has no {knob.name}")
    cgroups.set(knob, pod, value)
    assert cgroups.get(knob, pod) == value


def test_a_burst_needs_a_quota_at_least_as_large(cgroups: Cgroups) -> None:
    pod = make(cgroups, "kubepods/burstable/pod1")
    if not cgroups.has(knobs.CPU_BURST, pod):
        pytest.skip("this kernel has no burst")
    cgroups.set(knobs.CPU_QUOTA, pod, 50_000)
    cgroups.set(knobs.CPU_BURST, pod, 50_000)
    assert cgroups.get(knobs.CPU_BURST, pod) == 50_000
    with pytest.raises(OSError, match="Invalid argument"):
        cgroups.set(knobs.CPU_BURST, pod, 50_001)


def test_cpu_time_and_throttling_are_counted(cgroups: Cgroups) -> None:
    pod = make(cgroups, "kubepods/besteffort/pod1")
    cgroups.set(knobs.CPU_QUOTA, pod, 20_000)
    before = usage.cpu_ns(cgroups, pod)
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        put(cgroups, pod, burner.pid)
        began = time.monotonic()
        # It used up its quota of 20 ms ten times.
        until(lambda: usage.throttling(cgroups, pod).throttled >= 10)
        used_s = (usage.cpu_ns(cgroups, pod) - before) / 1e9
        took_s = time.monotonic() - began
    finally:
        burner.kill()
        burner.wait()
    assert 0 < used_s < 0.35 * took_s
    assert usage.throttling(cgroups, pod).throttled > 0


def test_a_removed_directory_reads_as_missing_and_a_new_one_of_its_name_afresh(cgroups: Cgroups) -> None:
    pod = make(cgroups, "kubepods/besteffort/pod1")
    assert usage.cpu_ns(cgroups, pod) == 0
    for controller in ("cpu", "cpuacct", "cpuset", "memory"):
        subprocess.run(["rmdir", f"/{cgroups.name(controller, pod)}"], check=True)
    with pytest.raises(FileNotFoundError):
        usage.cpu_ns(cgroups, pod)
    make(cgroups, "kubepods/besteffort/pod1")
    assert usage.cpu_ns(cgroups, pod) == 0


def test_the_machine_itself() -> None:
    files = Files("/")
    memory = proc.memory(files)
    assert 0 < memory.used < memory.total
    assert proc.busy_ticks(files) > 0
    found = topology(files)
    assert found.all <= CPUSet(range(4096))
    assert set(proc.busy_ticks_by_cpu(files)) == set(found.all)
    files.close()


def test_processes_and_tasks_that_came_since_the_last_look_are_seen_at_once(cgroups: Cgroups) -> None:
    place = Path(cgroups.files.path(cgroups.name("cpu", "kubepods", "cgroup.procs")))
    seen: list[int] = []
    with ExitStack() as stack:
        for _ in range(3):
            one = stack.enter_context(subprocess.Popen(["sleep", "60"]))
            stack.callback(one.kill)
            place.write_text(str(one.pid))
            seen.append(one.pid)
            # v1 keeps its list of pids for a second, for a process that still has the file open.
            assert sorted(cgroups.processes("kubepods")) == sorted(seen)
            assert sorted(tasks_in(cgroups, "kubepods")) == sorted(seen)
