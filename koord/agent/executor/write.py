"""The wanted value of a setting of a cgroup, or of a process in it: a wish whose place is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from koord.agent.host.knobs import Knob, Value


class Spot(NamedTuple):
    """One file of one cgroup, by the names that hold for every kernel; or of one process in it."""

    knob: str
    directory: str
    process: str = ""


@dataclass(slots=True)
class Write:
    knob: Knob
    directory: str
    value: Value
    by: str
    "The strategy or hook."
    why: str
    text: str | None = None
    "The kernel's own text, where a value is put back unchanged."
    own: int | None = None
    "What kubelet sets there by the pod's spec: put back if the spec has changed since."
    is_watched: bool = False
    "Read in every round, even if it was verified lately: what another program writes there does not last."
    process: str = ""
    spot: Spot = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.spot = Spot(self.knob.name, self.directory, self.process)


@dataclass(frozen=True, slots=True)
class WriteStep:
    """One write to the kernel, in its turn."""

    write: Write
    value: Value
    "Between two steps, a parent may have to be larger than its final value."
    is_last: bool
    "Whether the spot then has its final value."
