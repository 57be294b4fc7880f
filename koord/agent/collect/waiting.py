"""How long the tasks of each pod wait for a CPU and for disks, and how many of them run or sleep in the kernel.

Task by task, every few seconds. A task that ends takes its counters with it, so growth is added up here: a sum never
goes backwards, and what an ended task had waited stays in it. What it waited after it was last looked at is not seen.
A number may have gone to another task: one whose counters are below what they were is new. Nobody can have waited
for longer than the time since the last look, so a task that was moved in from elsewhere brings nothing along.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import exp
from typing import Final

from koord.agent.collect.round import Round
from koord.agent.collect.task_sums import Sum, Waiting
from koord.agent.host import proc, tasks, usage
from koord.agent.host.tasks import TaskState, TaskTimes
from koord.agent.pods import AgentPod
from koord.agent.series import names
from koord.api.configuration.features import AgentGate

LOAD_S: Final[Mapping[str, float]] = {"1m": 60.0, "5m": 300.0, "15m": 900.0}
GATES: Final = (AgentGate.CPU_DELAY_COLLECTOR, AgentGate.INTERFERENCE_DETECTION, AgentGate.INTERFERENCE_CONTROL)


def collect(this: Round) -> None:
    waitings = this.waitings
    if not any(this.state.gates[gate] for gate in GATES) or this.now_s - waitings.looked_s < waitings.every_s:
        return
    files = this.cgroups.files
    waitings.looked_s = this.now_s
    _node_io_wait(this)
    if not tasks.has_schedstat(files):
        return
    counts_io = tasks.counts_io_wait(files)
    for uid, pod in this.state.pods.items():
        _pod(this, pod, waitings.by_pod.setdefault(uid, Waiting(this.now_s)), counts_io)
    containers = {container.id for pod in this.state.pods.values() for container in pod.containers}
    waitings.by_pod = {uid: waiting for uid, waiting in waitings.by_pod.items() if uid in this.state.pods}
    waitings.by_container = {key: waits for key, waits in waitings.by_container.items() if key in containers}


def _pod(this: Round, pod: AgentPod, waiting: Waiting, counts_io: bool) -> None:
    files, times_of_tasks = this.cgroups.files, dict[int, TaskTimes]()
    limited = [pod.directory]
    most_ns = (this.now_s - waiting.seen_s) * 1e9
    for container in pod.containers:
        if not container.directory:
            continue
        own = dict[int, TaskTimes]()
        for directory in (container.directory, *this.cgroups.below(container.directory)):
            try:
                for task in tasks.tasks_of(this.cgroups, directory):
                    if (times := tasks.times_of(files, task)) is not None:
                        own[task] = times
                limited.append(directory)
            except FileNotFoundError:
                continue
        if container.directory not in limited:
            continue
        total = this.waitings.by_container.setdefault(container.id, Sum())
        this.put_slowly(
            names.container_wait(container.id),
            total.add({task: task_times.wait_ns for task, task_times in own.items()}, most_ns),
        )
        times_of_tasks |= own
    elapsed_s, waiting.seen_s = this.now_s - waiting.seen_s, this.now_s
    waited = waiting.wait.add({task: task_times.wait_ns for task, task_times in times_of_tasks.items()}, most_ns)
    this.put_slowly(names.pod_wait(pod.uid), waited)
    slices = waiting.slices.add({task: task_times.slices for task, task_times in times_of_tasks.items()}, float("inf"))
    this.put_slowly(names.pod_slices(pod.uid), slices)
    this.put_slowly(names.pod_threads(pod.uid), len(times_of_tasks))
    states = {task: state for task in times_of_tasks if (state := tasks.state_of(files, task)) is not None}
    if counts_io:
        waited = waiting.io_wait.add({task: task_state.io_wait_ns for task, task_state in states.items()}, most_ns)
        this.put_slowly(names.pod_io_wait(pod.uid), waited)
    _load(this, pod.uid, waiting, states.values(), elapsed_s)
    _own_limits(this, pod, waiting, limited)
    _kernel_share(this, pod)


def _load(this: Round, uid: str, waiting: Waiting, states: Iterable[TaskState], elapsed_s: float) -> None:
    letters = [task_state.letter for task_state in states]
    for letter in ("R", "D"):
        count = letters.count(letter)
        for span, seconds in LOAD_S.items():
            before = waiting.load.get((letter, span), 0.0)
            decay = exp(-elapsed_s / seconds)
            load = waiting.load[letter, span] = before * decay + count * (1 - decay)
            this.put_slowly(names.pod_load(uid, letter, span), load)


def _own_limits(this: Round, pod: AgentPod, waiting: Waiting, directories: Iterable[str]) -> None:
    """After waiting was read: what a quota explains is then never missing from it. A container may limit what runs in
    its own cgroups, too."""
    throttlings = dict[str, usage.Throttling]()
    for directory in directories:
        with suppress(FileNotFoundError):
            throttlings[directory] = usage.throttling(this.cgroups, directory)
    stopped_ns = waiting.throttled_ns.add(
        {directory: throttling.throttled_ns for directory, throttling in throttlings.items()}
    )
    periods = waiting.throttled.add({directory: throttling.throttled for directory, throttling in throttlings.items()})
    this.put_slowly(names.pod_throttled_ns(pod.uid), stopped_ns)
    this.put_slowly(names.pod_throttled_periods(pod.uid), periods)


def _kernel_share(this: Round, pod: AgentPod) -> None:
    """Of the pod's CPU time, how much the kernel used on its behalf."""
    try:
        split = usage.cpu_split(this.cgroups, pod.directory)
    except FileNotFoundError:
        return
    if split is None:
        return
    series = names.pod_kernel_share(pod.uid)
    system = this.rates.growth(series, split.system_ns, this.now_s)
    user = this.rates.growth(names.pod_user_time(pod.uid), split.user_ns, this.now_s)
    if system is not None and user is not None and system + user > 0:
        this.put_slowly(series, system / (system + user))


def _node_io_wait(this: Round) -> None:
    """Share of the CPUs' time in which they idled and a task waited for a disk."""
    waited_s = this.rates.per_second(names.NODE_IO_WAIT, proc.io_wait_ticks(this.cgroups.files), this.now_s)
    if waited_s is not None and this.state.cpus:
        this.put_slowly(names.NODE_IO_WAIT, waited_s * proc.JIFFY_S / this.state.cpus)
