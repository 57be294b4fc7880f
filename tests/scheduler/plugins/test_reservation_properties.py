"""After any history of reservations, owners, others, failed bindings, flapping nodes and restarts:

nothing is promised twice, only owners are in a room, what is not used of a room is held, and a scheduler that is
with the present objects knows the same as one that received all changes.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import amounts, pod_requests
from koord.api.protocol.annotations.reservation import RESERVATION_ALLOCATED
from koord.api.protocol.crd.reservation import Reservation, ReservationPhase
from koord.scheduler.core.decision import Bind
from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.reservation.owners import owns
from koord_chaos.stories.dice import Dice
from tests.scheduler.builders import node
from tests.scheduler.reservations import PREFIX, World, pod, reservation

TEAMS = ("web", "db")
GIB = 1024**3


class History:
    def __init__(self, dice: Dice) -> None:
        self.dice, self.number = dice, 0
        self.world = World(*(node(f"n{i}", cpu=dice.one(("8", "16")), memory="32Gi") for i in range(3)))
        self.gone: list[Any] = []

    def step(self) -> None:
        dice, world = self.dice, self.world
        self.number += 1
        match dice.integer(0, 13):
            case 0 | 1:
                world.put(self._reservation())
            case 2 | 3 | 4:
                world.put(self._pod())
            case 5 if world.pods:
                world.delete(dice.one(sorted(world.pods)))
            case 6 if world.reservations:
                world.delete(world.reservations[dice.one(sorted(world.reservations))])
            case 7 if world.reservations:
                self._change(world.reservations[dice.one(sorted(world.reservations))])
            case 8 if len(world.nodes) > 1:
                old = world.nodes[dice.one(sorted(world.nodes))]
                self.gone.append(old)
                world.delete(old)
            case 9 if self.gone:
                world.put(self.gone.pop())
            case 10:
                self._fail()
            case 11 if world.reservations:
                self._resize(world.reservations[dice.one(sorted(world.reservations))])
            case 12 if world.pods:
                self._shrink(world.pods[dice.one(sorted(world.pods))])
            case _:
                world.wait(dice.one((1, 5, 30)))
        if dice.chance(0.6):
            world.wait(1)
            world.settle()

    def _reservation(self) -> Reservation:
        dice = self.dice
        more: dict[str, Any] = {"allocateOnce": dice.chance(0.4), "ttl": dice.one(("0s", "1m", "24h"))}
        policy = dice.one(("", "", "Aligned", "Restricted"))
        if policy:
            more["allocatePolicy"] = policy
        labels = {f"{PREFIX}reservation-order": str(dice.integer(1, 3))} if dice.chance(0.2) else {}
        owners = [{"labelSelector": {"matchLabels": {"app": dice.one(TEAMS)}}}]
        memory = dice.one(("", "4Gi"))
        cpu = dice.one(("2", "4", "6"))
        return reservation(f"r{self.number}", cpu=cpu, memory=memory, owners=owners, labels=labels, **more)

    def _pod(self) -> Pod:
        dice = self.dice
        affinity = "{}" if dice.chance(0.2) else None
        cpu, memory = dice.one(("1", "2", "3", "5")), dice.one(("", "1Gi", "8Gi"))
        app = dice.one((*TEAMS, "other"))
        return pod(f"p{self.number}", cpu=cpu, memory=memory, app=app, affinity=affinity, namespace="shop")

    def _change(self, old: Reservation) -> None:
        spec = replace(old.spec, unschedulable=not old.spec.unschedulable)
        self.world.put(replace(old, spec=spec))

    def _resize(self, old: Reservation) -> None:
        said = {f"{PREFIX}reservation-resize-allocatable": f'{{"resources": {{"cpu": "{self.dice.integer(1, 8)}"}}}}'}
        self.world.put(replace(old, metadata=replace(old.metadata, annotations={**old.metadata.annotations, **said})))

    def _shrink(self, old: Pod) -> None:
        """In its place: it asks for half a CPU from now on."""
        (container,) = old.spec.containers
        requests = {**container.resources.requests, "cpu": "500m"}
        smaller = replace(container, resources=replace(container.resources, requests=requests))
        self.world.put(replace(old, spec=replace(old.spec, containers=(smaller,))))

    def _fail(self) -> None:
        """Something is decided, and not carried out."""
        decision = self.world.decide()
        if isinstance(decision, Bind):
            self.world.core.failed(decision, decision.ask)

    def came_out_of(self, owner: Pod) -> str:
        allocated = RESERVATION_ALLOCATED.read(owner.metadata)
        return allocated.uid if allocated is not None else ""

    def expected(self) -> dict[tuple[str, str], int]:
        """What is requested on every node, added up from the objects themselves."""
        found: Counter[tuple[str, str]] = Counter()
        used: Counter[tuple[str, str, str]] = Counter()
        for each in self.world.pods.values():
            for name, amount in pod_requests(each).items():
                found[each.spec.node_name, name] += amount
                used[each.spec.node_name, self.came_out_of(each), name] += amount
        for held in self.world.reservations.values():
            status = held.status
            if status.phase is ReservationPhase.AVAILABLE and status.node_name:
                for name, amount in amounts(status.allocatable).items():
                    left = amount - used[status.node_name, held.metadata.uid, name]
                    found[status.node_name, name] += max(0, left)
        return {key: amount for key, amount in found.items() if amount and key[0] in self.world.nodes}


def known(world: World) -> dict[tuple[str, str], int]:
    table = world.core.cluster.table
    return {
        (name, resource): amount
        for name, row in table.row_of.items()
        for resource in ("cpu", "memory")
        if (amount := table.columns["requested", resource].item(row))
    }


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(st.integers(0, 2**32))
def test_any_history_leads_to_what_the_objects_say(seed: int) -> None:
    history = History(Dice(seed))
    world = history.world
    for _ in range(40):
        history.step()
    world.wait(20)
    world.settle()
    assert known(world) == history.expected()
    other = world.restarted()
    assert known(other) == known(world)
    _same_rooms(world, other)
    _views_show_what_is_lent(world)
    _nothing_is_promised_twice(history)
    _only_owners_are_inside(history)


def _same_rooms(one: World, other: World) -> None:
    def told(world: World) -> dict[str, Any]:
        names = world.core.cluster.table.names
        return {
            room.name: (names[room.row], room.full, room.used, sorted(room.owners), room.can_be_used)
            for room in world.rooms.all.values()
            if room.record is not None
        }

    assert told(one) == told(other)


def _views_show_what_is_lent(world: World) -> None:
    """To each team, rooms of its own are free; and a view that followed all changes is as a new one."""
    engine, fresh = world.core.engines["koord-scheduler"], world.restarted().core.engines["koord-scheduler"]
    for app in TEAMS:
        ask = Ask(pod("asking", app=app, cpu="1", memory="1Gi"))
        seen, anew = engine.class_of(ask), fresh.class_of(ask)
        for name in world.nodes:
            row, same = engine.cluster.table.row_of[name], fresh.cluster.table.row_of[name]
            for column in (("requested", "cpu"), ("requested", "memory"), "pod count", "non-zero cpu"):
                here, there = _shown(engine, seen, column, row), _shown(fresh, anew, column, same)
                assert here == there, (app, name, column)
            assert seen.is_feasible(row) == anew.is_feasible(same)
            assert seen.scores(row).get("Reservation") == anew.scores(same).get("Reservation")


def _shown(engine: Any, class_: Any, column: Any, row: int) -> int:
    columns = engine.cluster.table.columns if class_.view is None else class_.view.columns
    found: int = columns[column].item(row)
    return found


def _nothing_is_promised_twice(history: History) -> None:
    for (name, resource), amount in history.expected().items():
        assert amount <= amounts(history.world.nodes[name].status.allocatable)[resource], (name, resource)


def _only_owners_are_inside(history: History) -> None:
    by_uid = {reservation.metadata.uid: reservation for reservation in history.world.reservations.values()}
    for each in history.world.pods.values():
        held = by_uid.get(history.came_out_of(each))
        if each.spec.node_name and held is not None:
            assert owns(held.spec.owners, each.metadata)
            assert held.status.node_name == each.spec.node_name
