"""Which nodes a gang gets, by what each can offer: a pure function of the tree and of numbers for every node.

    offer   how many members the node takes              exist   pods there that the gang wants to be near
    score   how well it suits them

The search goes as deep as one domain takes all members: the fuller that domain will be, the better for those to come.
In it, members are handed out to the domains that offer most, down to the nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from koord.api.protocol.annotations.gang import NetworkTopologySpec
from koord.scheduler.plugins.network.tree import Tree, named
from koord.scheduler.state.table import Array


@dataclass(frozen=True, slots=True)
class Offers:
    """By level of the tree, numbers of every domain."""

    offer: list[Array]
    exist: list[Array]
    score: list[Array]


def offers_of(tree: Tree, wish: NetworkTopologySpec, number: int, offer: Array, exist: Array, score: Array) -> Offers:
    """All numbers added up. Where a layer wants multiples of a number, what a domain of it offers is rounded down."""
    multiples = _multiples(wish)
    if not multiples:
        return Offers(tree.summed(np.minimum(offer, number)), tree.summed(exist), tree.summed(score))
    levels = tree.levels
    offers = [_rounded(np.minimum(offer, number), multiples.get(levels[-1].layer, 1))]
    for i in range(len(levels) - 1, 0, -1):
        above = np.bincount(levels[i].parent, offers[0], len(levels[i - 1].names)).astype(np.int64)
        offers.insert(0, _rounded(above, multiples.get(levels[i - 1].layer, 1)))
    return Offers(offers, tree.summed(exist), tree.summed(score))


def gathered(tree: Tree, wish: NetworkTopologySpec, number: int, offers: Offers) -> list[tuple[int, int]] | str:
    """Nodes, by their numbers in the tree, and how many members each gets; or why the members do not fit."""
    unknown = [rule.layer for rule in wish.gather_strategy if tree.level_of(rule.layer) is None]
    if unknown:
        return f"the network has no layer {unknown[0]}, which the gang asks for"
    start = lowest_must(tree, wish)
    kept = np.flatnonzero(offers.offer[start] >= number)
    if not len(kept):
        level = tree.levels[start]
        there = named(zip(level.names, offers.offer[start].tolist(), strict=True))
        return f"no domain of {level.layer} takes all {number} pods; what each could take: {there}"
    at = start
    while at + 1 < len(tree.levels):
        below = np.flatnonzero(np.isin(tree.levels[at + 1].parent, kept) & (offers.offer[at + 1] >= number))
        if not len(below):
            break
        at, kept = at + 1, below
    multiples = _multiples(wish)
    ranked = sorted(kept.tolist(), key=lambda domain: _rank(tree, offers, at, domain, fullest=True))
    for domain in ranked:
        handed_out: list[tuple[int, int]] = []
        if _hand_out(tree, offers, multiples, at, domain, number, handed_out) == number:
            return handed_out
    return f"{number} pods cannot be handed out in the multiples that the gang asks for"


def lowest_must(tree: Tree, wish: NetworkTopologySpec) -> int:
    """The lowest level where a gang must be within one domain; 0 if it may be anywhere."""
    levels = [tree.level_of(rule.layer) for rule in wish.gather_strategy if rule.strategy == "MustGather"]
    return max((level for level in levels if level is not None), default=0)


def _multiples(wish: NetworkTopologySpec) -> Mapping[str, int]:
    return {rule.layer: rule.pod_count_multiple for rule in wish.gather_strategy if rule.pod_count_multiple > 1}


def _rounded(offer: Array, multiple: int) -> Array:
    return offer if multiple <= 1 else offer // multiple * multiple


def _rank(tree: Tree, offers: Offers, level: int, domain: int, *, fullest: bool) -> tuple[object, ...]:
    """Sorts the best first: near existing pods, in the domain and above it; then by what is offered (`fullest`: the
    least first); then by score and name."""
    exist, offer, at, above = [], [], level, domain
    while at >= 0:
        exist.append(-int(offers.exist[at][above]))
        offer.append(int(offers.offer[at][above]) * (1 if fullest else -1))
        above, at = int(tree.levels[at].parent[above]), at - 1
    return tuple(exist), tuple(offer), -int(offers.score[level][domain]), tree.levels[level].names[domain]


def _hand_out(
    tree: Tree,
    offers: Offers,
    multiples: Mapping[str, int],
    level: int,
    domain: int,
    wanted: int,
    to: list[tuple[int, int]],
) -> int:
    """Give members to the nodes of a domain; how many it took."""
    takes = min(wanted, int(offers.offer[level][domain]))
    takes -= takes % max(1, multiples.get(tree.levels[level].layer, 1))
    if level == len(tree.levels) - 1:
        if takes:
            to.append((domain, takes))
        return takes
    below = np.flatnonzero((tree.levels[level + 1].parent == domain) & (offers.offer[level + 1] > 0)).tolist()
    given = 0
    for domain in sorted(below, key=lambda one: _rank(tree, offers, level + 1, one, fullest=False)):
        if given >= takes:
            break
        given += _hand_out(tree, offers, multiples, level + 1, domain, takes - given, to)
    return given
