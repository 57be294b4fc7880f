"""The fair share: what each of some sibling quotas may use of what their parent has, of one resource.

    request > least     the quota needs more than its guarantee: it gets the guarantee and a part of what is left
    request <= least    it gets its request, or the whole guarantee where it does not lend

What is left is split by weight. Whoever got more than its request gives the rest back, which is split again. A split
gives whole units by the largest remainder, of equals to the first by name, so that parts add up to what is split.
Splits that follow each other may all favour the same one; in the end, quotas that claim the same have the same, up to
one unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Claim(NamedTuple):
    """What one quota has to say in the sharing."""

    name: str
    request: int
    least: int
    "What it is guaranteed."
    weight: int
    lends: bool = True
    "Whether others may use what it does not request of its guarantee."


def shares(total: int, claims: Sequence[Claim]) -> list[int]:
    """What each may use, in the order of the claims. Guarantees count also where they are more than there is."""
    given = [claim.least if claim.request > claim.least or not claim.lends else claim.request for claim in claims]
    needy = [i for i, claim in enumerate(claims) if claim.request > claim.least and claim.weight > 0]
    rest = total - sum(given)
    while rest > 0 and needy:
        parts = split(rest, [(claims[i].weight, claims[i].name) for i in needy])
        rest, still = 0, []
        for i, part in zip(needy, parts, strict=True):
            given[i] += part
            spare = given[i] - claims[i].request
            if spare >= 0:
                given[i] -= spare
                rest += spare
            else:
                still.append(i)
        needy = still
    _level(given, claims)
    return given


def _level(given: list[int], claims: Sequence[Claim]) -> None:
    """Quotas that claim the same share what they got, where that differs by more than a unit."""
    alike: dict[tuple[int, int, int, bool], list[int]] = {}
    for i, claim in enumerate(claims):
        alike.setdefault(claim[1:], []).append(i)
    for equals in alike.values():
        if len(equals) < 2:
            continue
        got = [given[i] for i in equals]
        if max(got) - min(got) > 1:
            part, more = divmod(sum(got), len(equals))
            for rank, i in enumerate(sorted(equals, key=lambda index: claims[index].name)):
                given[i] = part + (rank < more)


def split(amount: int, heirs: Sequence[tuple[int, str]]) -> list[int]:
    """An amount in parts by weight: each heir is a weight above 0 and a name."""
    weights = sum(weight for weight, _ in heirs)
    parts, remainders = [], []
    for i, (weight, name) in enumerate(heirs):
        part, remainder = divmod(weight * amount, weights)
        parts.append(part)
        remainders.append((-remainder, name, i))
    left = amount - sum(parts)
    if left:
        remainders.sort()
        for _, _, i in remainders[:left]:
            parts[i] += 1
    return parts


def scaled(total: int, least: int, together: int) -> int:
    """What is left of a guarantee where all siblings' guarantees together are more than there is."""
    if together <= total:
        return least
    return total * least // together if total > 0 else 0
