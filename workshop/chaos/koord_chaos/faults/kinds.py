"""Every kind of fault: what it does, which components it can hit, and how long it lasts.

A literal list: a new kind is one more row, and one more injector in `live.injectors`. The drawing picks kinds by
weight, targets among the components that the row allows, and a duration within its bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Target(StrEnum):
    """Where a kind of fault can happen."""

    PROCESS = "any component"
    CLIENT = "the way of one component to the API server"
    SERVER = "the API server"
    LEADER = "a component that leads by a lease"
    NODE = "a node"


class Scope(StrEnum):
    """On which clusters a kind can happen."""

    OWN = "a cluster that koord chaos starts"
    LOCAL = "also a running koord up"
    ANY = "also any cluster, through its kubeconfig"


@dataclass(frozen=True, slots=True)
class FaultKind:
    name: str
    does: str
    target: Target
    scope: Scope = Scope.OWN
    shortest_s: float = 0.0
    longest_s: float = 0.0
    "Zero for a fault that is over at once."
    amounts: tuple[float, float] = (0.0, 0.0)
    unit: str = ""
    weight: int = 4


KINDS: Final[tuple[FaultKind, ...]] = (
    FaultKind("kill", "SIGKILL", Target.PROCESS, Scope.ANY, weight=16),
    FaultKind("pause", "SIGSTOP, then SIGCONT", Target.PROCESS, Scope.LOCAL, 1, 120, weight=8),
    FaultKind(
        "memory", "may use little more memory than now", Target.PROCESS, Scope.LOCAL, 5, 20, (2, 16), "MiB", weight=2
    ),
    FaultKind("clock", "its clock jumps, and back", Target.PROCESS, Scope.OWN, 1, 15, (-86400, 86400), "s", weight=6),
    FaultKind("upgrade", "restarts in another version, and back", Target.PROCESS, Scope.OWN, 3, 15, weight=4),
    FaultKind("disk-full", "its disk has no byte left", Target.SERVER, Scope.OWN, 2, 15, weight=3),
    FaultKind("disk-slow", "each sync takes long", Target.SERVER, Scope.OWN, 5, 20, (0.05, 2), "s", weight=2),
    FaultKind("partition", "no byte passes, in either direction", Target.CLIENT, Scope.OWN, 1, 60, weight=12),
    FaultKind("refused", "connections are refused", Target.CLIENT, Scope.OWN, 1, 30),
    FaultKind("slow", "each answer and event takes longer", Target.CLIENT, Scope.OWN, 5, 30, (0.1, 5), "s"),
    FaultKind("too-many", "requests are answered 429", Target.CLIENT, Scope.OWN, 2, 30, (0.2, 1), "share"),
    FaultKind("broken", "requests are answered 500", Target.CLIENT, Scope.OWN, 2, 30, (0.2, 1), "share"),
    FaultKind("lost-answers", "answers to writes are lost", Target.CLIENT, Scope.OWN, 2, 20, (0.2, 1), "share"),
    FaultKind("silent-watches", "watches stay open and say nothing", Target.CLIENT, Scope.OWN, 2, 30),
    FaultKind("gone", "watches end with 410 Gone", Target.CLIENT, Scope.OWN, 1, 10),
    FaultKind("pages", "pages of lists expire", Target.CLIENT, Scope.OWN, 2, 15),
    FaultKind("duplicated", "each event comes twice", Target.CLIENT, Scope.OWN, 5, 30),
    FaultKind("reordered", "events of different objects change places", Target.CLIENT, Scope.OWN, 5, 30),
    FaultKind("certificate", "the server shows an expired certificate", Target.CLIENT, Scope.OWN, 2, 30),
    FaultKind("lease", "another takes the lease in the middle of a write", Target.LEADER, Scope.ANY, 1, 10),
    FaultKind("silent-node", "a node stops reporting", Target.NODE, Scope.LOCAL, 5, 90),
    FaultKind("lying-node", "a node reports impossible usage", Target.NODE, Scope.ANY, 5, 20),
)  # fmt: skip
BY_NAME: Final = {kind.name: kind for kind in KINDS}
