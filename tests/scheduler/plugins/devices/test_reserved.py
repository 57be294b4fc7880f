"""Reservations of devices: held like a pod's, written on the reservation, and given to its owners."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from koord.api.kinds import DEVICES
from koord.scheduler.plugins.devices.ledger import Devices
from tests.scheduler.builders import node
from tests.scheduler.plugins.devices.machines import ALLOCATED, K, device, gpu
from tests.scheduler.reservations import PREFIX, World, pod, reservation

WHOLE = {f"{K}/gpu-core": "100", f"{K}/gpu-memory-ratio": "100"}
HALF = {f"{K}/gpu-core": "50", f"{K}/gpu-memory-ratio": "50"}
QUARTER = {f"{K}/gpu-core": "25", f"{K}/gpu-memory-ratio": "25"}
ONLY: dict[str, Any] = {"allocateOnce": False, "allocatePolicy": "Restricted"}
TOTALS = {f"{K}/gpu-core": "200", f"{K}/gpu-memory-ratio": "200", f"{K}/gpu.shared": "100"}


def world() -> World:
    found = World(node("n0", cpu="32", extended=TOTALS))
    found.core.put(DEVICES, device("n0", [gpu(0), gpu(1)]))
    return found


def minors(world: World, key: str) -> list[int]:
    said = world.pods[key].metadata.annotations.get(ALLOCATED, "{}")
    return [each["minor"] for each in json.loads(said).get("gpu", [])]


def test_owners_get_the_devices_of_their_reservation_and_others_do_not() -> None:
    found = world()
    found.put(reservation(more=WHOLE, allocateOnce=False))
    assert found.settle() == {"reservation:r": "n0"}
    assert json.loads(found.reservations["r"].metadata.annotations[ALLOCATED])["gpu"][0]["minor"] == 0
    found.put(pod("other", app="other", more=WHOLE), pod("late", app="other", more=HALF))
    found.settle()
    assert (minors(found, "shop/other"), minors(found, "shop/late")) == ([1], [])
    found.put(pod("a", more=HALF), pod("b", more=HALF))
    found.settle()
    assert (minors(found, "shop/a"), minors(found, "shop/b")) == ([0], [0])
    found.put(pod("c", more=HALF))
    found.settle()
    assert minors(found, "shop/c") == []


def test_a_restarted_scheduler_holds_the_same_devices_for_the_same_pods() -> None:
    found = world()
    found.put(reservation(more=WHOLE, allocateOnce=False))
    found.settle()
    found.put(pod("a", more=HALF))
    found.settle()
    again = found.restarted()
    again.core.put(DEVICES, device("n0", [gpu(0), gpu(1)]))
    row = again.core.cluster.table.row_of["n0"]
    before, after = (world.core.cluster.notes(Devices).usage(row) for world in (found, again))
    assert before is not None
    assert after is not None
    assert (before.amounts, before.holders) == (after.amounts, after.holders)
    again.put(pod("b", more=HALF), pod("other", app="other", more=WHOLE))
    again.settle()
    assert (minors(again, "shop/b"), minors(again, "shop/other")) == ([0], [1])


def test_devices_are_free_again_when_their_reservation_is_gone() -> None:
    found = world()
    found.put(reservation(more=WHOLE))
    found.settle()
    found.delete("r")
    found.put(*(pod(f"p{i}", app="other", more=WHOLE) for i in range(2)))
    found.settle()
    assert sorted(minors(found, "shop/p0") + minors(found, "shop/p1")) == [0, 1]


def test_what_an_attempt_that_came_to_nothing_said_is_not_counted_and_taken_back() -> None:
    found = world()
    stale = {ALLOCATED: '{"gpu": [{"minor": 1, "resources": {"koordinator.sh/gpu-core": "100"}}]}'}
    found.put(pod("waits", more=HALF, annotations=stale), pod("plain", app="other", annotations=stale))
    found.settle()
    assert minors(found, "shop/waits") == [0]
    assert ALLOCATED not in found.pods["shop/plain"].metadata.annotations


def test_owners_are_not_misled_when_other_devices_of_the_node_come_and_go() -> None:
    found = world()
    both, one = device("n0", [gpu(0), gpu(1)]), device("n0", [gpu(1)])
    found.put(pod("first", app="other", more=WHOLE))
    found.settle()
    found.put(reservation(more=WHOLE, allocateOnce=False))
    found.settle()
    found.core.put(DEVICES, one, both)
    found.put(pod("a", more=HALF), pod("late", app="other", more=HALF))
    found.settle()
    assert (minors(found, "shop/a"), minors(found, "shop/late")) == ([1], [])
    found.core.put(DEVICES, both, one)
    found.put(pod("b", more=HALF))
    found.settle()
    assert minors(found, "shop/b") == [1]


def test_what_owners_have_of_a_shared_gpu_comes_out_of_what_is_held_for_them() -> None:
    found = World(node("n0", cpu="32", extended=dict.fromkeys(WHOLE, "100")))
    found.core.put(DEVICES, device("n0", [gpu(0)]))
    found.put(reservation(more=HALF, allocateOnce=False))
    found.settle()
    found.put(pod("a", more=QUARTER), pod("b", more=QUARTER))
    found.settle()
    # 50% are held, all of it used by now: the other half is for others.
    found.put(pod("other", app="other", more=HALF), pod("late", app="other", more=QUARTER))
    found.settle()
    assert (minors(found, "shop/other"), minors(found, "shop/late")) == ([0], [])
    found.delete("shop/a", "shop/b")
    found.settle()
    # What owners gave back is held again.
    assert minors(found, "shop/late") == []
    found.put(pod("c", more=HALF))
    found.settle()
    assert minors(found, "shop/c") == [0]


def test_owners_of_a_restricted_reservation_get_its_devices_and_no_others() -> None:
    found = world()
    found.put(reservation(more=HALF, **ONLY), pod("owner", more=WHOLE))
    found.settle()
    assert minors(found, "shop/owner") == [1], "a whole one, beside the reservation: it need not come out of it"
    found.delete("shop/owner")
    found.put(pod("must", more=WHOLE, affinity="{}"))
    found.settle()
    assert minors(found, "shop/must") == []
    found.put(pod("small", more=HALF, affinity="{}"), pod("next", more=QUARTER, affinity="{}"))
    found.settle()
    assert (minors(found, "shop/small"), minors(found, "shop/next")) == ([0], [])


def test_a_restricted_reservation_that_limits_other_resources_prefers_its_devices() -> None:
    options = {"scheduling.koordinator.sh/reservation-restricted-options": '{"resources": ["cpu"]}'}
    found = world()
    found.put(reservation(more=HALF, annotations=options, **ONLY))
    found.settle()
    found.put(pod("first", more=HALF, affinity="{}"), pod("second", more=HALF, affinity="{}"))
    found.settle()
    assert (minors(found, "shop/first"), minors(found, "shop/second")) == ([0], [1])


def test_of_two_reservations_the_one_is_taken_whose_devices_suffice() -> None:
    found = world()
    small = {f"{PREFIX}reservation-order": "1"}
    found.put(reservation("small", more=QUARTER, labels=small, **ONLY), reservation("large", more=WHOLE, **ONLY))
    assert found.settle() == {"reservation:small": "n0", "reservation:large": "n0"}
    found.put(pod("a", more=HALF, affinity="{}"), pod("b", more=HALF, affinity="{}"))
    found.settle()
    assert (found.inside("shop/a"), found.inside("shop/b")) == ("large", "large")
    assert minors(found, "shop/a") == minors(found, "shop/b") == [1]
    found.put(pod("c", more=QUARTER, affinity="{}"))
    found.settle()
    assert (found.inside("shop/c"), minors(found, "shop/c")) == ("small", [0])


def test_a_pod_hears_that_its_reservation_has_no_such_devices_though_enough_in_all() -> None:
    found = world()
    halves = {f"{K}/gpu.shared": "2", f"{K}/gpu-core": "100", f"{K}/gpu-memory-ratio": "100"}
    found.put(reservation(more=halves, **ONLY))
    assert found.settle() == {"reservation:r": "n0"}
    found.put(pod("whole", more=WHOLE, affinity="{}"))
    told = found.nowhere()
    assert told.placement.rejections == {"Reservation(s) Insufficient gpu devices": 1}
    text = "0/1 reservations are available: 1 Reservation(s) Insufficient gpu devices."
    assert told.remedy.event == ("FailedScheduling-Reservation", text)


def test_a_reservation_that_takes_a_running_pod_over_holds_the_devices_of_that_pod() -> None:
    found = world()
    found.put(pod("other", app="other", more=WHOLE))
    found.settle()
    found.put(pod("runs", more=WHOLE))
    found.settle()
    assert (minors(found, "shop/other"), minors(found, "shop/runs")) == ([0], [1])
    found.put(reservation(more=WHOLE, preAllocation=True, **ONLY))
    assert found.settle() == {"reservation:r": "n0"}
    assert found.inside("shop/runs") == "r"
    assert json.loads(found.reservations["r"].metadata.annotations[ALLOCATED])["gpu"][0]["minor"] == 1
    found.delete("shop/runs")
    found.put(pod("late", app="other", more=HALF), pod("owner", more=WHOLE))
    found.settle()
    assert (minors(found, "shop/late"), minors(found, "shop/owner")) == ([], [1])


def shrink(found: World, resources: dict[str, str]) -> list[dict[str, Any]]:
    """The GPUs that it has afterwards."""
    held = found.reservations["r"]
    said = {f"{PREFIX}reservation-resize-allocatable": json.dumps({"resources": resources})}
    annotations = {**held.metadata.annotations, **said}
    found.put(replace(held, metadata=replace(held.metadata, annotations=annotations)))
    found.settle()
    gpus: list[dict[str, Any]] = json.loads(found.reservations["r"].metadata.annotations.get(ALLOCATED, "{}")).get(
        "gpu", []
    )
    return gpus


def test_one_that_is_made_smaller_gives_back_devices_that_no_owner_has() -> None:
    found = world()
    found.put(reservation(more=dict.fromkeys(WHOLE, "200"), allocateOnce=False))
    found.settle()
    found.put(pod("a", more=HALF))
    found.settle()
    (mine,) = minors(found, "shop/a")
    assert [each["minor"] for each in shrink(found, WHOLE)] == [mine]
    found.put(pod("other", app="other", more=WHOLE))
    found.wait(60)
    found.settle()
    assert minors(found, "shop/other") == [1 - mine]


def test_one_that_is_made_smaller_gives_back_a_part_of_a_device() -> None:
    found = world()
    found.put(reservation(more=WHOLE, allocateOnce=False))
    found.settle()
    (gpu_left,) = shrink(found, HALF)
    assert {gpu_left["resources"][name] for name in HALF} == {"50"}
    # The other GPU first, and a half of this one.
    found.put(*(pod(f"p{i}", app="other", more=HALF) for i in range(4)))
    found.settle()
    assert sorted(len(minors(found, f"shop/p{i}")) for i in range(4)) == [0, 1, 1, 1]
