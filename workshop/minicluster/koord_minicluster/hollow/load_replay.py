"""Load from a recording: a user's CSV, replayed instead of the seeded model for what it names.

    time_s,target,cpu,memory
    0,app:shop/web,60%,1Gi
    300,app:shop/web,2500m,1.5Gi
    0,pod:shop/db-0,2,8Gi
    0,node:hollow-0001,500m,2Gi

`time_s` counts from the start of the replay. A target is a pod, all pods of a workload (each uses that much), or what
runs on a node outside of pods; a pod's own rows go before those of its app. Amounts are quantities, or a percentage of
the pod's request (for a node: of its capacity). A value holds until the target's next row; the last ones hold as long
as those before them did, then the replay starts over. What the file does not name follows the seeded model.
"""

from __future__ import annotations

import csv
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isfinite
from typing import Final

from koord.api.machinery.faults import Fault, Invalid
from koord.api.text.quantity import QuantityError, milli, value
from koord_minicluster.hollow.load_model import Course, Load, NodeShape, PodShape, Usage

COLUMNS: Final = ("time_s", "target", "cpu", "memory")
TARGETS: Final = ("pod", "app", "node")
FAULTS_SHOWN: Final = 20

_Amount = tuple[int, bool]
"""A number, and whether it is in hundredths of a percent of a whole rather than absolute."""


@dataclass(frozen=True, slots=True)
class Track:
    """One target's rows, in order of time."""

    times_s: list[float] = field(default_factory=list)
    cpu: list[_Amount] = field(default_factory=list)
    memory: list[_Amount] = field(default_factory=list)

    def at(self, time_s: float, whole: Usage) -> Usage:
        """What the target uses; before its first row, what that one says."""
        row = max(0, bisect_right(self.times_s, time_s) - 1)
        return Usage(_of(self.cpu[row], whole.cpu_milli), _of(self.memory[row], whole.memory_bytes))


@dataclass(frozen=True, slots=True)
class ReplayedLoad:
    """The recording, from the beginning of its course on; `otherwise` is asked for what it does not name."""

    tracks: dict[str, Track]
    length_s: float
    course: Course
    otherwise: Load

    def of_pod(self, pod: PodShape, now_s: float) -> Usage:
        track = self.tracks.get(f"pod:{pod.key}") or self.tracks.get(f"app:{pod.app}")
        if track is None:
            return self.otherwise.of_pod(pod, now_s)
        wanted = track.at(self._time(now_s), pod.request)
        return Usage(
            min(wanted.cpu_milli, pod.limit.cpu_milli or wanted.cpu_milli),
            min(wanted.memory_bytes, pod.limit.memory_bytes or wanted.memory_bytes),
        )

    def of_system(self, node: NodeShape, now_s: float) -> Usage:
        track = self.tracks.get(f"node:{node.name}")
        if track is None:
            return self.otherwise.of_system(node, now_s)
        return track.at(self._time(now_s), node.capacity)

    def _time(self, now_s: float) -> float:
        passed = max(0.0, self.course.at(now_s))
        return passed % self.length_s if self.length_s else 0.0


def read_replay(lines: Iterable[str], what: str, *, course: Course, otherwise: Load) -> ReplayedLoad:
    """The recording in a CSV file. Raises `Invalid` with the line numbers of all that is wrong (the first 20)."""
    rows = csv.reader(lines)
    faults: list[Fault] = []
    tracks: dict[str, Track] = {}
    times_s: set[float] = set()
    header = next(rows, [])
    if tuple(cell.strip() for cell in header) != COLUMNS:
        raise Invalid(what, [Fault("line 1", f"must be the header {','.join(COLUMNS)}, not {','.join(header)!r}")])
    for row in rows:
        if not row or row[0].lstrip().startswith("#"):
            continue
        try:
            time_s, target, cpu, memory = _row([cell.strip() for cell in row])
            track = tracks.setdefault(target, Track())
            if track.times_s and time_s <= track.times_s[-1]:
                raise ValueError(f"{target} is at {track.times_s[-1]:g} s already; times of a target must grow")
        except ValueError as error:
            faults.append(Fault(f"line {rows.line_num}", str(error)))
            if len(faults) == FAULTS_SHOWN:
                break
            continue
        track.times_s.append(time_s)
        track.cpu.append(cpu)
        track.memory.append(memory)
        times_s.add(time_s)
    if faults:
        raise Invalid(what, faults)
    if not tracks:
        raise Invalid(what, [Fault("", "has no rows below its header")])
    *_, before_s, last_s = (0.0, 0.0, *sorted(times_s))
    return ReplayedLoad(tracks, last_s + (last_s - before_s), course, otherwise)


def _row(cells: list[str]) -> tuple[float, str, _Amount, _Amount]:
    if len(cells) != len(COLUMNS):
        raise ValueError(f"must have {len(COLUMNS)} cells ({','.join(COLUMNS)}), not {len(cells)}")
    time_text, target, cpu, memory = cells
    try:
        time_s = float(time_text)
    except ValueError:
        time_s = -1.0
    if not isfinite(time_s) or time_s < 0:
        raise ValueError(f"time_s is {time_text!r}; it must be a number of seconds from 0 on")
    kind, colon, name = target.partition(":")
    if not colon or kind not in TARGETS or not name or ("/" in name) != (kind != "node"):
        raise ValueError(f"target is {target!r}; it must be pod:NAMESPACE/NAME, app:NAMESPACE/NAME or node:NAME")
    return time_s, target, _amount("cpu", cpu), _amount("memory", memory)


def _amount(column: str, text: str) -> _Amount:
    number, percent, rest = text.partition("%")
    try:
        if percent and not rest:
            share = round(float(number) * 100)
            amount: _Amount = share, True
        else:
            amount = (milli if column == "cpu" else value)(text), False
    except (QuantityError, ValueError, OverflowError) as error:
        reason = (
            error if isinstance(error, QuantityError) else "it must be a quantity (250m, 1Gi) or a percentage (60%)"
        )
        raise ValueError(f"{column} is {text!r}: {reason}") from None
    if amount[0] < 0:
        raise ValueError(f"{column} is {text!r}; it must not be negative")
    return amount


def _of(amount: _Amount, whole: int) -> int:
    number, is_share = amount
    return whole * number // 10_000 if is_share else number
