"""One promise to users, with the function that finds where it is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

E = TypeVar("E")
"""Evidence: what a kind of invariant reads, for example all objects of one moment, or the history of writes."""


@dataclass(frozen=True, slots=True)
class Invariant(Generic[E]):
    """`find` yields one sentence for each violation in the evidence."""

    name: str
    "A noun phrase in lower case with hyphens, as in `exclusive-cpus`."
    promise: str
    "What users can rely on, in one sentence."
    find: Callable[[E], Iterable[str]]


def violations(invariants: Iterable[Invariant[E]], evidence: E) -> Iterator[str]:
    """What is broken, each line with the name of its invariant."""
    for invariant in invariants:
        for violation in invariant.find(evidence):
            yield f"{invariant.name}: {violation}"
