"""All invariants, in the order of `docs/what-we-promise.md`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from koord_chaos.invariants.cgroups import CGROUPS
from koord_chaos.invariants.history import HISTORY
from koord_chaos.invariants.invariant import Invariant
from koord_chaos.invariants.moving import MOVING
from koord_chaos.invariants.placing import PLACING
from koord_chaos.invariants.processes import MEMORY, RECOVERY
from koord_chaos.invariants.resting import RESTING


@dataclass(frozen=True, slots=True)
class Chapter:
    title: str
    evidence: str
    "What the invariants read, in one sentence."
    invariants: tuple[Invariant[Any], ...]


PROMISES: Final = (
    Chapter("What pods get", "Judged by all API objects, after every change.", PLACING),
    Chapter("At rest", "Judged by all API objects once no component has anything left to do.", RESTING),
    Chapter("Over time", "Judged by the history of all writes and the objects at its end.", HISTORY),
    Chapter("Migrations", "Judged by PodMigrationJobs, pods and reservations, at every moment.", MOVING),
    Chapter("Nodes", "Judged by the files of cgroups over time.", CGROUPS),
    Chapter("Components", "Judged by probes and the process table.", (*RECOVERY, *MEMORY)),
)
