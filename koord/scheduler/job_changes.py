"""The smallest changes after which a job would fit that does not: each tried out on the state, and taken back.

a minimum of 5 instead of 8         as many as fit
a request of 3 cpu instead of 4     in each of its pods, the largest that fits
2 more nodes like n1                where pods like these would find room
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from koord.api.text.quantity import render
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.change import smaller
from koord.scheduler.framework.engine import Engine, Placement
from koord.scheduler.state.table import Row

MOST_NODES: Final = 64
MOST_SHAPES: Final = 3
MOST_HINTS: Final = 1024
_STEPS: Final = 8
"""How often a request is halved on the way to the largest that fits."""
_HOSTNAME: Final = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class JobChange:
    text: str
    size: float
    "Smaller comes first."


def changes_for(engine: Engine, asks: Sequence[Ask]) -> list[JobChange]:
    """For a job that does not fit, the smallest first."""
    placements = _tried(engine, asks)
    changes = [_fewer(engine, asks, placements[0].fit), _less(engine, asks, placements)]
    changes.append(_more_nodes(engine, asks, placements))
    return sorted((change for change in changes if change is not None), key=lambda change: change.size)


def _fewer(engine: Engine, asks: Sequence[Ask], fit: int) -> JobChange | None:
    """A lower minimum, for a job with one minimum if only `fit` pods can be placed."""
    needs = engine.needs(asks)
    if len(needs) != 1 or not 0 < fit < needs[0].at_least:
        return None
    least = needs[0].at_least
    return JobChange(f"a minimum of {fit} instead of {least}", 1 + (least - fit) / least)


def _less(engine: Engine, asks: Sequence[Ask], placements: Sequence[Placement]) -> JobChange | None:
    """A smaller request, of a job whose pods ask for the same and are short of one resource."""
    short = _short_of(placements)
    amounts = dict(asks[0].requests)
    if len(short) != 1 or short[0] not in amounts or any(ask.requests != asks[0].requests for ask in asks):
        return None
    name = short[0]
    asked, fits, low = amounts[name], 0, 0
    high = asked
    for _ in range(_STEPS):
        middle = _rounded(name, (low + high) // 2, asked)
        if not low < middle < high:
            break
        pods = [smaller(ask.pod, {name: middle}) for ask in asks]
        if all(pod is not None for pod in pods) and _goes(engine, [Ask(pod) for pod in pods if pod is not None]):
            fits = low = middle
        else:
            high = middle
    if not fits:
        return None
    text = f"a request of {render(name, fits)} {name} instead of {render(name, asked)} in each pod"
    return JobChange(text, 1 + (asked - fits) / asked)


def _rounded(name: str, amount: int, asked: int) -> int:
    """An amount that a person would write: tenths of cores, or sixteenths of what was asked for."""
    unit = 100 if name == "cpu" else max(1, asked // 16)
    return amount // unit * unit or amount


def _more_nodes(engine: Engine, asks: Sequence[Ask], placements: Sequence[Placement]) -> JobChange | None:
    """Nodes like one that there is."""
    without = [ask for ask, placement in zip(asks, placements, strict=True) if placement.why_not]
    if not without:
        return None
    cluster, seen = engine.cluster, set[Hashable]()
    best: JobChange | None = None
    class_ = engine.class_of(without[0])
    # Nodes that are feasible without any pod of the job on them, and nodes that nearly are.
    for row in (*class_.feasible_rows()[:MOST_NODES].tolist(), *class_.nearest(8 * MOST_SHAPES)):
        node = cluster.nodes[row]
        shape = tuple(sorted((name, str(amount)) for name, amount in node.status.allocatable.items()))
        if shape in seen or len(seen) >= MOST_SHAPES:
            continue
        seen.add(shape)
        with _clones(engine, row, 1) as (clone,):
            room = int(engine.room_for(without[0])[clone])
        number = -(-len(without) // room) if room > 0 else MOST_NODES + 1
        if number > MOST_NODES or (best is not None and number >= best.size):
            continue
        with _clones(engine, row, number):
            if _goes(engine, asks):
                nodes = "1 more node" if number == 1 else f"{number} more nodes"
                best = JobChange(f"{nodes} like {node.metadata.name}", float(number))
    return best


@contextmanager
def _clones(engine: Engine, row: Row, number: int) -> Iterator[list[Row]]:
    """`number` more empty nodes like that of a row, inside the block."""
    cluster, node = engine.cluster, engine.cluster.nodes[row]
    names = [f"{node.metadata.name}-like-{i}" for i in range(number)]
    names = [name for name in names if name not in cluster.table.row_of]
    labels = node.metadata.labels
    rows = []
    try:
        for name in names:
            own = {**labels, _HOSTNAME: name} if _HOSTNAME in labels else labels
            rows.append(cluster.put_node(replace(node, metadata=replace(node.metadata, name=name, labels=own))))
        yield rows
    finally:
        for name in names[: len(rows)]:
            cluster.remove_node(name)


def _tried(engine: Engine, asks: Sequence[Ask], at_least: int | None = None) -> list[Placement]:
    with engine.cluster.transaction() as trial:
        placements = engine.place_all(asks, at_least=at_least)
        trial.undo()
    return placements


def _goes(engine: Engine, asks: Sequence[Ask]) -> bool:
    return any(placement.node is not None for placement in _tried(engine, asks))


def _short_of(placements: Sequence[Placement]) -> list[str]:
    """The resources that nodes have too little of, where that is why members have no place."""
    reasons = next((placement.why_not.get("NodeResourcesFit", {}) for placement in placements if placement.why_not), {})
    return [reason.removeprefix("Insufficient ") for reason in reasons if reason.startswith("Insufficient ")]


class JobHints:
    """The smallest change as a sentence, for events: computed again only when what a job is short of changes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, tuple[str, str]] = {}

    def of(self, job: str, asks: Sequence[Ask], placements: Sequence[Placement]) -> str:
        """`job`: its key."""
        short_of = placements[0].short_of
        hint = self._known.get(job)
        if hint is not None and hint[0] == short_of:
            return hint[1]
        if len(self._known) >= MOST_HINTS:
            self._known.clear()
        smallest = _fewer(self._engine, asks, placements[0].fit)
        without = sum(1 for placement in placements if placement.why_not)
        if smallest is None or without <= self._most_on_a_node(asks[0]):
            # More than one node would be a larger change than a lower minimum, and costs time to try out.
            nodes = _more_nodes(self._engine, asks, placements)
            both = [change for change in (smallest, nodes) if change is not None]
            smallest = min(both, key=lambda change: change.size, default=None)
        sentence = "" if smallest is None else f"The smallest change: {smallest.text}."
        self._known[job] = short_of, sentence
        return sentence

    def _most_on_a_node(self, ask: Ask) -> int:
        """How many pods like this one the largest node could take if it were empty."""
        table = self._engine.cluster.table
        columns = [(table.columns.get(("allocatable", name)), amount) for name, amount in ask.requests if amount]
        most = [int(column.max()) // amount for column, amount in columns if column is not None]
        return min(most, default=1)
