"""The tasks (threads) of a cgroup, and what /proc reports about each: how long it ran and waited, and what it does.

`/proc/TASK/schedstat` is there where the kernel keeps account of its run queues (CONFIG_SCHED_INFO, as all
distributions have it). Waiting for the disk is counted where delay accounting is on (`kernel.task_delayacct`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.files import Files
from koord.agent.host.proc import JIFFY_S

DELAY_ACCOUNTING = "proc/sys/kernel/task_delayacct"


class TaskTimes(NamedTuple):
    run_ns: int
    wait_ns: int
    "For how long it could have run, and no CPU was free for it."
    slices: int
    "How often it was given a CPU."


class TaskState(NamedTuple):
    letter: str
    "As `ps` shows it: R runs or waits for a CPU, D sleeps and cannot be woken."
    io_wait_ns: int
    "For how long it waited for block devices."


def tasks_in(cgroups: Cgroups, directory: str) -> Iterator[int]:
    """Of a cgroup and those below: a container may make its own. Raises FileNotFoundError for one that is gone."""
    yield from tasks_of(cgroups, directory)
    for group in cgroups.below(directory):
        try:
            yield from tasks_of(cgroups, group)
        except FileNotFoundError:
            continue


def tasks_of(cgroups: Cgroups, directory: str) -> Iterator[int]:
    """Of one cgroup alone. Raises FileNotFoundError for one that is gone."""
    file = "tasks" if cgroups.version is Version.V1 else "cgroup.threads"
    # Anew: to a descriptor that was read less than a second ago, v1 repeats its last answer.
    for line in cgroups.files.once(cgroups.name("cpu", directory, file)).split():
        yield int(line)


def times_of(files: Files, task: int) -> TaskTimes | None:
    """None for a task that has ended."""
    try:
        run, wait, slices = files.once(f"proc/{task}/schedstat").split()
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return None
    return TaskTimes(int(run), int(wait), int(slices))


def state_of(files: Files, task: int) -> TaskState | None:
    """None for a task that has ended."""
    try:
        stat = files.once(f"proc/{task}/stat")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name, in brackets, may hold anything, also spaces and brackets.
    fields = stat[stat.rindex(b")") + 1 :].split()
    return TaskState(fields[0].decode(), int(int(fields[39]) * JIFFY_S * 1e9))


def has_schedstat(files: Files) -> bool:
    """Whether this kernel tells how long tasks wait for a CPU; read from the calling task itself."""
    try:
        return len(files.once("proc/self/schedstat").split()) == 3
    except OSError:
        return False


def counts_io_wait(files: Files) -> bool:
    """Whether this kernel counts at present how long tasks wait for disks."""
    try:
        return files.once(DELAY_ACCOUNTING).strip() == b"1"
    except OSError:
        return False
