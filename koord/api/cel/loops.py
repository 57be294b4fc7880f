"""Loops over lists and maps: `all`, `exists`, `exists_one`, and those that make a list or a map.

What a round costs beside its own expressions are the steps of cel-go's loop: looking at the result so far, and adding
to it. A loop stops as soon as its cost passes the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from koord.api.cel.calls import FAULTS, Frame, Run
from koord.api.cel.standard import text_of
from koord.api.cel.syntax import CelError, CostExceeded
from koord.api.cel.values import elements, pairs

Rounds = Callable[[Frame], Iterator[None]]
Piece = tuple[Run, int, bool]
"""An expression of a round: its function, its cost, whether it is a constant."""

_LIST_ROUND: Final = 2
"Looking at the list so far, and adding to it."


def rounds(source: Run, slots: Sequence[int]) -> Rounds:
    """Goes through a range with one variable (items, or keys) or two (and values)."""
    first = slots[0]

    def single(frame: Frame) -> Iterator[None]:
        for item in elements(source(frame)):
            frame[first] = item
            if frame[0] > frame[1]:
                raise CostExceeded
            yield

    if len(slots) == 1:
        return single
    second = slots[1]

    def double(frame: Frame) -> Iterator[None]:
        for key, item in pairs(source(frame)):
            frame[first], frame[second] = key, item
            if frame[0] > frame[1]:
                raise CostExceeded
            yield

    return double


def loop(kind: str, rounds_of: Rounds, made: Sequence[Piece], only_if: tuple[Run, int] | None) -> Run:
    match kind:
        case "all":
            return _quantified(rounds_of, made[0], stops_at=False, look=2)
        case "exists":
            return _quantified(rounds_of, made[0], stops_at=True, look=3)
        case "one":
            return _one(rounds_of, made[0])
        case "list":
            return _collected(rounds_of, made[0], only_if)
    return _inserted(rounds_of, made, only_if)


def _quantified(rounds_of: Rounds, piece: Piece, *, stops_at: bool, look: int) -> Run:
    """Errors do not count if another round decides."""
    holds, cost, _ = piece
    cost += look + 1

    def run(frame: Frame) -> bool:
        fault: Exception | None = None
        decided = False
        for _ in rounds_of(frame):
            if decided:
                frame[0] += look
                break
            frame[0] += cost
            try:
                value = holds(frame)
            except CostExceeded:
                raise
            except FAULTS as error:
                fault = fault or error
                continue
            if value is stops_at:
                decided = True
            elif value is not (not stops_at):
                fault = fault or CelError("no such overload")
        if decided:
            return stops_at
        if fault is not None:
            raise fault
        return not stops_at

    return run


def _one(rounds_of: Rounds, piece: Piece) -> Run:
    holds, cost, _ = piece

    def run(frame: Frame) -> bool:
        count = 0
        for _ in rounds_of(frame):
            frame[0] += cost
            if _is_true(holds(frame)):
                frame[0] += 2
                count += 1
        return count == 1

    return run


def _is_true(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise CelError("no such overload")


def _collected(rounds_of: Rounds, piece: Piece, only_if: tuple[Run, int] | None) -> Run:
    make, cost, is_constant = piece
    cost += _LIST_ROUND + (0 if is_constant else 10)

    def run(frame: Frame) -> list[Any]:
        items = []
        for _ in rounds_of(frame):
            if only_if is not None:
                frame[0] += only_if[1]
                if not _is_true(only_if[0](frame)):
                    continue
            frame[0] += cost
            items.append(make(frame))
        return items

    return run


def _inserted(rounds_of: Rounds, made: Sequence[Piece], only_if: tuple[Run, int] | None) -> Run:
    """Entries by key and value, or from maps."""
    cost = sum(piece[1] for piece in made) + _LIST_ROUND

    def run(frame: Frame) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for _ in rounds_of(frame):
            if only_if is not None:
                frame[0] += only_if[1]
                if not _is_true(only_if[0](frame)):
                    continue
            frame[0] += cost
            values = [piece[0](frame) for piece in made]
            new = {values[0]: values[1]} if len(values) == 2 else values[0]
            for key in new:
                if key in result:
                    raise CelError(f"insert failed: key {text_of(key)} already exists")
            result.update(new)
        return result

    return run
