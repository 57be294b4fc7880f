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
    Chapter(
        "What pods get",
        "Judged by all API objects: in stories after every change, and after every round of faults.",
        PLACING,
    ),
    Chapter(
        "At rest",
        "Judged by all API objects once nothing is left to do: at each rest of a story, and at the end of a run with "
        "faults. `no-stale-figure` is judged on clusters of koord chaos, by what managers write after both were "
        "killed; amounts that follow usage are left out.",
        RESTING,
    ),
    Chapter(
        "Over time",
        "Judged during faults, by all requests of components on their way to the API server and a watch of pods.",
        HISTORY,
    ),
    Chapter(
        "Migrations",
        "Judged by PodMigrationJobs, pods and reservations, after every round of faults and at the end.",
        MOVING,
    ),
    Chapter(
        "Nodes",
        "Judged by the files of cgroups over time. Stories and faults do not reach cgroups: tests of the agent hold "
        "these promises on real kernels.",
        CGROUPS,
    ),
    Chapter(
        "Components",
        "Judged by probes after every fault, and by the process table after every round.",
        (*RECOVERY, *MEMORY),
    ),
)
