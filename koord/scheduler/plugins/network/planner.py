"""Plans a job in the network as a whole, before any of its pods is placed: what nodes offer, and who goes where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from koord.api.protocol.annotations.gang import (
    NETWORK_TOPOLOGY_INDEX,
    NETWORK_TOPOLOGY_SELECTOR,
    NetworkTopologySpec,
)
from koord.api.protocol.annotations.value import AnnotationError
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.plugins.gangs import Gangs
from koord.scheduler.plugins.network.gather import Offers, gathered, lowest_must, offers_of
from koord.scheduler.plugins.network.network import Network
from koord.scheduler.plugins.network.tree import Tree
from koord.scheduler.state.table import Array, Row


@dataclass(frozen=True, slots=True)
class Domains:
    """What each domain of the tree could take of a job."""

    tree: Tree
    offers: Offers


def wish_of(gangs: Gangs, asks: Sequence[Ask]) -> NetworkTopologySpec | None:
    """What the gangs of a job say of the network; the first that says anything counts."""
    for id_ in gangs.among(asks):
        settings = gangs.all[id_].settings
        wish = None if settings is None else settings.network_topology
        if wish is not None and wish.gather_strategy:
            return wish
    return None


class Planner:
    """For one job that says where in the network it wants to be."""

    def __init__(self, asks: Sequence[Ask], wish: NetworkTopologySpec, engine: Engine) -> None:
        self._asks, self._wish, self._engine = asks, wish, engine
        self._cluster, self._gangs = engine.cluster, engine.cluster.notes(Gangs)
        self._network = engine.cluster.notes(Network)

    def rows(self) -> list[Row | None] | str:
        """Where its pods go: all of them, or as many as it needs; or why that is nowhere."""
        rows = self._plan(range(len(self._asks)))
        least = [i for need in self._engine.needs(self._asks) for i in need.members[: need.at_least]]
        if isinstance(rows, str) and least and len(least) < len(self._asks):
            rows = self._plan(least)
        return rows

    def domains(self) -> Domains | str:
        """What each domain could take of all of its pods."""
        tree = self._network.tree()
        if isinstance(tree, str):
            return tree
        return Domains(tree, self._offers(tree, self._in_order(range(len(self._asks)))))

    def fields(self) -> list[list[Row]]:
        """Where room could be made: the rows of each domain that the gang may be in, domains first that could take most
        of it already."""
        domains = self.domains()
        if isinstance(domains, str):
            return []
        tree, offers = domains.tree, domains.offers
        level = lowest_must(tree, self._wish)
        domain = tree.ancestors(level)
        fields: dict[int, list[Row]] = {}
        for i, row in enumerate(self._network.rows.tolist()):
            fields.setdefault(int(domain[i]), []).append(row)
        names, offer = tree.levels[level].names, offers.offer[level]
        return [fields[domain] for domain in sorted(fields, key=lambda domain: (-int(offer[domain]), names[domain]))]

    def _plan(self, which: Iterable[int]) -> list[Row | None] | str:
        tree = self._network.tree()
        if isinstance(tree, str):
            return tree
        members = self._in_order(which)
        places = gathered(tree, self._wish, len(members), self._offers(tree, members))
        if isinstance(places, str):
            return places
        of_node = self._network.rows
        rows = [int(of_node[node]) for node, number in places for _ in range(number)]
        row_of_ask: list[Row | None] = [None] * len(self._asks)
        for i, row in zip(members, rows, strict=True):
            row_of_ask[i] = row
        return row_of_ask

    def _in_order(self, which: Iterable[int]) -> list[int]:
        """Those first that have an index, by it; then by name."""

        def rank(i: int) -> tuple[bool, int, str]:
            try:
                index = NETWORK_TOPOLOGY_INDEX.read(self._asks[i].meta)
            except AnnotationError:
                index = -1
            return index < 0, index, self._asks[i].meta.name

        return sorted(which, key=rank)

    def _offers(self, tree: Tree, members: Sequence[int]) -> Offers:
        asks = [self._asks[i] for i in members]
        rows = self._network.rows
        offer = self._where_the_others_are(tree, self._room(asks, rows), rows)
        exist = self._network.near_to(NETWORK_TOPOLOGY_SELECTOR.read(asks[0].meta))
        score = self._engine.class_of(asks[0]).points()[rows]
        return offers_of(tree, self._wish, len(asks), offer, exist, score)

    def _room(self, asks: Sequence[Ask], rows: Array) -> Array:
        """How many members each row takes, in their order."""
        engine = self._engine
        class_ = engine.class_of(asks[0])
        if all(engine.class_of(ask) is class_ and ask.shape.gains == asks[0].shape.gains for ask in asks):
            gains = class_.gains(asks[0])
            room = None if gains is None else class_.room(gains)
            if room is not None:
                return np.minimum(room[rows], len(asks))
        will_do = set(class_.feasible_rows().tolist())
        return np.array([self._tried(asks, row) if row in will_do else 0 for row in rows.tolist()], np.int64)

    def _tried(self, asks: Sequence[Ask], row: Row) -> int:
        number = 0
        with self._cluster.transaction() as trial:
            while number < len(asks) and self._engine.place_on(asks[number], row).node is not None:
                number += 1
            trial.undo()
        return number

    def _where_the_others_are(self, tree: Tree, offer: Array, rows: Array) -> Array:
        """If pods of a gang that must be gathered are already placed, the others go to the same domain."""
        level = lowest_must(tree, self._wish)
        asked = {ask.key for ask in self._asks}
        placed = {key for id_ in self._gangs.among(self._asks) for key in self._gangs.all[id_].placed} - asked
        held = {self._cluster.pods[key][1] for key in placed if key in self._cluster.pods}
        if not level or not held:
            return offer
        domain = tree.ancestors(level)
        theirs = {int(domain[i]) for i, row in enumerate(rows.tolist()) if row in held}
        return offer * np.isin(domain, list(theirs))


def drawn(domains: Domains, most: int = 40) -> list[str]:
    """The tree as text, each domain with what it could take; nodes in a line with theirs."""
    tree, offers = domains.tree, domains.offers
    lines: list[str] = []

    def draw(level: int, number: int, indent: str) -> None:
        of = tree.levels[level]
        label = "the cluster" if level == 0 else f"{of.layer} {of.names[number]}"
        lines.append(f"{indent}{label}: {int(offers.offer[level][number])}")
        below = np.flatnonzero(tree.levels[level + 1].parent == number).tolist()
        if level + 2 == len(tree.levels):
            names, offer = tree.levels[level + 1].names, offers.offer[level + 1]
            offered = [f"{names[domain]} {int(offer[domain])}" for domain in below[:8]]
            lines.append(f"{indent}  {', '.join(offered)}" + (f" and {len(below) - 8} more" if len(below) > 8 else ""))
            return
        for domain in below:
            draw(level + 1, domain, f"{indent}  ")

    draw(0, 0, "")
    if len(lines) > most:
        lines = [*lines[:most], f"and {len(lines) - most} more lines"]
    if tree.outside:
        lines.append(f"outside of the tree: {', '.join(tree.outside[:8])}")
    return lines
