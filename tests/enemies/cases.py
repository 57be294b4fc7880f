"""Enemies: an honest object of the bad pool with an enemy value in one place. Many of them live in one world."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from hypothesis import strategies as st

from koord.api import kinds
from koord.api.kinds import Kind
from tests.enemies.honest import Manifest, Thing, filled, node, read, renamed, world
from tests.enemies.values import Path, places, put

OF_NODES: Final = (
    kinds.NODE_METRICS,
    kinds.DEVICES,
    kinds.NODE_RESOURCE_TOPOLOGIES,
    kinds.NODE_SLOS,
    kinds.CSI_NODES,
)
"""Kinds whose objects have the names of nodes."""


@dataclass(frozen=True, slots=True)
class Enemy:
    kind: Kind[Any]
    name: str
    "Of the honest object."
    path: Path
    value: Any
    filled: bool = False
    "Whether all other fields are there, too."

    def __str__(self) -> str:
        where = ".".join(map(str, self.path))
        return f"{self.kind.kind} {self.name}{' (filled)' if self.filled else ''}: {where} = {self.value!r:.120}"

    def manifest(self) -> Manifest:
        return put(base(self.kind, self.name, self.filled), self.path, self.value)  # type: ignore[no-any-return] # plain data

    def made(self, number: int) -> Iterator[Thing]:
        """The enemy, with a name of its own, and the node that it is about."""
        manifest = self.manifest()
        if self.kind is not kinds.CLUSTER_NETWORK_TOPOLOGIES:
            manifest = renamed(manifest, number)
        if self.kind in OF_NODES:
            yield from read(kinds.NODES, node(manifest["metadata"]["name"], "bad"))
        yield from read(self.kind, manifest)


@cache
def base(kind: Kind[Any], name: str, is_filled: bool) -> Manifest:
    found = next(each for of, each in world("bad") if of is kind and each["metadata"]["name"] == name)
    return filled(kind, found) if is_filled else found


def army(enemies: Iterable[Enemy]) -> list[Thing]:
    return [thing for number, enemy in enumerate(enemies) for thing in enemy.made(number)]


def all_enemies(among: Collection[Kind[Any]]) -> Iterator[Enemy]:
    for kind, manifest in world("bad"):
        if kind in among:
            for place in places(kind):
                for value in place.values:
                    for is_filled in (False, True):
                        yield Enemy(kind, manifest["metadata"]["name"], place.path, value, is_filled)


def enemies(among: Collection[Kind[Any]], at_most: int) -> st.SearchStrategy[Sequence[Enemy]]:
    """A crowd of enemies of some kinds, all kinds as often as each other."""

    @st.composite
    def one(draw: st.DrawFn) -> Enemy:
        by_kind: dict[Kind[Any], list[str]] = {}
        for kind, manifest in world("bad"):
            if kind in among:
                by_kind.setdefault(kind, []).append(manifest["metadata"]["name"])
        kind = draw(st.sampled_from(list(by_kind)))
        place = draw(st.sampled_from(places(kind)))
        value = place.values[draw(st.integers(0, len(place.values) - 1))]
        return Enemy(kind, draw(st.sampled_from(by_kind[kind])), place.path, value, draw(st.booleans()))

    return st.lists(one(), min_size=at_most // 2, max_size=at_most)
