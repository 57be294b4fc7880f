"""The three policies that the engine does not know, together in one profile, whatever happens to the cluster.

They use public extension points only: columns, keys, judges, views, exact checks, notes of pods, and permits.
"""

from __future__ import annotations

import random
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from tests.scheduler.builders import ROW_LOCAL, ask, engine, node
from tests.scheduler.test_extension_points import Gang, PairsOfDevices, Reserved

DEVICES = {0, 1, 3, 4, 6, 8}
"""Two pairs of neighbours, and two that have none."""


class World:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.devices, self.rooms, self.gangs = PairsOfDevices(), Reserved(), Gang(3)
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

    def node_goes(self, name: str) -> None:
        """What it has goes with it."""
        row = self.engine.cluster.table.row_of[name]
        self.engine.cluster.remove_node(name)
        self.devices.devices.free.pop(row, None)
        self.rooms.taken.let_go(row)

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
                self.node_goes(rng.choice(sorted(cluster.table.row_of)))
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
        cluster, devices = self.engine.cluster, self.devices.devices
        columns = {name: column.tobytes() for name, column in cluster.table.columns.items()}
        free = {row: frozenset(free) for row, free in devices.free.items() if free}
        gangs = {name: frozenset(members) for name, members in self.gangs.members.placed.items() if members}
        return columns, dict(cluster.pods), (free, dict(devices.held), dict(self.rooms.rooms), gangs)

    def check(self) -> None:
        cluster, devices = self.engine.cluster, self.devices.devices
        columns = cluster.table.columns
        for row, pods in cluster.pods_on.items():
            held = [number for key in pods for number in devices.held.get(key, ())]
            if columns["free devices"][row] or held:
                assert sorted([*held, *devices.free[row]]) == sorted(DEVICES), "each is free, or one pod's"
                assert columns["free devices"][row] == len(devices.free[row])
            asked = sum(dict(record.requests).get("cpu", 0) for record in pods.values())
            inside = sum(cast(int, dict(record.notes).get("Reserved", 0)) for record in pods.values())
            assert columns["requested", "cpu"][row] == asked - inside <= columns["allocatable", "cpu"][row]
            if row in self.rooms.rooms:
                assert self.rooms.rooms[row][1] + inside == 3000
        for name, members in self.gangs.members.placed.items():
            there = {key for key in cluster.pods if "gang" in self.labels(key) and self.labels(key)["gang"] == name}
            assert members == there
            for key in there:
                waits = self.engine.permit(self.asks[key], cluster.pods[key][1]).wait_s > 0
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
