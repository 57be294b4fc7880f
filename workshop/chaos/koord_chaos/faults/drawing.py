"""Which faults happen when: by a seed, so that a run can be repeated.

A round is a handful of faults that overlap. Each round has a generator of its own, so that round 12 is the same whether
the eleven before it ran or not.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from koord.api.machinery.faults import BadInput
from koord_chaos.faults.kinds import BY_NAME, FaultKind, Target

SPREAD_S: Final = 5.0
"""Faults of a round begin within this time."""


class Fault(msgspec.Struct, frozen=True):
    """One fault: it begins so long after its round does, and is healed `for_s` later."""

    kind: str
    target: str
    at_s: float = 0.0
    for_s: float = 0.0
    amount: float = 0.0

    def __str__(self) -> str:
        kind = BY_NAME[self.kind]
        amount = f" by {self.amount:g} {kind.unit}" if kind.unit else ""
        length = f" for {self.for_s:g} s" if self.for_s else ""
        return f"{self.kind} of {self.target}{amount}{length}, at {self.at_s:g} s"


Round = tuple[Fault, ...]


def draw(
    seed: int,
    number: int,
    kinds: Sequence[FaultKind],
    targets: Mapping[Target, Sequence[str]],
    at_most: int = 3,
    longest_s: float = 120.0,
) -> Round:
    """The faults of one round. No target has two faults at a time."""
    dice = random.Random(f"{seed}/{number}")
    possible = [kind for kind in kinds if targets.get(kind.target)]
    chosen: dict[str, Fault] = {}
    for _ in range(dice.randint(1, at_most)):
        kind = dice.choices(possible, [kind.weight for kind in possible])[0]
        target = dice.choice(targets[kind.target])
        # Most are short, and some take long.
        length_s = kind.shortest_s + (min(kind.longest_s, longest_s) - kind.shortest_s) * dice.random() ** 3
        amount = dice.uniform(*kind.amounts)
        fault = Fault(
            kind.name,
            target,
            round(dice.uniform(0, SPREAD_S), 2),
            round(max(0.0, length_s), 2),
            round(amount, 2),
        )
        chosen.setdefault(target, fault)
    return tuple(chosen.values())


def write(path: Path, rounds: Sequence[Round]) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(rounds), indent=1) + b"\n")


def read(path: Path) -> list[Round]:
    try:
        rounds = msgspec.json.decode(path.read_bytes(), type=list[Round])
    except msgspec.DecodeError as error:
        raise BadInput(f"{path}: not a list of rounds as koord chaos writes it: {error}") from None
    for number, faults in enumerate(rounds):
        for fault in faults:
            if fault.kind not in BY_NAME:
                raise BadInput(f"{path}: round {number}: kind {fault.kind!r} must be one of {', '.join(BY_NAME)}")
    return rounds


def check_targets(rounds: Sequence[Round], targets: Mapping[Target, Collection[str]]) -> None:
    """Raises BadInput if a fault names what this cluster does not have."""
    for number, faults in enumerate(rounds):
        for fault in faults:
            possible = targets.get(BY_NAME[fault.kind].target, ())
            if fault.target not in possible:
                can = ", ".join(possible) or "nothing here"
                raise BadInput(f"round {number}: {fault.kind} of {fault.target!r}: the target can be {can}")
