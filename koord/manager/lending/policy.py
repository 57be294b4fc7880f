"""What a policy of batch resources says: which part of a node pods above batch take, and what else is held back.

    batch = capacity - margin - held - sum of count(pod) over pods above batch

`held` is what is reserved or, if that is more and the policy counts the system, what the system uses. A policy may
also bring a calculation of its own (`terms`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.manager.figures import Term
from koord.manager.node_state import Amounts, NodeState, PodRow, PodUsage

Resource: TypeAlias = Literal["cpu", "memory"]


class Count(NamedTuple):
    """What one pod takes from batch, and how much of that was measured: it wavers from one report to the next."""

    cpu_milli: int
    memory_bytes: int
    measured_cpu_milli: int = 0
    measured_memory_bytes: int = 0


class PodTotals(NamedTuple):
    """What all pods above batch take together, and how they were counted."""

    total: Amounts
    measured: Amounts
    "How much of the total was measured."
    pods_measured: int
    pods_unmeasured: int
    pods_gone: int
    "Pods that were measured but are not there."


Counts: TypeAlias = Callable[[PodRow, PodUsage | None], Count]


@dataclass(frozen=True, slots=True)
class Policy:
    name: str
    "As settings name it."
    count: Counts
    "What a pod above batch takes; its usage is None before its first report."
    count_in_zone: Counts
    "The same where a NUMA zone is calculated."
    counts_gone: bool
    "Whether usage that was reported of a pod which is not there counts."
    counts_system: bool
    "Whether what the system uses is held back where it is more than what is reserved."
    summary: Callable[[PodTotals], str]
    "How the pods were counted, for people."
    remark: Callable[[PodRow, PodUsage | None, Resource], str]
    "What to know about one pod's count of a resource, for people; may be empty."
    terms: Callable[[Resource, NodeState, ColocationStrategy, tuple[Term, ...]], tuple[Term, ...]] | None = None
    """The whole calculation, where it is not by what pods above batch take. It gets the terms that those would come to,
    for a node that does not report what it needs."""


def pods_above_batch(number: int) -> str:
    return "1 pod above batch" if number == 1 else f"{number} pods above batch"


def gone(taken: PodTotals) -> str:
    """The end of a sentence on what pods use."""
    return f"; used by {taken.pods_gone} measured before it went" if taken.pods_gone else ""
