"""Records of context switches by the kernel, and the tasks that held a CPU while a pod's task waited for it.

A task that was taken off its CPU while it could have run on waits until it is back: every task that ran there until
then held the CPU. For a task that woke up, no record says since when it waits: the task before it is taken to have held
the CPU, for at most a few milliseconds. An idle CPU has no holder.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

SWITCH_CPU_WIDE: Final = 15
SWITCH_OUT: Final = 1 << 13
SWITCH_OUT_PREEMPT: Final = 1 << 14
WOKEN_NS: Final = 4_000_000
"""Longer than that no scheduler lets a task that woke up wait behind one other."""
LEAST_NS: Final = 1_000_000
"""Of waiting in a sample: less says nothing."""


class Switch(NamedTuple):
    """A task that was given a CPU, or taken off it."""

    at_ns: int
    task: int
    other: int
    "The task that had the CPU before, or has it next; 0 is none."
    is_out: bool
    was_preempted: bool
    "Taken off while it could have run on."


def switches_in(text: bytes) -> Iterator[Switch]:
    """The switches of a ring's bytes; other records are passed over."""
    at = 0
    while at + 8 <= len(text):
        kind, misc, size = struct.unpack_from("IHH", text, at)
        if size < 8 or at + size > len(text):
            return
        if kind == SWITCH_CPU_WIDE and size >= 32:
            _, other, _, task, time_ns = struct.unpack_from("IIIIQ", text, at + 8)
            is_out = bool(misc & SWITCH_OUT)
            yield Switch(time_ns, task, other, is_out, is_out and bool(misc & SWITCH_OUT_PREEMPT))
        at += size


Waited = dict[str, dict[str, float]]
"""By pod and the pod that held its CPU, for how many nanoseconds; under no name, what no pod held."""


def waited_in(by_cpu: Iterable[Sequence[Switch]], pod_of: Mapping[int, str]) -> Waited:
    """Of one sample. `pod_of` has the uids of pods by task."""
    waited: Waited = {}
    for switches in by_cpu:
        _held_on_cpu(switches, pod_of, waited)
    return waited


def held(samples: Iterable[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """By pod and the pod that held its CPU, the share of its waiting in all samples together."""
    waited: Waited = {}
    for sample in samples:
        for victim, by_holder in sample.items():
            of_victim = waited.setdefault(victim, {})
            for holder, ns in by_holder.items():
                of_victim[holder] = of_victim.get(holder, 0.0) + ns
    return {
        victim: {holder: ns / total for holder, ns in by_holder.items() if holder}
        for victim, by_holder in waited.items()
        if (total := sum(by_holder.values())) >= LEAST_NS
    }


def _held_on_cpu(switches: Sequence[Switch], pod_of: Mapping[int, str], waited: Waited) -> None:
    began_ns: int | None = None
    waiting: dict[int, list[tuple[int, int]]] = {}
    "By preempted task, the tasks that ran since then, and for how long."
    for switch in switches:
        if not switch.is_out:
            before = waiting.pop(switch.task, None)
            victim = pod_of.get(switch.task)
            if victim and before is None and switch.other and began_ns is not None:
                before = [(switch.other, min(switch.at_ns - began_ns, WOKEN_NS))]
            for task, ns in (before or ()) if victim else ():
                by_holder = waited.setdefault(victim or "", {})
                holder = pod_of.get(task, "")
                by_holder[holder] = by_holder.get(holder, 0.0) + ns
            began_ns = switch.at_ns
            continue
        ran_ns = switch.at_ns - began_ns if began_ns is not None else 0
        for runs in waiting.values():
            runs.append((switch.task, ran_ns))
        if switch.was_preempted and switch.task in pod_of:
            waiting[switch.task] = []
