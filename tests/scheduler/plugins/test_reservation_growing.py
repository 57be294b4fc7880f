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
    found = World(node("n0", cpu="8", memory="96Gi", labels=labels, extended=share(100 * GPUS)))
    tell_of_machine(found)
    return found


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
    said = [each.message for each in found.reservations["r"].status.conditions if each.type == "ResizePending"]
    return said[0] if said else ""


def bound(name: str, cpu: str, **more: Any) -> Any:
    return pod(name, cpu=cpu, labels=LSR, priority=9500, **more)


def held_cpus(cpu: str, labels: dict[str, str] | None = None) -> World:
    found = machine(labels)
    found.put(reservation(cpu=cpu, labels=LSR, **MANY))
    found.settle()
    return found


def taken(found: World) -> list[Patch]:
    """What should be written, and is not."""
    return [each for each in found.core.take_writes() if isinstance(each, Patch)]


def test_it_gets_more_cpus_and_keeps_those_that_it_has() -> None:
    found = held_cpus("2")
    found.put(bound("mine", "2"), bound("other", "2", app="other"))
    found.settle()
    assert (cpus(found), cpus(found, "shop/other"), cpus(found, "shop/mine")) == ("0-1", "4-5", "0-1")
    resize(found, {"cpu": "6"})
    found.settle()
    assert (cpus(found), size(found), pending(found)) == ("0-3,6-7", {"cpu": "6"}, "")
    found.put(bound("late", "2", app="other"), bound("more", "4"))
    found.wait(30)
    found.settle()
    assert (cpus(found, "shop/late"), cpus(found, "shop/more")) == ("", "2-3,6-7")
    assert restarted(found).requested() == found.requested() == 8000


def test_one_that_cannot_grow_says_why_loses_nothing_and_grows_when_there_is_room() -> None:
    found = held_cpus("2")
    found.put(bound("other", "4", app="other"))
    found.settle()
    before, at = cpus(found), found.requested()
    resize(found, {"cpu": "6"})
    told = found.core.take_writes()
    events = [(each.reason, each.type) for each in told if isinstance(each, Tell)]
    assert events == [("ResizePending", "Warning")]
    for each in told:
        if isinstance(each, Patch):
            found.patch(each)
    found.settle()
    assert pending(found) == "cannot be resized to cpu 6: Insufficient cpu"
    assert (cpus(found), size(found), found.requested()) == (before, {"cpu": "2"}, at)
    assert not found.core.take_writes(), "it has said so"
    found.delete("shop/other")
    found.settle()
    assert (size(found), pending(found), len(cpus(found)) > len(before)) == ({"cpu": "6"}, "", True)


def test_cpus_may_be_missing_where_amounts_suffice() -> None:
    found = held_cpus("2")
    found.put(bound("taker", "4", app="other"))
    found.settle()
    # It has 4 CPUs of its own, and asks for fewer since then.
    there = found.pods["shop/taker"]
    (container,) = there.spec.containers
    less = replace(container, resources=replace(container.resources, requests={"cpu": "2"}))
    found.put(replace(there, spec=replace(there.spec, containers=(less,))))
    resize(found, {"cpu": "5"})
    found.settle()
    assert pending(found) == "cannot be resized to cpu 5: not enough cpus available to satisfy request"
    assert (cpus(found), size(found)) == ("0-1", {"cpu": "2"})


def test_what_it_was_given_is_nobody_elses_before_the_object_says_so() -> None:
    found = held_cpus("2")
    resize(found, {"cpu": "6"})
    told = taken(found)
    assert [each.subresource for each in told] == [""], "first what it holds, then what it reserves"
    found.put(bound("quick", "4", app="other"), bound("small", "2", app="other"))
    placed = []
    while (decided := found.decide()) is not None:
        placed += [decided.ask.meta.name] if isinstance(decided, Bind) else []
    assert (placed, found.requested()) == (["small"], 8000)
    found.patch(told[0])
    assert found.requested() == 8000, "the amounts count though the status does not say so yet"
    found.settle()
    assert (size(found), found.requested()) == ({"cpu": "6"}, 8000)


@pytest.mark.parametrize("killed", ["before any write", "between the two writes"])
def test_a_scheduler_killed_while_one_grows_ends_with_the_same(killed: str) -> None:
    found = held_cpus("2")
    found.put(bound("mine", "2"))
    found.settle()
    resize(found, {"cpu": "6"})
    (first,) = taken(found)
    if killed == "between the two writes":
        found.patch(first)
        taken(found)
    again = restarted(found)
    again.settle()
    assert (size(again), again.requested(), pending(again)) == ({"cpu": "6"}, 6000, "")
    assert cpus(again) == json.loads(first.body["metadata"]["annotations"][STATUS])["cpuset"]


def test_a_scheduler_killed_between_the_writes_gives_back_what_there_is_no_room_for_any_more() -> None:
    found = held_cpus("2")
    resize(found, {"cpu": "6"})
    (first,) = taken(found)
    found.patch(first)
    taken(found)
    # In the meantime a user binds a pod there by hand.
    found.put(pod("by-hand", cpu="5", app="other", on="n0"))
    again = restarted(found)
    again.settle()
    assert (size(again), cpus(again)) == ({"cpu": "2"}, "0-1")
    assert pending(again) == "cannot be resized to cpu 6: Insufficient cpu"


def test_one_that_is_asked_to_shrink_again_before_it_has_grown_gives_back() -> None:
    found = held_cpus("2")
    resize(found, {"cpu": "6"})
    (first,) = taken(found)
    resize(found, {"cpu": "4"})
    assert found.requested() == 2000
    found.settle()
    assert (size(found), cpus(found)) == ({"cpu": "4"}, "0-3"), (
        "on the NUMA node that it is on, though the other is emptier"
    )
    found.patch(first)
    found.settle()
    assert (size(found), found.requested(), cpus(found)) == ({"cpu": "4"}, 4000, "0-1,4-5")


def test_one_that_ends_while_it_grows_holds_nothing() -> None:
    found = held_cpus("2")
    resize(found, {"cpu": "6"})
    taken(found)
    found.wait(2 * 86400)
    found.settle()
    assert found.requested() == 0


def test_it_grows_on_its_own_numa_node_or_not_at_all() -> None:
    found = held_cpus("2", SINGLE)
    mine = json.loads(found.reservations["r"].metadata.annotations[STATUS])["numaNodeResources"][0]["node"]
    resize(found, {"cpu": "4"})
    found.settle()
    zones = json.loads(found.reservations["r"].metadata.annotations[STATUS])["numaNodeResources"]
    assert zones == [{"node": mine, "resources": {"cpu": "4"}}]
    assert cpus(found) == "0-3"
    resize(found, {"cpu": "6"})
    found.settle()
    assert "Unsatisfied NUMA cpu" in pending(found)
    assert (cpus(found), size(found)) == ("0-3", {"cpu": "4"})


def test_a_fraction_of_a_cpu_is_refused_where_cpus_are_its_own() -> None:
    found = held_cpus("2")
    resize(found, {"cpu": "2500m"})
    found.settle()
    assert pending(found) == "cannot be resized to cpu 2500m: the requested CPUs must be integer"
    assert (cpus(found), size(found)) == ("0-1", {"cpu": "2"})


@pytest.mark.parametrize("wrong", ["-4", "1e30", "many"])
def test_a_size_that_nobody_understands_is_told_and_changes_nothing(wrong: str) -> None:
    found = held_cpus("2")
    resize(found, {"cpu": wrong})
    found.settle()
    assert pending(found).startswith("cannot be resized: Reservation r: annotation ")
    assert "resources" in pending(found)
    assert (cpus(found), size(found), found.requested()) == ("0-1", {"cpu": "2"}, 2000)


def test_amounts_that_its_owners_have_of_the_node_already_are_not_asked_for_again() -> None:
    found = World(8)
    found.put(reservation(cpu="2", **MANY))
    found.settle()
    found.put(pod("mine", cpu="4"), pod("other", cpu="4", app="other"))
    found.settle()
    assert found.requested() == 8000
    resize(found, {"cpu": "4"})
    found.settle()
    assert (size(found), pending(found), found.requested()) == ({"cpu": "4"}, "", 8000)


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
    found = machine()
    found.put(reservation(cpu="1", more=share(held), **MANY))
    found.settle()
    for i, percent in enumerate(others):
        found.put(pod(f"other{i}", app="other", more=share(percent)))
    found.settle()
    resize(found, share(wanted))
    found.settle()
    assert (minors(found), pending(found)) == (expected, "")
    assert size(found)[f"{K}/gpu-core"] == str(wanted)
    found.put(pod("owner", more=share(wanted)))
    found.settle()
    said = json.loads(found.pods["shop/owner"].metadata.annotations[ALLOCATED])["gpu"]
    assert [each["minor"] for each in said] == expected


def test_a_part_of_a_gpu_does_not_grow_over_what_others_have_of_it() -> None:
    found = machine()
    found.put(reservation(cpu="1", more=share(50), **MANY))
    found.settle()
    (mine,) = minors(found)
    other = {"gpu": [{"minor": mine, "resources": share(50)}]}
    found.put(pod("other", app="other", more=share(50), on="n0", annotations={ALLOCATED: json.dumps(other)}))
    resize(found, share(100))
    found.settle()
    assert "devices" in pending(found)
    assert (minors(found), size(found)[f"{K}/gpu-core"]) == ([mine], "50")


def test_gpus_that_must_be_linked_grow_into_a_linked_set_or_not_at_all() -> None:
    links: dict[str, list[dict[str, Any]]] = {
        "1": [{"minors": [i], "gpuLinkType": "NVLink", "allocationScore": 1} for i in range(GPUS)],
        "2": [{"minors": pair, "gpuLinkType": "NVLink", "allocationScore": 1} for pair in ([0, 1], [2, 3])],
    }
    found = machine()
    tell_of_machine(found, labels=HONOUR, annotations={PARTITIONS: json.dumps(links)})
    found.put(reservation(cpu="1", more=share(100), **MANY))
    found.settle()
    (mine,) = minors(found)
    resize(found, share(200))
    found.settle()
    assert minors(found) == sorted([mine, mine ^ 1])
    resize(found, share(100))
    found.settle()
    (mine,) = minors(found)
    other = {"gpu": [{"minor": mine ^ 1, "resources": share(100)}]}
    found.put(pod("other", app="other", more=share(100), on="n0", annotations={ALLOCATED: json.dumps(other)}))
    resize(found, share(200))
    found.settle()
    assert pending(found)
    assert minors(found) == [mine]


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
    found = machine(SINGLE if single else None)
    found.put(reservation(cpu=str(held), more=share(gpus[0]), labels=LSR, **MANY))
    found.settle()
    mine, own_gpus = mask(cpus(found)), minors(found)
    used = dict.fromkeys(range(GPUS), 0)
    for minor in own_gpus:
        used[minor] = min(gpus[0], 100)
    there = [cpu for cpu in others if not mine >> cpu & 1]
    for cpu in there:
        # They hold CPUs and ask for next to nothing: what is left is told by CPUs alone.
        status = {STATUS: json.dumps({"cpuset": str(cpu)})}
        found.put(pod(f"cpu-{cpu}", cpu="1m", app="other", on="n0", labels=LSR, annotations=status))
    for i, (minor, percent) in enumerate(taken):
        if used[minor] + percent <= 100:
            used[minor] += percent
            allocated = {ALLOCATED: json.dumps({"gpu": [{"minor": minor, "resources": share(percent)}]})}
            found.put(pod(f"gpu-{i}", cpu="0", more=share(percent), app="other", on="n0", annotations=allocated))
    resize(found, {"cpu": str(wanted)} | share(gpus[1]))
    found.settle()
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
    has_grown = size(found)["cpu"] == str(wanted) and size(found)[f"{K}/gpu-core"] == str(gpus[1])
    assert has_grown == can, pending(found)
    assert not mine & ~mask(cpus(found))
    assert set(own_gpus) <= set(minors(found))
    assert not mask(cpus(found)) & sum(1 << cpu for cpu in there)
    assert bool(pending(found)) == (not can)
