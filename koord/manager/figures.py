"""A figure and how it came about: formulas return named terms, so that the explanation is the calculation.

A figure's amount is its terms applied one after the other:  start 64000, minus 25600, minus 2500, minus 9200 = 26700.
There is no second code that explains: what is shown is what was computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, TypeAlias

from koord.api.machinery.struct import Struct

Op: TypeAlias = Literal["start", "minus", "plus", "atMost", "atLeast", "becomes"]


class Term(Struct):
    """One step. `amount` is in the figure's unit: milli-cores of cpu, bytes of memory, percent or bytes of devices."""

    op: Op
    name: str
    "A word for programs: capacity, safetyMargin, system, pods, ..."
    amount: int
    why: str = ""
    "For people: the numbers that it was made of, and the settings that say so."
    measured: int = 0
    "How much of the amount was measured: it goes up and down from one report to the next."


class Figure(Struct):
    """What one resource comes to."""

    resource: str
    amount: int
    terms: tuple[Term, ...]
    policy: str = ""


def total(terms: Iterable[Term]) -> int:
    """What the terms come to."""
    amount = 0
    for term in terms:
        match term.op:
            case "start" | "becomes":
                amount = term.amount
            case "minus":
                amount -= term.amount
            case "plus":
                amount += term.amount
            case "atMost":
                amount = min(amount, term.amount)
            case "atLeast":
                amount = max(amount, term.amount)
    return amount


REQUESTS: Final = "requests"
"""The term that adds the requests of running batch pods to the room beside them."""


def room(of: Figure) -> int | None:
    """What a figure has beyond the requests of running pods; None for one that is not made of requests."""
    for place, term in enumerate(of.terms):
        if term.name == REQUESTS and term.op == "plus":
            return total(of.terms[:place])
    return None


class Parts(NamedTuple):
    """What a figure is made of, before it is cut to its limits."""

    firm: int
    "Capacity, settings and requests, which do not vary from report to report."
    measured: int
    "The measured amounts that are subtracted."


def parts(of: Figure) -> Parts:
    """A figure's firm and its measured part, in the unit in which it is shown."""
    firm = measured = amount = 0
    for term in of.terms:
        match term.op:
            case "start":
                firm = amount = term.amount
            case "becomes":
                # Both parts are scaled by what the amount is scaled by; an amount of nothing has no scale.
                if amount:
                    firm, measured = firm * term.amount // amount, measured * term.amount // amount
                amount = term.amount
            case "minus":
                firm -= term.amount - term.measured
                measured += term.measured
                amount -= term.amount
            case "plus":
                firm += term.amount
                amount += term.amount
            case "atMost":
                amount = min(amount, term.amount)
            case "atLeast":
                amount = max(amount, term.amount)
    return Parts(firm, measured)


def figure(resource: str, terms: Iterable[Term], policy: str = "") -> Figure:
    steps = tuple(terms)
    return Figure(resource, total(steps), steps, policy)


def continued(earlier: Figure, *more: Term) -> Figure:
    """The same figure after further steps."""
    return figure(earlier.resource, (*earlier.terms, *more), earlier.policy)


def scaled(amount: int, factor: float) -> int:
    """amount * factor, cut off, as every reader of the protocol computes it."""
    return int(amount * factor)


def of_percent(amount: int, percent: int) -> int:
    return scaled(amount, percent / 100)
