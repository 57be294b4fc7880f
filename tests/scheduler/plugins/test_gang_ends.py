"""What becomes of gangs when what they are made of changes or goes, in the middle of things."""

from __future__ import annotations

from msgspec.structs import replace

from koord.api.kinds import RESERVATIONS
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.reservation import Reservation
from koord.scheduler.core.decision import Bind
from tests.scheduler.gangs import PREFIX, World, member, pod_group

GROUPS = '["lab/left", "shop/right"]'


def test_an_owner_that_is_scaled_down_while_its_gang_waits_leaves_no_places_behind() -> None:
    world = World(2)
    pods = [member(f"p{i}", least=4) for i in range(4)]
    world.put(*pods)
    assert world.settle() == {}
    world.delete(*pods[2:])
    assert "has 2 of the 4 pods" in world.gate("shop/p0")
    world.delete(*pods[:2])
    assert not list(world.core.queue)
    assert not world.gangs.all
    assert not world.core.cluster.pods


def test_an_owner_that_is_scaled_down_while_its_gang_is_bound_gives_the_room_back() -> None:
    world = World(4)
    pods = [member(f"p{i}", least=4) for i in range(4)]
    world.put(*pods)
    [bind] = world.decide()
    assert isinstance(bind, Bind)
    world.delete(*pods[2:])
    for each in bind.members[:2]:
        world.core.bound(bind, each.ask)
        world.hear_bound(each.ask.key, each.node)
    for each in bind.members[2:]:
        world.core.refused(bind, each.ask)
    assert world.core.cluster.pods.keys() == {"shop/p0", "shop/p1"}
    assert not world.core.assumed
    assert not list(world.core.queue)


def test_a_pod_group_that_is_deleted_leaves_running_pods_alone_and_others_waiting() -> None:
    world = World(8)
    group = pod_group(least=2)
    world.put(group, *(member(f"p{i}", crd=True) for i in range(2)))
    assert len(world.settle()) == 2
    world.delete(group)
    world.put(member("late", crd=True))
    assert world.settle() == {}
    assert "PodGroup shop/train does not exist" in world.gate("shop/late")
    assert {"shop/p0", "shop/p1"} <= world.core.cluster.pods.keys()
    world.put(group)
    assert world.settle() == {"late": "n0"}


def test_a_pod_group_that_is_deleted_while_its_pods_wait_for_room_holds_nothing() -> None:
    world = World(1)
    group = pod_group(least=2)
    world.put(group, *(member(f"p{i}", crd=True) for i in range(2)))
    assert world.settle() == {}
    world.delete(group)
    assert "does not exist" in world.gate("shop/p0")
    assert not world.core.cluster.pods


def test_a_minimum_that_is_lowered_to_what_fits_lets_a_gang_go_that_was_tried_in_vain() -> None:
    world = World(2)
    world.put(pod_group(least=4), *(member(f"p{i}", crd=True) for i in range(4)))
    assert world.settle() == {}
    world.put(pod_group(least=2))
    world.wait(2)
    assert len(world.settle()) == 2


def test_a_minimum_that_is_raised_under_way_is_waited_for() -> None:
    world = World(8)
    world.put(pod_group(least=4), *(member(f"p{i}", crd=True) for i in range(3)))
    world.put(pod_group(least=6), member("p3", crd=True))
    assert world.settle() == {}
    assert "has 4 of the 6 pods" in world.gate("shop/p0")
    world.put(*(member(f"p{i}", crd=True) for i in range(4, 6)))
    assert len(world.settle()) == 6


def test_a_minimum_that_is_raised_while_a_gang_is_bound_takes_no_place_away() -> None:
    world = World(8)
    world.put(pod_group(least=2), *(member(f"p{i}", crd=True) for i in range(2)))
    [bind] = world.decide()
    world.put(pod_group(least=5))
    assert isinstance(bind, Bind)
    assert len(world.bind(bind)) == 2
    # One of its pods has a place: by the policy once-satisfied the rest may follow one by one.
    world.put(member("p2", crd=True))
    assert set(world.settle()) == {"p2"}


def test_a_group_of_gangs_across_namespaces_waits_for_a_gang_that_is_deleted_and_made_again() -> None:
    world = World(8)
    left = [member(f"l{i}", "left", least=2, namespace="lab", groups=GROUPS) for i in range(2)]
    right = [member(f"r{i}", "right", least=2, groups=GROUPS) for i in range(2)]
    world.put(*left, right[0])
    world.delete(*left)
    world.put(right[1])
    assert world.settle() == {}
    assert "gang lab/left" in world.gate("shop/r0")
    world.put(*left)
    assert set(world.settle()) == {"l0", "l1", "r0", "r1"}


def test_a_gang_that_leaves_its_group_no_longer_holds_the_others_up() -> None:
    world = World(8)
    right = pod_group("right", 2, metadata={"annotations": {"gang.scheduling.koordinator.sh/groups": GROUPS}})
    world.put(right, *(member(f"r{i}", "right", crd=True) for i in range(2)))
    assert world.settle() == {}
    world.put(replace(right, metadata=replace(right.metadata, annotations={})))
    assert set(world.settle()) == {"r0", "r1"}


def test_reservations_whose_template_names_a_gang_go_with_it() -> None:
    world = World(3)

    def room(name: str) -> Reservation:
        said = {f"{PREFIX}name": "train", f"{PREFIX}min-available": "3"}
        container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
        template = {"metadata": {"namespace": "shop", "annotations": said}, "spec": {"containers": [container]}}
        owners = [{"labelSelector": {"matchLabels": {"app": "train"}}}]
        spec = {"owners": owners, "ttl": "1h", "template": template}
        return convert(Reservation, {"metadata": {"name": name, "uid": name}, "spec": spec})

    for name in ("r0", "r1"):
        world.core.put(RESERVATIONS, room(name))
    assert "has 2 of the 3 pods" in world.gate("shop/reservation:r0")
    world.put(member("p", least=3))
    (bind,) = world.decide()
    assert isinstance(bind, Bind)
    assert sorted(member.ask.key for member in bind.members) == ["shop/p", "shop/reservation:r0", "shop/reservation:r1"]
