"""Rows that no other row can overtake: where a plugin outweighs all others, and speaks for few rows.

A reservation's owners score the rows of its room 5,000 times as high as anything else. Of all other rows it is enough
to know that together the other plugins give a row no more than `most_of_others`: then the changes that other pods make
there need not be judged at all, until no row with a room will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from koord.scheduler.framework.facet import Facet, OfFewRows
from koord.scheduler.framework.groups import TIE_BITS
from koord.scheduler.framework.verdicts import Part
from koord.scheduler.state.table import Array

HIGHEST: Final = 100
"""The most that a plugin scores a row, before its weight."""


@dataclass(frozen=True, slots=True)
class Lead:
    """The facet that leads, and by how much."""

    facet: OfFewRows
    most_of_others: int
    "The highest total of a row that scores 0 with it."

    def winner(self, totals: Array, *, at_odds: bool) -> int | None:
        """Which of the leading rows is the best of all rows, by their totals; None where that is not certain.
        `at_odds`: the others' scores are of a time when rows that do not lead looked otherwise."""
        best = int(totals.argmax())
        total: int = totals.item(best)
        if total <= self.most_of_others:
            return None
        if at_odds and np.count_nonzero(totals >= total - 2 * self.most_of_others) > 1:
            return None
        return best


def lead_of(facets: Sequence[tuple[Part, Facet]], parts: Sequence[Part]) -> Lead | None:
    """The facet that may lead in a class, if any: one point of its score is worth more than all others give."""
    for part, facet in facets:
        if isinstance(facet, OfFewRows) and len(part.judge.facets) == 1 and not part.judge.scores_on:
            others = sum(other.weight for other in parts if other is not part)
            most = (HIGHEST * others + 1) << TIE_BITS
            return Lead(facet, most) if part.weight << TIE_BITS > most else None
    return None
