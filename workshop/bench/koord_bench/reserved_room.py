"""What does it cost a pod to see room as free that is taken for others?

On many nodes a stand-in holds room for owners: CPU, memory, a port, and a place in the spreading of its app. Pods of
the owners have a view of it; what one of them takes is the owners' no more. The same pods are decided for on an equal
cluster without being owners, in turns, so that both meet the same machine.
"""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable, Hashable
from typing import Any, Final

from msgspec.structs import replace

from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.framework.stand_ins import StandIns
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Row
from koord.scheduler.state.view import View
from koord_bench.harness import Report, turns, undisturbed

GOALS: Final = {5_000: 2.0}
"""Times the cost without a view, by number of nodes."""
OWNER: Final = "example.com/owner"
TURN: Final = 250
MakesPod = Callable[..., dict[str, Any]]


class Rooms(Notes):
    """The rooms, and what owners have taken of them: that is not requested twice."""

    name = "ReservedRoom"
    from_pod = False

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.view = View(cluster)
        self.left: dict[Row, dict[Hashable, int]] = {}

    def hold(self, stand_in: PodRecord, row: Row) -> None:
        self.cluster.place(stand_in, row)
        self.view.hide(stand_in, row)
        for column, amount in stand_in.shape.gains:
            self.view.add(column, row, -amount)
        self.left[row] = dict(stand_in.shape.gains)

    def moved(self, note: object, record: PodRecord, row: Row, sign: int) -> None:
        assert isinstance(note, tuple)
        for column, amount in note:
            self.left[row][column] -= sign * amount
            self.view.add(column, row, sign * amount)
            self.cluster.table.add(column, row, -sign * amount)


class _Views(StandIns):
    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    def view(self, ask: Ask) -> View | None:
        return self._rooms.view if OWNER in ask.meta.labels else None


class ReservedRoom(Plugin):
    name = "ReservedRoom"
    notes: type[Notes] | None = Rooms

    def attach(self, cluster: Cluster) -> None:
        self.rooms = cluster.notes(Rooms)
        self.stand_ins = _Views(self.rooms)

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        return ask.meta.labels.get(OWNER)

    def reserve(self, ask: Ask, row: Row, cluster: Cluster, checked: object) -> object:
        left = self.rooms.left.get(row)
        if left is None or OWNER not in ask.meta.labels:
            return None
        return tuple([(column, min(left.get(column, 0), amount)) for column, amount in ask.shape.gains])


def add_rows(
    report: Report, make: Callable[[], Engine], pod: MakesPod, workloads: dict[str, list[dict[str, Any]]]
) -> None:
    """`make` gives equal clusters; two of five of their nodes get a stand-in. Workloads are pods, by name."""
    for name, pods in workloads.items():
        asks = [Ask(convert(Pod, raw)) for raw in pods]
        owners = [Ask(convert(Pod, _owned(raw))) for raw in pods]
        with_view, without = _with_rooms(make(), pod), _with_rooms(make(), pod)
        nodes = len(without.cluster.table)
        with_s, without_s = measure([(with_view, owners), (without, asks)])
        case, counted = report.case(f"(i) owners of room, {name}, {nodes} nodes"), len(pods) - TURN
        case.add("decided", counted / with_s, "pods/s", more_is_better=True)
        case.add("decided, no owners", counted / without_s, "pods/s", more_is_better=True)
        case.add("cost of a view", with_s / without_s, "times", goal=GOALS.get(nodes))


def measure(contenders: list[tuple[Engine, list[Ask]]]) -> list[float]:
    """CPU seconds that each takes for its pods, in turns. The first turn warms up, and is not counted."""
    took = [0.0] * len(contenders)
    with undisturbed():
        for turn, i in turns(range(len(contenders)), -(-len(contenders[0][1]) // TURN)):
            engine, asks = contenders[i]
            began_s = time.thread_time()
            for ask in asks[turn * TURN : (turn + 1) * TURN]:
                assert engine.place(ask).node is not None
            if turn:
                took[i] += time.thread_time() - began_s
    return took


def _with_rooms(engine: Engine, pod: MakesPod) -> Engine:
    """The same engine, with the plugin, and with stand-ins on its nodes."""
    plugin, profile = ReservedRoom(), engine.profile
    extended = Engine(engine.cluster, dataclasses.replace(profile, plugins=(*profile.plugins, plugin)))
    raw = pod("stand-in", app="app-0", cpu="8", memory="32Gi")
    raw["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}]
    stand_in, rng = Ask(convert(Pod, raw)).record(), random.Random(1)
    rows = sorted(engine.cluster.nodes)
    for row in rng.sample(rows, len(rows) * 2 // 5):
        plugin.rooms.hold(replace(stand_in, key=f"shop/stand-in-{row}", uid=str(row)), row)
    return extended


def _owned(pod: dict[str, Any]) -> dict[str, Any]:
    meta = pod["metadata"]
    return {**pod, "metadata": {**meta, "labels": {**meta["labels"], OWNER: "team"}}}
