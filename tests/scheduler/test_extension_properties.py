"""The three policies that the engine does not know, together in one profile, whatever happens to the cluster.

They use public extension points only: columns, keys, judges, views, exact checks, reserve and release, `undoable`, and
watching nodes go.
"""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Row
from tests.scheduler.builders import ROW_LOCAL, ask, engine, node
from tests.scheduler.test_extension_points import Gang, PairsOfDevices, Reserved

DEVICES = {0, 1, 3, 4, 6, 8}
"""Two pairs of neighbours, and two that have none."""


class Devices(PairsOfDevices):
    """Devices leave with their node."""

    def attach(self, cluster: Cluster) -> None:
        super().attach(cluster)
        cluster.watch(self)

    def node_put(self, row: Row) -> None:
        """They are put in by `equip`."""

    def node_removed(self, row: Row) -> None:
        self.free.pop(row, None)

    def pod_moved(self, record: PodRecord, row: Row, sign: int) -> None:
        """`reserve` and `release` say all."""

    def release(self, key: str, row: Row, cluster: Cluster) -> None:
        pair = self.held.get(key)
        if pair is not None:
            super().release(key, row, cluster)
            cluster.undoable(lambda: self._hold_again(key, row, pair))

    def _hold_again(self, key: str, row: Row, pair: tuple[int, int]) -> None:
        self.free[row] -= set(pair)
        self.held[key] = pair


class Rooms(Reserved):
    """Room is given back by owners who leave, and goes with its node."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: dict[str, tuple[Row, int]] = {}

    def attach(self, cluster: Cluster) -> None:
        cluster.watch(self)

    def node_put(self, row: Row) -> None:
        """Rooms are made by `hold`."""

    def node_removed(self, row: Row) -> None:
        self.rooms.pop(row, None)

    def pod_moved(self, record: PodRecord, row: Row, sign: int) -> None:
        """`reserve` and `release` say all."""

    def reserve(self, ask: Ask, row: Row, cluster: Cluster) -> None:
        before = self.rooms.get(row)
        super().reserve(ask, row, cluster)
        after = self.rooms.get(row)
        if before is not None and after is not None and before != after:
            self.taken[ask.key] = (row, before[1] - after[1])
            cluster.undoable(lambda: self._forget(ask.key))

    def release(self, key: str, row: Row, cluster: Cluster) -> None:
        taken = self.taken.pop(key, None)
        if taken is None:
            return
        cluster.undoable(lambda: self.taken.update({key: taken}))
        before = self.rooms.get(row)
        if before is not None:
            self.rooms[row] = (before[0], before[1] + taken[1])
            cluster.undoable(lambda: self.rooms.update({row: before}))
            cluster.table.add(("requested", "cpu"), row, taken[1])

    def _forget(self, key: str) -> None:
        del self.taken[key]


class Gangs(Gang):
    """Members that leave are counted no more; pods without a gang wait for nobody."""

    def __init__(self) -> None:
        super().__init__(3)
        self._gang_of: dict[str, str] = {}

    def reserve(self, ask: Ask, row: Row, cluster: Cluster) -> None:
        if "gang" in ask.meta.labels:
            super().reserve(ask, row, cluster)
            self._gang_of[ask.key] = ask.meta.labels["gang"]

    def release(self, key: str, row: Row, cluster: Cluster) -> None:
        members = self.placed.get(self._gang_of.get(key, ""), set())
        if key in members:
            members.discard(key)
            cluster.undoable(lambda: members.add(key))

    def permit(self, ask: Ask, row: Row, cluster: Cluster) -> float:
        return super().permit(ask, row, cluster) if "gang" in ask.meta.labels else 0.0


class World:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.devices, self.rooms, self.gangs = Devices(), Rooms(), Gangs()
        self.engine: Engine = engine(plugins=(*ROW_LOCAL, self.devices, self.rooms, self.gangs))
        self.asks: dict[str, Ask] = {}
        self._number = 0
        for _ in range(4):
            self.node_comes()

    def node_comes(self) -> None:
        self._number += 1
        name = f"n{self._number}"
        self.engine.cluster.put_node(node(name, cpu="8"))
        if self.rng.random() < 0.7:
            self.devices.equip(self.engine.cluster, name, DEVICES)
        if self.rng.random() < 0.5:
            self.rooms.hold(self.engine, name, self.rng.choice("xy"), 3000)

    def pod(self) -> Ask:
        self._number += 1
        labels = {}
        if self.rng.random() < 0.4:
            labels["devices"] = "2"
        if self.rng.random() < 0.4:
            labels["owner"] = self.rng.choice("xy")
        if self.rng.random() < 0.4:
            labels["gang"] = self.rng.choice("gh")
        made = ask(f"p{self._number}", cpu=self.rng.choice(["500m", "1", "2", "4"]), labels=labels)
        self.asks[made.key] = made
        return made

    def step(self) -> None:
        cluster, rng = self.engine.cluster, self.rng
        own = [key for key in cluster.pods if "hold-" not in key]
        match rng.randrange(8):
            case 0 | 1 | 2:
                self.engine.place(self.pod())
            case 3:
                self.engine.place_all([self.pod() for _ in range(rng.randint(2, 4))], at_least=rng.choice([None, 2]))
            case 4 if own:
                cluster.remove_pod(rng.choice(own))
            case 5 if len(cluster.table) > 1:
                cluster.remove_node(rng.choice(sorted(cluster.table.row_of)))
            case 6:
                self.node_comes()
            case _:
                self.undone()

    def undone(self) -> None:
        cluster = self.engine.cluster
        before = self.state()
        with cluster.transaction() as transaction:
            for _ in range(self.rng.randint(1, 5)):
                own = [key for key in cluster.pods if "hold-" not in key]
                if own and self.rng.random() < 0.4:
                    cluster.remove_pod(self.rng.choice(own))
                else:
                    self.engine.place(self.pod())
            transaction.undo()
        assert self.state() == before

    def state(self) -> Any:
        cluster = self.engine.cluster
        columns = {name: column.tobytes() for name, column in cluster.table.columns.items()}
        free = {row: frozenset(free) for row, free in self.devices.free.items()}
        gangs = {name: frozenset(members) for name, members in self.gangs.placed.items() if members}
        mine = (free, dict(self.devices.held), dict(self.rooms.rooms), dict(self.rooms.taken), gangs)
        return columns, dict(cluster.pods), mine

    def check(self) -> None:
        cluster = self.engine.cluster
        columns = cluster.table.columns
        for row, pods in cluster.pods_on.items():
            held = [number for key in pods for number in self.devices.held.get(key, ())]
            if row in self.devices.free:
                assert sorted([*held, *self.devices.free[row]]) == sorted(DEVICES), "each is free, or one pod's"
                assert columns["free devices"][row] == len(self.devices.free[row])
            asked = sum(dict(record.requests).get("cpu", 0) for record in pods.values())
            inside = sum(amount for key, (_, amount) in self.rooms.taken.items() if key in pods)
            assert columns["requested", "cpu"][row] == asked - inside <= columns["allocatable", "cpu"][row]
            if row in self.rooms.rooms:
                assert self.rooms.rooms[row][1] + inside == 3000
        for name, members in self.gangs.placed.items():
            there = {key for key in cluster.pods if "gang" in self.labels(key) and self.labels(key)["gang"] == name}
            assert members == there
            for key in there:
                waits = self.engine.wait_s(self.asks[key], cluster.pods[key][1]) > 0
                assert waits == (len(there) < 3)

    def labels(self, key: str) -> Any:
        return self.engine.cluster.pods[key][0].labels


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_devices_rooms_and_gangs_are_whole_after_any_events(seed: int) -> None:
    world = World(random.Random(seed))
    for _ in range(40):
        world.step()
        world.check()
