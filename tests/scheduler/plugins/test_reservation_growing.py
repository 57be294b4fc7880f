"""Reservations that are made larger where they are: all that they hold stays theirs, and they get the rest, or say why
not. Whoever is killed in between loses nothing and gives nothing twice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.kinds import DEVICES, NODE_RESOURCE_TOPOLOGIES
from koord.api.protocol.crd.reservation import Reservation
from koord.scheduler.core.decision import Bind
from koord.scheduler.framework.writes import Patch, Tell
from tests.scheduler.builders import node
from tests.scheduler.plugins.devices.machines import ALLOCATED, K, device, gpu
from tests.scheduler.plugins.numa.machines import mask, report
from tests.scheduler.reservations import PREFIX, World, pod, reservation

STATUS = "scheduling.koordinator.sh/resource-status"
LSR = {"koordinator.sh/qosClass": "LSR"}
MANY: dict[str, Any] = {"allocateOnce": False}
SINGLE = {"node.koordinator.sh/numa-topology-policy": "SingleNUMANode"}
PARTITIONS = "scheduling.koordinator.sh/gpu-partitions"
HONOUR = {"node.koordinator.sh/gpu-partition-policy": "Honor"}
GPUS = 4


def share(percent: int) -> dict[str, str]:
    return {f"{K}/gpu-core": str(percent), f"{K}/gpu-memory-ratio": str(percent)}


def machine(labels: dict[str, str] | None = None) -> World:
    """One node with two NUMA nodes of 4 CPUs and two GPUs each; cores are pairs of CPUs."""
    world = World(node("n0", cpu="8", memory="96Gi", labels=labels, extended=share(100 * GPUS)))
    tell_of_machine(world)
    return world


def tell_of_machine(found: World, **of_devices: dict[str, str]) -> None:
    found.core.put(NODE_RESOURCE_TOPOLOGIES, report("n0", "1x2x2x2"))
    gpus = [gpu(i, pcie=i // 2, numa=i // 2) for i in range(GPUS)]
    found.core.put(DEVICES, device("n0", gpus, **of_devices))


def restarted(found: World) -> World:
    other = found.restarted()
    tell_of_machine(other)
    return other


def asked(held: Reservation, resources: dict[str, str]) -> Reservation:
    said = {f"{PREFIX}reservation-resize-allocatable": json.dumps({"resources": resources})}
    return replace(held, metadata=replace(held.metadata, annotations={**held.metadata.annotations, **said}))


def resize(found: World, resources: dict[str, str]) -> None:
    found.put(asked(found.reservations["r"], resources))


def cpus(found: World, key: str = "") -> str:
    meta = (found.pods[key] if key else found.reservations["r"]).metadata
    return str(json.loads(meta.annotations.get(STATUS, "{}")).get("cpuset", ""))


def minors(found: World) -> list[int]:
    said = found.reservations["r"].metadata.annotations.get(ALLOCATED, "{}")
    return [each["minor"] for each in json.loads(said).get("gpu", [])]


def size(found: World) -> dict[str, str]:
    return {name: str(each) for name, each in found.reservations["r"].status.allocatable.items()}


def pending(found: World) -> str:
    said = [
        condition.message
        for condition in found.reservations["r"].status.conditions
        if condition.type == "ResizePending"
    ]
    return said[0] if said else ""


def bound(name: str, cpu: str, **more: Any) -> Any:
    return pod(name, cpu=cpu, labels=LSR, priority=9500, **more)


def held_cpus(cpu: str, labels: dict[str, str] | None = None) -> World:
    world = machine(labels)
    world.put(reservation(cpu=cpu, labels=LSR, **MANY))
    world.settle()
    return world


def taken(found: World) -> list[Patch]:
    """What should be written, and is not."""
    return [write for write in found.core.take_writes() if isinstance(write, Patch)]


def test_it_gets_more_cpus_and_keeps_those_that_it_has() -> None:
    world = held_cpus("2")
    world.put(bound("mine", "2"), bound("other", "2", app="other"))
    world.settle()
    assert (cpus(world), cpus(world, "shop/other"), cpus(world, "shop/mine")) == ("0-1", "4-5", "0-1")
    resize(world, {"cpu": "6"})
    world.settle()
    assert (cpus(world), size(world), pending(world)) == ("0-3,6-7", {"cpu": "6"}, "")
    world.put(bound("late", "2", app="other"), bound("more", "4"))
    world.wait(30)
    world.settle()
    assert (cpus(world, "shop/late"), cpus(world, "shop/more")) == ("", "2-3,6-7")
    assert restarted(world).requested() == world.requested() == 8000


def test_one_that_cannot_grow_says_why_loses_nothing_and_grows_when_there_is_room() -> None:
    world = held_cpus("2")
    world.put(bound("other", "4", app="other"))
    world.settle()
    before, at = cpus(world), world.requested()
    resize(world, {"cpu": "6"})
    told = world.core.take_writes()
    events = [(each.reason, each.type) for each in told if isinstance(each, Tell)]
    assert events == [("ResizePending", "Warning")]
    for each in told:
        if isinstance(each, Patch):
            world.patch(each)
    world.settle()
    assert pending(world) == "cannot be resized to cpu 6: Insufficient cpu"
    assert (cpus(world), size(world), world.requested()) == (before, {"cpu": "2"}, at)
    assert not world.core.take_writes(), "it has said so"
    world.delete("shop/other")
    world.settle()
    assert (size(world), pending(world), len(cpus(world)) > len(before)) == ({"cpu": "6"}, "", True)


def test_cpus_may_be_missing_where_amounts_suffice() -> None:
    world = held_cpus("2")
    world.put(bound("taker", "4", app="other"))
    world.settle()
    # It has 4 CPUs of its own, and asks for fewer since then.
    there = world.pods["shop/taker"]
    (container,) = there.spec.containers
    less = replace(container, resources=replace(container.resources, requests={"cpu": "2"}))
    world.put(replace(there, spec=replace(there.spec, containers=(less,))))
    resize(world, {"cpu": "5"})
    world.settle()
    assert pending(world) == "cannot be resized to cpu 5: not enough cpus available to satisfy request"
    assert (cpus(world), size(world)) == ("0-1", {"cpu": "2"})


def test_what_it_was_given_is_nobody_elses_before_the_object_says_so() -> None:
    world = held_cpus("2")
    resize(world, {"cpu": "6"})
    patches = taken(world)
    assert [patch.subresource for patch in patches] == [""], "first what it holds, then what it reserves"
    world.put(bound("quick", "4", app="other"), bound("small", "2", app="other"))
    placed = []
    while (decided := world.decide()) is not None:
        placed += [decided.ask.meta.name] if isinstance(decided, Bind) else []
    assert (placed, world.requested()) == (["small"], 8000)
    world.patch(patches[0])
    assert world.requested() == 8000, "the amounts count though the status does not say so yet"
    world.settle()
    assert (size(world), world.requested()) == ({"cpu": "6"}, 8000)


@pytest.mark.parametrize("killed", ["before any write", "between the two writes"])
def test_a_scheduler_killed_while_one_grows_ends_with_the_same(killed: str) -> None:
    world = held_cpus("2")
    world.put(bound("mine", "2"))
    world.settle()
    resize(world, {"cpu": "6"})
    (first,) = taken(world)
    if killed == "between the two writes":
        world.patch(first)
        taken(world)
    again = restarted(world)
    again.settle()
    assert (size(again), again.requested(), pending(again)) == ({"cpu": "6"}, 6000, "")
    assert cpus(again) == json.loads(first.body["metadata"]["annotations"][STATUS])["cpuset"]


def test_a_scheduler_killed_between_the_writes_gives_back_what_there_is_no_room_for_any_more() -> None:
    world = held_cpus("2")
    resize(world, {"cpu": "6"})
    (first,) = taken(world)
    world.patch(first)
    taken(world)
    # In the meantime a user binds a pod there by hand.
    world.put(pod("by-hand", cpu="5", app="other", on="n0"))
    again = restarted(world)
    again.settle()
    assert (size(again), cpus(again)) == ({"cpu": "2"}, "0-1")
    assert pending(again) == "cannot be resized to cpu 6: Insufficient cpu"


def test_one_that_is_asked_to_shrink_again_before_it_has_grown_gives_back() -> None:
    world = held_cpus("2")
    resize(world, {"cpu": "6"})
    (first,) = taken(world)
    resize(world, {"cpu": "4"})
    assert world.requested() == 2000
    world.settle()
    assert (size(world), cpus(world)) == ({"cpu": "4"}, "0-3"), (
        "on the NUMA node that it is on, though the other is emptier"
    )
    world.patch(first)
    world.settle()
    assert (size(world), world.requested(), cpus(world)) == ({"cpu": "4"}, 4000, "0-1,4-5")


def test_one_that_ends_while_it_grows_holds_nothing() -> None:
    world = held_cpus("2")
    resize(world, {"cpu": "6"})
    taken(world)
    world.wait(2 * 86400)
    world.settle()
    assert world.requested() == 0


def test_it_grows_on_its_own_numa_node_or_not_at_all() -> None:
    world = held_cpus("2", SINGLE)
    mine = json.loads(world.reservations["r"].metadata.annotations[STATUS])["numaNodeResources"][0]["node"]
    resize(world, {"cpu": "4"})
    world.settle()
    zones = json.loads(world.reservations["r"].metadata.annotations[STATUS])["numaNodeResources"]
    assert zones == [{"node": mine, "resources": {"cpu": "4"}}]
    assert cpus(world) == "0-3"
    resize(world, {"cpu": "6"})
    world.settle()
    assert "Unsatisfied NUMA cpu" in pending(world)
    assert (cpus(world), size(world)) == ("0-3", {"cpu": "4"})


def test_a_fraction_of_a_cpu_is_refused_where_cpus_are_its_own() -> None:
    world = held_cpus("2")
    resize(world, {"cpu": "2500m"})
    world.settle()
    assert pending(world) == "cannot be resized to cpu 2500m: the requested CPUs must be integer"
    assert (cpus(world), size(world)) == ("0-1", {"cpu": "2"})


@pytest.mark.parametrize("wrong", ["-4", "1e30", "many"])
def test_a_size_that_nobody_understands_is_told_and_changes_nothing(wrong: str) -> None:
    world = held_cpus("2")
    resize(world, {"cpu": wrong})
    world.settle()
    assert pending(world).startswith("cannot be resized: Reservation r: annotation ")
    assert "resources" in pending(world)
    assert (cpus(world), size(world), world.requested()) == ("0-1", {"cpu": "2"}, 2000)


def test_amounts_that_its_owners_have_of_the_node_already_are_not_asked_for_again() -> None:
    world = World(8)
    world.put(reservation(cpu="2", **MANY))
    world.settle()
    world.put(pod("mine", cpu="4"), pod("other", cpu="4", app="other"))
    world.settle()
    assert world.requested() == 8000
    resize(world, {"cpu": "4"})
    world.settle()
    assert (size(world), pending(world), world.requested()) == ({"cpu": "4"}, "", 8000)


@pytest.mark.parametrize(
    ("held", "wanted", "others", "expected"),
    [
        # A whole GPU more: beside its own, on the same PCIe switch.
        (100, 200, [], [0, 1]),
        # A part grows where it is, not elsewhere.
        (50, 100, [], [0]),
        (25, 50, [50], [0]),
        # It had a part of one and asks for two whole ones.
        (50, 200, [], [0, 1]),
        (100, 300, [], [0, 1, 2]),
    ],
)
def test_devices_grow_around_those_that_it_has(held: int, wanted: int, others: list[int], expected: list[int]) -> None:
    world = machine()
    world.put(reservation(cpu="1", more=share(held), **MANY))
    world.settle()
    for i, percent in enumerate(others):
        world.put(pod(f"other{i}", app="other", more=share(percent)))
    world.settle()
    resize(world, share(wanted))
    world.settle()
    assert (minors(world), pending(world)) == (expected, "")
    assert size(world)[f"{K}/gpu-core"] == str(wanted)
    world.put(pod("owner", more=share(wanted)))
    world.settle()
    said = json.loads(world.pods["shop/owner"].metadata.annotations[ALLOCATED])["gpu"]
    assert [each["minor"] for each in said] == expected


def test_a_part_of_a_gpu_does_not_grow_over_what_others_have_of_it() -> None:
    world = machine()
    world.put(reservation(cpu="1", more=share(50), **MANY))
    world.settle()
    (mine,) = minors(world)
    other = {"gpu": [{"minor": mine, "resources": share(50)}]}
    world.put(pod("other", app="other", more=share(50), on="n0", annotations={ALLOCATED: json.dumps(other)}))
    resize(world, share(100))
    world.settle()
    assert "devices" in pending(world)
    assert (minors(world), size(world)[f"{K}/gpu-core"]) == ([mine], "50")


def test_gpus_that_must_be_linked_grow_into_a_linked_set_or_not_at_all() -> None:
    links: dict[str, list[dict[str, Any]]] = {
        "1": [{"minors": [i], "gpuLinkType": "NVLink", "allocationScore": 1} for i in range(GPUS)],
        "2": [{"minors": pair, "gpuLinkType": "NVLink", "allocationScore": 1} for pair in ([0, 1], [2, 3])],
    }
    world = machine()
    tell_of_machine(world, labels=HONOUR, annotations={PARTITIONS: json.dumps(links)})
    world.put(reservation(cpu="1", more=share(100), **MANY))
    world.settle()
    (mine,) = minors(world)
    resize(world, share(200))
    world.settle()
    assert minors(world) == sorted([mine, mine ^ 1])
    resize(world, share(100))
    world.settle()
    (mine,) = minors(world)
    other = {"gpu": [{"minor": mine ^ 1, "resources": share(100)}]}
    world.put(pod("other", app="other", more=share(100), on="n0", annotations={ALLOCATED: json.dumps(other)}))
    resize(world, share(200))
    world.settle()
    assert pending(world)
    assert minors(world) == [mine]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    single=st.booleans(),
    held=st.sampled_from((1, 2)),
    wanted=st.integers(2, 8),
    others=st.sets(st.integers(0, 7), max_size=5),
    gpus=st.sampled_from(((50, 100), (25, 75), (100, 200), (100, 300), (200, 400))),
    taken=st.lists(st.tuples(st.integers(0, GPUS - 1), st.sampled_from((25, 50, 100))), max_size=3),
)
def test_it_grows_where_what_it_lacks_exists_and_only_there(
    single: bool,
    held: int,
    wanted: int,
    others: set[int],
    gpus: tuple[int, int],
    taken: list[tuple[int, int]],
) -> None:
    """On small machines: whether it grows is told by a look at every CPU and every GPU."""
    world = machine(SINGLE if single else None)
    world.put(reservation(cpu=str(held), more=share(gpus[0]), labels=LSR, **MANY))
    world.settle()
    mine, own_gpus = mask(cpus(world)), minors(world)
    used = dict.fromkeys(range(GPUS), 0)
    for minor in own_gpus:
        used[minor] = min(gpus[0], 100)
    there = [cpu for cpu in others if not mine >> cpu & 1]
    for cpu in there:
        # They hold CPUs and ask for next to nothing: what is left is told by CPUs alone.
        status = {STATUS: json.dumps({"cpuset": str(cpu)})}
        world.put(pod(f"cpu-{cpu}", cpu="1m", app="other", on="n0", labels=LSR, annotations=status))
    for i, (minor, percent) in enumerate(taken):
        if used[minor] + percent <= 100:
            used[minor] += percent
            allocated = {ALLOCATED: json.dumps({"gpu": [{"minor": minor, "resources": share(percent)}]})}
            world.put(pod(f"gpu-{i}", cpu="0", more=share(percent), app="other", on="n0", annotations=allocated))
    resize(world, {"cpu": str(wanted)} | share(gpus[1]))
    world.settle()
    free = [cpu for cpu in range(8) if not mine >> cpu & 1 and cpu not in there]
    zones = {0 if minor < 2 else 1 for minor in own_gpus} | {0 if cpu < 4 else 1 for cpu in range(8) if mine >> cpu & 1}
    whole = [minor for minor in range(GPUS) if minor not in own_gpus and not used[minor]]
    if gpus[1] <= 100:
        has_gpus = used[own_gpus[0]] + gpus[1] - gpus[0] <= 100
    else:
        has_gpus = len(whole) >= gpus[1] // 100 - len(own_gpus)
    if single:
        free = [cpu for cpu in free if cpu // 4 in zones]
        has_gpus = has_gpus and len([minor for minor in whole if minor // 2 in zones]) >= gpus[1] // 100 - len(own_gpus)
    can = has_gpus and len(free) >= wanted - held
    has_grown = size(world)["cpu"] == str(wanted) and size(world)[f"{K}/gpu-core"] == str(gpus[1])
    assert has_grown == can, pending(world)
    assert not mine & ~mask(cpus(world))
    assert set(own_gpus) <= set(minors(world))
    assert not mask(cpus(world)) & sum(1 << cpu for cpu in there)
    assert bool(pending(world)) == (not can)
