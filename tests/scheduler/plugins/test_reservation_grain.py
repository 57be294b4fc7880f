"""Reservations of CPUs, NUMA amounts, parts of devices and load, after any history:

owners use what is held for them, so that together they take the larger of the two amounts; unused amounts stay held;
nothing is allocated twice; and owners of a Restricted reservation have nothing that is not reserved.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.kinds import DEVICES, NODE_METRICS, NODE_RESOURCE_TOPOLOGIES, RESERVATIONS
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.pod import Pod, PodCondition
from koord.api.kubernetes.resources import amounts
from koord.api.kubernetes.words import ConditionStatus, PodConditionType
from koord.api.protocol.annotations.cpu import RESOURCE_STATUS
from koord.api.protocol.annotations.device import DEVICE_ALLOCATED
from koord.api.protocol.annotations.reservation import RESERVATION_ALLOCATED
from koord.api.protocol.crd.reservation import Reservation, ReservationPhase
from koord.api.text.timestamp import from_seconds
from koord.scheduler.core.decision import Bind
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.writes import Patch
from koord.scheduler.plugins.devices.ledger import Devices
from koord.scheduler.plugins.load_basis import load_basis_of
from koord.scheduler.plugins.load_estimate import estimate_of
from koord.scheduler.plugins.numa.allocations import Allocations
from koord.scheduler.plugins.numa.topology import topology_of
from koord.scheduler.plugins.reservation.reserve_pod import reserve_pod
from koord_chaos.stories.dice import Dice
from tests.scheduler.build import NOW_S, metric, pod_usage
from tests.scheduler.builders import node
from tests.scheduler.plugins.devices.machines import K, device, gpu
from tests.scheduler.plugins.numa.machines import details, report
from tests.scheduler.reservations import PREFIX, World, pod, reservation

LSR = {"koordinator.sh/qosClass": "LSR"}
TOPOLOGY = topology_of(details("1x2x4x2"))
TEAMS = ("web", "db")
USED = {"cpu": "1", "memory": "1Gi"}
Sums = Counter[tuple[Any, ...]]


class History:
    def __init__(self, dice: Dice) -> None:
        self.dice, self.number = dice, 0
        self.gone: list[Any] = []
        self.world = World()
        self.machines: list[tuple[Any, Any]] = []
        for i in range(2):
            labels = {"node.koordinator.sh/numa-topology-policy": "SingleNUMANode"} if dice.chance(0.5) else {}
            has = {f"{K}/gpu-core": "200", f"{K}/gpu-memory-ratio": "200", f"{K}/gpu-memory": "160Gi"}
            self.machines += [
                (NODE_RESOURCE_TOPOLOGIES, report(f"n{i}", "1x2x4x2")),
                (DEVICES, device(f"n{i}", [gpu(0), gpu(1)])),
                (NODE_METRICS, metric(f"n{i}", usage=USED)),
            ]
            self.world.put(node(f"n{i}", cpu="16", memory="96Gi", extended=has, labels=labels))
        for kind, each in self.machines:
            self.world.core.put(kind, each)

    def step(self) -> None:
        dice, world = self.dice, self.world
        self.number += 1
        match dice.integer(0, 14):
            case 0 | 1 | 2:
                world.put(self._reservation())
            case 3 | 4 | 5 | 6:
                world.put(self._pod())
            case 7 if world.pods:
                world.delete(dice.one(sorted(world.pods)))
            case 8 if world.reservations:
                world.delete(world.reservations[dice.one(sorted(world.reservations))])
            case 9 if self.gone or len(world.nodes) > 1:
                if self.gone:
                    world.put(self.gone.pop())
                else:
                    self.gone.append(world.nodes[dice.one(sorted(world.nodes))])
                    world.delete(self.gone[0])
            case 10:
                decision = world.decide()
                if isinstance(decision, Bind):
                    world.core.failed(decision, decision.ask)
            case 11 | 12 if world.reservations:
                self._resize(world.reservations[dice.one(sorted(world.reservations))])
            case 13:
                self._killed()
            case _:
                world.wait(dice.one((1, 5, 40)))
        if dice.chance(0.6):
            world.wait(1)
            world.settle()

    def _grain(self) -> dict[str, Any]:
        """CPUs of its own, a part of a GPU, or amounts alone."""
        dice = self.dice
        percent = dice.one(("25", "50", "100"))
        share = {f"{K}/gpu-core": percent, f"{K}/gpu-memory-ratio": percent}
        more = share if dice.chance(0.5) else {}
        cpu, labels = dice.one(("1", "2", "4")), LSR if dice.chance(0.5) else {}
        return {"cpu": cpu, "memory": dice.one(("", "2Gi")), "more": more, "labels": labels}

    def _reservation(self) -> Reservation:
        dice = self.dice
        spec: dict[str, Any] = {"allocateOnce": dice.chance(0.3), "ttl": dice.one(("0s", "1m", "24h"))}
        policy = dice.one(("Aligned", "Aligned", "Restricted"))
        owners = [{"labelSelector": {"matchLabels": {"app": dice.one(TEAMS)}}}]
        return reservation(f"r{self.number}", owners=owners, allocatePolicy=policy, **spec, **self._grain())

    def _resize(self, old: Reservation) -> None:
        percent = self.dice.one(("25", "50", "100", "200"))
        gpu_share = {f"{K}/gpu-core": percent, f"{K}/gpu-memory-ratio": percent}
        wanted = {"cpu": self.dice.one(("1", "4", "8"))} | (
            gpu_share if f"{K}/gpu-core" in old.status.allocatable else {}
        )
        said = {f"{PREFIX}reservation-resize-allocatable": json.dumps({"resources": wanted})}
        self.world.put(replace(old, metadata=replace(old.metadata, annotations={**old.metadata.annotations, **said})))

    def _killed(self) -> None:
        """A scheduler that has some of its writes carried out, and another in its place."""
        writes = [each for each in self.world.core.take_writes() if isinstance(each, Patch)]
        for each in writes[: self.dice.integer(0, len(writes))]:
            if each.kind is RESERVATIONS:
                self.world.patch(each)
        self.world = self.restarted()

    def _pod(self) -> Pod:
        grain = self._grain()
        app, affinity = self.dice.one((*TEAMS, "other")), "{}" if self.dice.chance(0.2) else None
        return pod(f"p{self.number}", app=app, affinity=affinity, priority=9500, **grain)

    @property
    def held(self) -> Iterator[Reservation]:
        for each in self.world.reservations.values():
            if each.status.phase is ReservationPhase.AVAILABLE and each.status.node_name in self.world.nodes:
                yield each

    def placed(self, on: Collection[str]) -> Iterator[Pod]:
        return (each for each in self.world.pods.values() if each.spec.node_name in on)

    def restarted(self) -> World:
        other = self.world.restarted()
        for kind, each in self.machines:
            other.core.put(kind, each)
        return other


def inside(owner: Pod) -> str:
    allocated = RESERVATION_ALLOCATED.read(owner.metadata)
    return "" if allocated is None else allocated.uid


def devices_of(meta: ObjectMeta, on: str) -> Sums:
    found: Sums = Counter()
    if DEVICE_ALLOCATED.key in meta.annotations:
        for type_, devices in DEVICE_ALLOCATED.read(meta).items():
            for each in devices:
                for name, amount in amounts(each.resources).items():
                    found[on, type_, each.minor, name] += amount
    return found


def cpus_of(meta: ObjectMeta) -> int:
    return RESOURCE_STATUS.read(meta).cpus.mask if RESOURCE_STATUS.key in meta.annotations else 0


def zones_of(meta: ObjectMeta, on: str) -> Sums:
    found: Sums = Counter()
    if RESOURCE_STATUS.key not in meta.annotations:
        return found
    status = RESOURCE_STATUS.read(meta)
    for each in status.numa_node_resources:
        for name, amount in amounts(each.resources).items():
            found[on, each.node, name] += amount
    if not found and status.cpuset:
        assert TOPOLOGY is not None
        for zone, cpus in TOPOLOGY.nodes_of(status.cpus.mask):
            found[on, zone, "cpu"] += cpus.bit_count() * 1000
    return found


def load_of(thing: Pod, on: str) -> Sums:
    basis = load_basis_of(thing, Ask(thing).template)
    return Counter({(on, name): estimate_of(basis, name, factor) for name, factor in (("cpu", 85), ("memory", 70))})


def together(history: History, of_pod: Any, of_reservation: Any) -> Sums:
    """What pods have, and what is held beyond that: added up from the objects themselves."""
    found: Sums = Counter()
    had: dict[str, Sums] = {}
    for each in history.placed(history.world.nodes):
        mine = of_pod(each, each.spec.node_name)
        found += mine
        had.setdefault(inside(each), Counter()).update(mine)
    for held in history.held:
        # Only those on its own node: keys have the node in them.
        found += of_reservation(held, held.status.node_name) - had.get(held.metadata.uid, Counter())
    return +found


def known_devices(world: World) -> Sums:
    notes, found = world.core.cluster.notes(Devices), Sums()
    for name, row in world.core.cluster.table.row_of.items():
        usage = notes.usage(row)
        for (type_, minor), of in {} if usage is None else usage.amounts.items():
            found.update({(name, type_, minor, resource): amount for resource, amount in of.items()})
    return found


def known_zones(world: World) -> Sums:
    notes, found = world.core.cluster.notes(Allocations), Sums()
    for name, row in world.core.cluster.table.row_of.items():
        found.update({(name, zone, resource): n for (zone, resource), n in notes.on[row].zones.items()})
    return found


def known_load(world: World) -> Sums:
    """What is taken to be used beyond what nodes report, which is `USED`."""
    table, found = world.core.cluster.table, Sums()
    for name, row in table.row_of.items():
        for resource, used in amounts(USED).items():
            found[name, resource] = table.columns[f"load in all {resource} 0"].item(row) - used
    return +found


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(st.integers(0, 2**32))
def test_owners_have_theirs_out_of_what_is_held_and_nobody_else_has(seed: int) -> None:
    history = History(Dice(seed))
    for _ in range(30):
        history.step()
    history.world.wait(20)
    history.world.settle()
    for world in (history.world, history.restarted()):
        assert known_devices(world) == together(
            history, lambda p, on: devices_of(p.metadata, on), lambda r, on: devices_of(r.metadata, on)
        )
        assert known_zones(world) == together(
            history, lambda p, on: zones_of(p.metadata, on), lambda r, on: zones_of(r.metadata, on)
        )
        assert known_load(world) == together(history, load_of, lambda r, on: load_of(reserve_pod(r), on))
    _nothing_is_given_twice(history)
    _nothing_is_held_beyond_what_is_reserved(history)
    _restricted_owners_have_what_is_reserved(history)
    _views_are_as_new_ones(history)


def _nothing_is_held_beyond_what_is_reserved(history: History) -> None:
    """But for what owners have."""
    for held in history.held:
        theirs = 0
        for each in history.placed([held.status.node_name]):
            if inside(each) == held.metadata.uid:
                theirs |= cpus_of(each.metadata)
        reserved = -(-amounts(held.status.allocatable).get("cpu", 0) // 1000)
        assert cpus_of(held.metadata).bit_count() <= max(reserved, theirs.bit_count())


def _nothing_is_given_twice(history: History) -> None:
    of_devices = together(history, lambda p, on: devices_of(p.metadata, on), lambda r, on: devices_of(r.metadata, on))
    for (_, _, _, name), amount in of_devices.items():
        assert amount <= (100 if "memory" not in name or "ratio" in name else 80 << 30)
    taken: Counter[tuple[str, int]] = Counter()
    mine: dict[str, int] = {}
    for each in history.placed(history.world.nodes):
        cpus = cpus_of(each.metadata)
        mine[inside(each)] = mine.get(inside(each), 0) | cpus
        taken.update((each.spec.node_name, cpu) for cpu in range(16) if cpus >> cpu & 1)
    for held in history.held:
        rest = cpus_of(held.metadata) & ~mine.get(held.metadata.uid, 0)
        taken.update((held.status.node_name, cpu) for cpu in range(16) if rest >> cpu & 1)
    assert all(number == 1 for number in taken.values()), taken


def _restricted_owners_have_what_is_reserved(history: History) -> None:
    by_uid = {each.metadata.uid: each for each in history.held if each.spec.allocate_policy == "Restricted"}
    devices, cpus, zones = dict[str, Sums](), dict[str, int](), dict[str, Sums]()
    for each in history.placed(history.world.nodes):
        held = by_uid.get(inside(each))
        if held is not None:
            uid, on = held.metadata.uid, each.spec.node_name
            devices.setdefault(uid, Counter()).update(devices_of(each.metadata, on))
            zones.setdefault(uid, Counter()).update(zones_of(each.metadata, on))
            cpus[uid] = cpus.get(uid, 0) | cpus_of(each.metadata)
    for uid, had in devices.items():
        reserved = devices_of(by_uid[uid].metadata, by_uid[uid].status.node_name)
        assert not reserved or had <= reserved
    for uid, taken in cpus.items():
        reserved_cpus = cpus_of(by_uid[uid].metadata)
        assert not reserved_cpus or not taken & ~reserved_cpus
    for uid, of_zones in zones.items():
        reserved = zones_of(by_uid[uid].metadata, by_uid[uid].status.node_name)
        names = {key[2] for key in reserved}
        assert all(n <= reserved[key] for key, n in of_zones.items() if key[2] in names)


def _views_are_as_new_ones(history: History) -> None:
    """To each team, rooms of its own are free; and a view that followed all changes is as a new one."""
    world, other = history.world, history.restarted()
    engine, fresh = world.core.engines["koord-scheduler"], other.core.engines["koord-scheduler"]
    for app in TEAMS:
        share = {f"{K}/gpu-core": "25", f"{K}/gpu-memory-ratio": "25"}
        ask = Ask(pod("asking", app=app, cpu="1", memory="1Gi", labels=LSR, priority=9500, more=share))
        seen, anew = engine.class_of(ask).view, fresh.class_of(ask).view
        assert (seen is None) == (anew is None)
        if seen is None or anew is None:
            continue
        for name in world.nodes:
            row, same = engine.cluster.table.row_of[name], fresh.cluster.table.row_of[name]
            for column in engine.cluster.table.columns:
                if column in fresh.cluster.table.columns and column not in ("name hash", "taints"):
                    if isinstance(column, tuple) and column[0] == "label":
                        continue
                    assert seen.columns[column].item(row) == anew.columns[column].item(same), (app, name, column)


def test_what_is_held_counts_in_the_load_of_its_node_and_owners_are_a_part_of_it() -> None:
    world = World(node("n0", cpu="16", memory="96Gi"))
    world.core.put(NODE_METRICS, metric("n0", usage=USED))
    world.put(reservation(cpu="4", allocateOnce=False))
    world.settle()
    assert known_load(world)["n0", "cpu"] == 3400, "85% of 4 CPUs"
    world.put(pod("a", cpu="1"), pod("b", cpu="2"))
    world.settle()
    assert known_load(world)["n0", "cpu"] == 3400
    world.put(pod("c", cpu="3"))
    world.settle()
    assert known_load(world)["n0", "cpu"] == 5100, "owners use more than is held: all of it, and nothing else"
    world.delete("shop/c")
    world.delete("r")
    world.settle()
    assert known_load(world)["n0", "cpu"] == 2550


def test_once_an_owner_is_measured_its_part_of_the_hold_is_not_estimated_any_more() -> None:
    world = World(node("n0", cpu="16", memory="96Gi"))
    world.put(reservation(cpu="4", allocateOnce=False, ttl="0s"))
    world.settle()
    world.put(pod("a", cpu="2"))
    world.settle()
    a = world.pods["shop/a"]
    long_ago = PodCondition(PodConditionType.SCHEDULED, ConditionStatus("True"), "", "", from_seconds(NOW_S - 3600))
    world.put(replace(a, status=replace(a.status, conditions=(long_ago,))))
    used = pod_usage("a", {"cpu": "500m"}, namespace="shop")
    world.core.put(NODE_METRICS, metric("n0", usage=USED, pods=[used]))
    assert known_load(world)["n0", "cpu"] == 1700, "3400 for the hold, less the 1700 that the owner was taken to use"
