"""Facets: what a judge says of rows that depends on other rows. Rows are in groups, and each group is worth something.

Domains, and scores normalised over the candidates, are facets. `Gate` rules groups out; the other classes here are
promises of a facet that let the framework look at less.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from koord.scheduler.state.table import Array, Changes, Row


class Facet(Protocol):
    """A part of a verdict or score that is the same for all rows of a group, and changes for whole groups at once.

    Groups are small integers per row (a zone; a number of pods on the node and its zone; a raw score). What a group is
    worth may depend on how many candidates each group has, which is how scores are normalised.
    """

    gates: bool
    "Whether it rules rows out, or scores them."
    normalised: bool
    "Whether its table depends on the candidates."

    @property
    def flat(self) -> bool:
        """Whether all rows are worth the same to it, so that it cannot decide anything. May change, but seldom."""
        ...

    @property
    def closes(self) -> bool:
        """Whether it rules out any group now."""
        ...

    def refresh(self, changed: Changes | None) -> bool:
        """Catch up with the state; None: with everything. True if anything about it changed."""
        ...

    @property
    def groups(self) -> Array:
        """The group of every row. Another array means that all groups may have new numbers; while it is the same one,
        only rows that the table logged as changed are in another group than before."""
        ...

    @property
    def size(self) -> int:
        """How many groups there are."""
        ...

    def table(self, candidates: Array | None) -> Array:
        """What each group is worth, 0..100; of a gate, whether it rules the group out. `candidates` counts the rows
        that are still in question, by group."""
        ...


class Gate(ABC):
    """A facet that rules groups out."""

    gates = True

    @abstractmethod
    def reason(self, group: int) -> str:
        """The words for a group that it rules out."""

    @abstractmethod
    def unresolvable(self, group: int) -> bool:
        """Whether no preemption could change what it says of a group."""


class KeepsGroups(ABC):
    """A facet that scores, and keeps the group of every row itself: one group alone decides nothing."""

    gates = closes = False
    _groups: Array

    @property
    def groups(self) -> Array:
        return self._groups

    @property
    def flat(self) -> bool:
        return self.size < 2

    @property
    @abstractmethod
    def size(self) -> int: ...


class OfNodes:
    """A facet about nodes alone: no pod that comes or goes changes a row's group, nor what groups are worth unless that
    is normalised."""


class FewGroups:
    """A facet that can also do without arrays, which is faster where few groups are in question."""

    def few(self, groups: list[int], candidates: int) -> list[int] | None:
        """What these groups are worth, as `table` says; they are all that have candidates, `candidates` of them
        together. While the groups are the same, so is the list. None: it takes a table."""
        return None

    def open(self, groups: list[int]) -> list[int]:
        """Of a gate: those of some groups that it does not rule out."""
        raise NotImplementedError(type(self).__name__)


class OfFewRows:
    """A facet that scores all rows 0 but a few, which it knows. Where its weight is so high that no score of others
    makes up for it, the best row is among those: no other row need be judged."""

    def rows(self) -> Array:
        """The rows that may score more, after `refresh`. A row that comes into it, or leaves it, is one that the table
        logged as changed."""
        raise NotImplementedError(type(self).__name__)

    def moved(self, changed: Changes) -> list[Row]:
        """Of rows that changed, those that are among them, or were."""
        raise NotImplementedError(type(self).__name__)
