"""What a cgroup, or a process in it, is to be: a wish whose place is known."""

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
    "The value in the kernel's own words, where it is put back as it was found."
    own: int | None = None
    "What kubelet sets there by the pod's spec: that is put back when the spec has changed meanwhile."
    is_watched: bool = False
    "Looked at in each round, however lately it was seen to be so: what somebody else writes there does not last."
    process: str = ""
    spot: Spot = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.spot = Spot(self.knob.name, self.directory, self.process)


@dataclass(frozen=True, slots=True)
class WriteStep:
    """One write to the kernel, in its turn."""

    write: Write
    value: Value
    "On the way, a parent may have to be larger than it is to be in the end."
    is_last: bool
    "Whether the spot then is as it was wanted."
