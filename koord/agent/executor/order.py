"""In which order cgroups are written, so that no parent ever contradicts a child.

Two passes. Top-down, all that grows: a limit that becomes larger, a set of CPUs as the union of what was and what shall
be. Then bottom-up, all that shrinks. Knobs that parents and children do not share are written in the first pass. A
period grows before its quota and shrinks after it: the same quota in less time may be more CPUs than the parent has. A
directory leaves the idle class first and enters it last: in it, the kernel takes no shares. What may be saved
up is at most a quota: it grows after that one, and shrinks before it. Of what the whole machine has, things are given
back before others are taken: it has few groups of resctrl.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from koord.agent.executor.write import Spot, Write, WriteStep
from koord.agent.host.knobs import CPU_BURST, CPU_IDLE, CPU_PERIOD, Growth, Knob, Value
from koord.api.text.cpuset import CPUSet


def merged(writes: Iterable[Write]) -> tuple[dict[Spot, Write], list[tuple[Write, Write]]]:
    """One write for each spot, the later strategy's; and which ones (loser, winner) disagreed."""
    chosen: dict[Spot, Write] = {}
    disagreed = []
    for write in writes:
        before = chosen.get(write.spot)
        if before is not None and before.value != write.value:
            disagreed.append((before, write))
        chosen[write.spot] = write
    return chosen, disagreed


def ordered(writes: Iterable[Write], now: Mapping[Spot, Value]) -> list[WriteStep]:
    """The steps from the present to the wanted values, which all differ. `now` has a value for each."""
    top_down = sorted(
        writes,
        key=lambda write: (
            _depth(write.directory),
            write.directory,
            _turn(write),
            write.knob.is_of_host and write.text is None,
        ),
    )
    steps = []
    left = []
    for write in top_down:
        value = _grown(write.knob, now[write.spot], write.value)
        if value == write.value:
            steps.append(WriteStep(write, value, is_last=True))
            continue
        left.append(write)
        if value != now[write.spot]:
            steps.append(WriteStep(write, value, is_last=False))
    return [*steps, *(WriteStep(write, write.value, is_last=True) for write in reversed(left))]


def _turn(write: Write) -> int:
    """Among those of one directory."""
    if write.knob is CPU_IDLE:
        return 2 if write.value == 1 else 0
    if write.knob is CPU_BURST:
        return 2
    return 0 if write.knob is CPU_PERIOD else 1


def _grown(knob: Knob, old: Value, new: Value) -> Value:
    """The value of a spot while its children still have their old values."""
    if knob.growth is Growth.SUPERSET and isinstance(old, CPUSet) and isinstance(new, CPUSet):
        # No CPUs of its own are its parent's, or none yet: either way nothing below depends on them.
        return old | new if old and new else new
    if knob.growth is Growth.LARGER and knob.is_tighter(new, than=old):
        return old
    return new


def _depth(directory: str) -> int:
    return directory.count("/") if directory else -1
