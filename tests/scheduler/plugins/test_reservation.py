"""Reservations are placed like pods, held for their owners, and used by them: the specification's worked examples."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from koord.api.configuration.scheduler_config import parse
from koord.api.kinds import NODE_METRICS
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.crd.reservation import ReservationPhase
from koord.scheduler.core.decision import Bind, Nowhere
from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.reservation import fitting
from koord.scheduler.plugins.reservation.owners import owns
from tests.scheduler.builders import node
from tests.scheduler.reservations import APP, MADE, PREFIX, World, pod, reservation

MANY: dict[str, Any] = {"allocateOnce": False}
GIB = 1024**3


def cpus(number: float) -> str:
    return f"{int(number * 1000)}m"


def example(**of_a: Any) -> World:
    """The specification's node: 32 CPUs, ordinary pods 10, reservation A of 8 with one owner that uses 4."""
    world = World(node("n0", cpu="32", memory="128Gi", extended={"nvidia.com/gpu": "8"}))
    world.put(reservation("a", cpu="8", on="n0", **{**MANY, **of_a}))
    world.put(pod("ordinary", cpu="10", app="other", on="n0"), pod("owner", cpu="4", on="n0", inside="a"))
    return world


def words_against(world: World, name: str, **of_pod: Any) -> dict[str, int]:
    """Why a pod finds no place; nothing where it does."""
    world.put(pod(name, **of_pod))
    decision = world.decide()
    if isinstance(decision, Bind):
        return {}
    assert isinstance(decision, Nowhere)
    return dict(decision.placement.rejections)


class TestBecomingAvailable:
    def test_a_reservation_is_placed_like_a_pod_and_says_where(self) -> None:
        world = World(4, 16)
        world.put(reservation(cpu="8", memory="2Gi"))
        assert world.settle() == {"reservation:r": "n1"}
        status = world.reservations["r"].status
        assert (status.phase, status.node_name) == (ReservationPhase.AVAILABLE, "n1")
        assert dict(status.allocatable) == {"cpu": "8", "memory": "2Gi"}
        assert [(condition.type, condition.status, condition.reason) for condition in status.conditions] == [
            ("Scheduled", "True", "Scheduled"),
            ("Ready", "True", "Available"),
        ]

    def test_it_is_held_like_a_running_pod(self) -> None:
        world = World(8)
        world.put(reservation(cpu="6"))
        world.settle()
        assert world.requested() == 6000
        assert words_against(world, "other", app="other", cpu="3") == {"Insufficient cpu": 1}

    def test_it_waits_as_long_as_it_fits_nowhere_and_says_why(self) -> None:
        world = World(4)
        world.put(reservation(cpu="6"))
        decision = world.nowhere()
        assert decision.placement.rejections == {"Insufficient cpu": 1}
        world.put(node("n1", cpu="8"))
        world.wait(10)
        assert world.settle() == {"reservation:r": "n1"}

    def test_it_evicts_nobody(self) -> None:
        world = World(8)
        world.put(pod("low", cpu="8", app="other", on="n0", priority=-10))
        world.put(reservation(cpu="6"))
        assert world.nowhere().remedy.victims == ()

    def test_a_template_with_a_node_goes_only_there(self) -> None:
        world = World(16, 8)
        world.put(reservation(cpu="6", template={"nodeName": "n1"}))
        assert world.settle() == {"reservation:r": "n1"}
        world.put(reservation("second", cpu="6", template={"nodeName": "n1"}))
        against = world.nowhere().placement.rejections
        assert against == {"Insufficient cpu": 1, "node(s) didn't match the nodeName specified by reservation": 1}

    def test_reservations_of_another_scheduler_are_left_alone(self) -> None:
        world = World(8)
        world.put(reservation(template={"schedulerName": "volcano"}))
        assert world.settle() == {}

    def test_labels_of_the_reservation_come_over_those_of_the_template(self) -> None:
        world = World(8)
        world.put(reservation(labels={"app": "mine"}))
        world.settle()
        record, _ = world.core.cluster.pods["default/reservation:r"]
        assert record.labels["app"] == "mine"

    def test_default_and_other_policies_do_not_share_a_node(self) -> None:
        world = World(8)
        world.put(reservation("plain", cpu="1", on="n0"))
        world.put(reservation("strict", cpu="1", allocatePolicy="Restricted"))
        assert world.nowhere().placement.rejections == {"node(s) reservation allocate policy conflict": 1}
        world.delete("plain")
        world.put(reservation("aligned", cpu="1", on="n0", allocatePolicy="Aligned"))
        world.wait(10)
        assert world.settle() == {"reservation:strict": "n0"}


class TestOwners:
    @pytest.mark.parametrize(
        ("owner", "is_owner"),
        [
            ({"labelSelector": {"matchLabels": {"app": "web"}}}, True),
            ({"labelSelector": {"matchLabels": {"app": "db"}}}, False),
            ({"object": {"name": "p", "namespace": "shop"}}, True),
            ({"object": {"name": "p", "namespace": "else"}}, False),
            ({"object": {"uid": "uid-p"}}, True),
            ({"object": {"uid": "uid-q"}}, False),
            ({"object": {"apiVersion": "apps/v1", "name": "p"}}, False),
            ({"controller": {"kind": "ReplicaSet", "name": "rs", "controller": True}}, True),
            ({"controller": {"name": "rs", "namespace": "shop"}}, True),
            ({"controller": {"name": "rs", "namespace": "else"}}, False),
            ({"controller": {"uid": "other"}}, False),
            ({"object": {"name": "p"}, "labelSelector": {"matchLabels": {"app": "db"}}}, False),
            ({}, True),
        ],
    )
    def test_an_entry_is_matched_by_all_that_it_gives(self, owner: dict[str, Any], is_owner: bool) -> None:
        world = World(8)
        world.put(reservation(cpu="8", owners=[owner]))
        world.settle()
        made = pod("p", cpu="2")
        references = [{"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "rs", "uid": "u", "controller": True}]
        made = pod("p", cpu="2")
        meta = replace(made.metadata, owner_references=_references(references))
        world.put(replace(made, metadata=meta))
        placed = world.settle()
        assert placed == ({"p": "n0"} if is_owner else {})
        assert owns(world.reservations["r"].spec.owners, meta) is is_owner

    def test_one_of_several_entries_is_enough(self) -> None:
        world = World(8)
        world.put(reservation(cpu="8", owners=[{"object": {"name": "x"}}, {"labelSelector": {"matchLabels": APP}}]))
        world.settle()
        world.put(pod("p", cpu="8"))
        assert world.settle() == {"p": "n0"}


def _references(raw: list[dict[str, Any]]) -> Any:
    return convert(Pod, {"metadata": {"ownerReferences": raw}}).metadata.owner_references


class TestUsing:
    def test_a_pod_says_which_reservation_it_came_out_of(self) -> None:
        world = World(8)
        world.put(reservation(cpu="8"))
        world.settle()
        world.put(pod("p", cpu="8"))
        world.settle()
        assert world.inside("shop/p") == "r"

    def test_one_for_a_single_owner_succeeds_and_gives_the_rest_back(self) -> None:
        world = World(8)
        world.put(reservation(cpu="8"))
        world.settle()
        world.put(pod("p", cpu="3"))
        world.settle()
        status = world.reservations["r"].status
        assert status.phase is ReservationPhase.SUCCEEDED
        assert [owner.name for owner in status.current_owners] == ["p"]
        assert dict(status.allocated) == {"cpu": "3"}
        assert world.requested() == 3000

    def test_one_for_many_is_shared_until_it_is_full(self) -> None:
        world = World(8)
        world.put(reservation(cpu="8", **MANY))
        world.settle()
        for name in ("p1", "p2"):
            world.put(pod(name, cpu="4"))
        world.settle()
        assert [world.inside(f"shop/{name}") for name in ("p1", "p2")] == ["r", "r"]
        status = world.reservations["r"].status
        assert (status.phase, dict(status.allocated)) == (ReservationPhase.AVAILABLE, {"cpu": "8"})
        assert words_against(world, "p3", cpu="1") == {"Insufficient cpu": 1}

    def test_the_room_of_an_owner_that_leaves_is_held_again(self) -> None:
        world = World(8)
        world.put(reservation(cpu="8", **MANY))
        world.settle()
        world.put(pod("p", cpu="8"))
        world.settle()
        world.delete("shop/p")
        world.settle()
        assert world.requested() == 8000
        assert dict(world.reservations["r"].status.allocated) == {}
        assert words_against(world, "other", app="other", cpu="1") == {"Insufficient cpu": 1}

    def test_a_pod_that_waited_takes_the_room_when_it_becomes_available(self) -> None:
        world = World(8)
        world.put(pod("full", cpu="8", app="other", on="n0"))
        world.put(pod("p", cpu="8"))
        world.nowhere()
        world.put(reservation(cpu="8", on="n0"))
        world.delete("shop/full")
        world.wait(10)
        assert world.settle() == {"p": "n0"}

    def test_a_pod_turned_away_by_amounts_alone_is_woken_by_a_reservation(self) -> None:
        world = World(8, 2)
        world.put(reservation("a", cpu="8", on="n0", unschedulable=True))
        world.put(pod("p", cpu="8"))
        world.nowhere()
        world.put(reservation("a", cpu="8", on="n0"))
        world.wait(10)
        assert world.settle() == {"p": "n0"}

    def test_owners_go_where_their_room_is(self) -> None:
        world = World(64, 16, 64)
        world.put(reservation(cpu="4", on="n1"))
        world.put(pod("p", cpu="4"))
        assert world.settle() == {"p": "n1"}

    def test_what_an_attempt_said_that_came_to_nothing_is_taken_back(self) -> None:
        world = World(8)
        made = pod("p", cpu="1", annotations={f"{PREFIX}reservation-allocated": '{"name":"old","uid":"uid-old"}'})
        world.put(made)
        world.settle()
        assert f"{PREFIX}reservation-allocated" not in world.pods["shop/p"].metadata.annotations

    def test_ports_of_a_reservation_are_kept_for_its_owners(self) -> None:
        ports = [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}]
        containers = [{"name": "c", "ports": ports, "resources": {"requests": {"cpu": "1"}}}]
        world = World(8)
        world.put(reservation(cpu="1", template={"containers": containers}))
        world.settle()
        against = words_against(world, "other", app="other", containers=containers)
        assert against == {"node(s) didn't have free ports for the requested pod ports": 1}
        world.put(pod("p", containers=containers))
        assert world.settle() == {"p": "n0"}


class TestWorkedExamples:
    def test_26_others_see_what_is_used_once(self) -> None:
        world = example()
        assert world.requested() == 18_000
        assert words_against(world, "p", app="x", cpu="15") == {"Insufficient cpu": 1}
        assert words_against(world, "q", app="x", cpu="14") == {}

    def test_27_owners_of_an_aligned_one_get_the_rest_and_what_the_node_has(self) -> None:
        world = example(allocatePolicy="Aligned")
        ask = Ask(pod("p", cpu="18"))
        engine = world.core.engines["koord-scheduler"]
        view = engine.class_of(ask).view
        assert view is not None
        row = world.core.cluster.table.row_of["n0"]
        assert view.columns["requested", "cpu"].item(row) == 14_000
        assert words_against(world, "q", cpu="19") == {"Insufficient cpu": 1}
        assert words_against(world, "p", cpu="18") == {}

    @pytest.mark.parametrize(
        ("cpu", "affinity", "against"),
        [
            (4, "{}", {}),
            (5, "{}", {"Reservation(s) Insufficient cpu": 1}),
            (5, None, {}),
            (14, None, {}),
            (15, None, {"Insufficient cpu by node": 1}),
            (18, None, {"Insufficient cpu by node": 1}),
            (19, None, {"Insufficient cpu": 1}),
        ],
    )
    def test_28_a_restricted_one(self, cpu: int, affinity: str | None, against: dict[str, int]) -> None:
        world = example(allocatePolicy="Restricted")
        assert words_against(world, "p", cpu=str(cpu), affinity=affinity) == against

    def test_28_a_pod_that_goes_beside_a_restricted_one_did_not_come_out_of_it(self) -> None:
        world = example(allocatePolicy="Restricted")
        world.put(pod("p", cpu="5"))
        world.settle()
        assert world.inside("shop/p") == ""
        assert world.requested() == 23_000

    def test_29_what_is_reserved_inside_is_kept_from_owners(self) -> None:
        inner = {"node.koordinator.sh/reservation": '{"resources":{"cpu":"1"}}'}
        world = example(allocatePolicy="Restricted", annotations=inner)
        against = words_against(world, "p", cpu="4", affinity='{"name":"a"}')
        assert against == {"Reservation(s) Insufficient cpu, requested: 4000, used: 4000, capacity: 7000": 1}

    def test_30_scores(self) -> None:
        world = World(64, 64, 64)
        world.put(reservation("a", cpu="4", memory="16Gi", on="n0", **MANY))
        world.put(pod("owner", cpu="1", memory="4Gi", on="n0", inside="a"))
        room = world.rooms.named("a")
        assert room is not None
        assert fitting.score((("cpu", 2000), ("memory", 4 * GIB)), room) == (75 + 50) // 2
        assert fitting.score((("cpu", 4000), ("memory", 4 * GIB)), room) == (0 + 50) // 2

    def test_30_scores_are_compared_with_the_highest_and_the_first_by_order_wins(self) -> None:
        def raw(on: str, cpu: str, memory: str, **more: Any) -> None:
            world.put(reservation(f"r-{on}", cpu=cpu, memory=memory, on=on, **more))

        world = World(64, 64, 64)
        raw("n0", "4", "8Gi")
        raw("n1", "8", "16Gi")
        engine = world.core.engines["koord-scheduler"]
        ask = Ask(pod("p", cpu="2", memory="6Gi"))
        rows = [world.core.cluster.table.row_of[f"n{i}"] for i in range(3)]
        # Filled by (50 + 75) / 2 and (25 + 37) / 2 percent.
        assert [engine.class_of(ask).scores(row)["Reservation"] for row in rows] == [100, 31 * 100 // 62, 0]
        raw("n2", "64", "1Gi", labels={f"{PREFIX}reservation-order": "7"})
        assert [engine.class_of(ask).scores(row)["Reservation"] for row in rows] == [6, 3, 100]

    @pytest.mark.parametrize(
        ("cpu", "gpu", "against"),
        [(12, 1, {}), (2, 3, {"Reservation(s) Insufficient nvidia.com/gpu": 1})],
    )
    def test_31_only_some_resources_are_restricted(self, cpu: int, gpu: int, against: dict[str, int]) -> None:
        world = World(node("n0", cpu="16", extended={"nvidia.com/gpu": "8"}))
        options = {f"{PREFIX}reservation-restricted-options": '{"resources":["nvidia.com/gpu"]}'}
        restricted = {"allocatePolicy": "Restricted", "annotations": options, **MANY}
        world.put(reservation("a", cpu="8", more={"nvidia.com/gpu": "2"}, on="n0", **restricted))
        found = words_against(world, "p", cpu=str(cpu), more={"nvidia.com/gpu": str(gpu)}, affinity="{}")
        assert found == against

    @pytest.mark.parametrize("policy", ["", "Aligned", "Restricted"])
    def test_what_is_reserved_inside_is_kept_from_owners_of_every_policy(self, policy: str) -> None:
        """The node has 4 free, the reservation 3: the owner that asks for 8 would need all that is reserved."""
        world = World(8)
        inner = {"node.koordinator.sh/reservation": '{"resources":{"cpu":"1"}}'}
        by_policy: dict[str, Any] = {"allocatePolicy": policy} if policy else {}
        world.put(reservation("a", cpu="4", on="n0", annotations=inner, **by_policy, **MANY))
        assert words_against(world, "p", cpu="8", affinity="{}") != {}
        assert words_against(world, "q", cpu="3", affinity="{}") == {}

    def test_what_owners_use_comes_out_of_a_restricted_one_whichever_resources_it_restricts(self) -> None:
        """Only GPUs are restricted. 6 of the 8 CPUs are the owner's, and count once."""
        world = World(node("n0", cpu="16", extended={"nvidia.com/gpu": "8"}))
        options = {f"{PREFIX}reservation-restricted-options": '{"resources":["nvidia.com/gpu"]}'}
        restricted = {"allocatePolicy": "Restricted", "annotations": options, **MANY}
        world.put(reservation("a", cpu="8", more={"nvidia.com/gpu": "2"}, on="n0", **restricted))
        world.put(pod("owner", cpu="6", more={"nvidia.com/gpu": "1"}, on="n0", inside="a"))
        assert world.requested() == 8000
        # 2 are left of the reservation, and the node has 8 free.
        assert words_against(world, "p", cpu="10", more={"nvidia.com/gpu": "1"}, affinity="{}") == {}
        assert words_against(world, "q", cpu="11", more={"nvidia.com/gpu": "1"}, affinity="{}") != {}

    def test_an_amount_of_0_is_what_owners_of_a_restricted_one_get_of_it(self) -> None:
        world = World(node("n0", cpu="16", extended={"nvidia.com/gpu": "8"}))
        world.put(reservation("a", cpu="8", more={"nvidia.com/gpu": "0"}, allocatePolicy="Restricted", **MANY))
        world.settle()
        assert world.reservations["a"].status.allocatable == {"cpu": "8", "nvidia.com/gpu": "0"}
        refused = {"Reservation(s) Insufficient nvidia.com/gpu": 1}
        assert words_against(world, "p", more={"nvidia.com/gpu": "1"}, affinity="{}") == refused
        world.put(pod("beside", more={"nvidia.com/gpu": "1"}), pod("inside"))
        world.settle()
        assert (world.inside("shop/beside"), world.inside("shop/inside")) == ("", "a")

    def test_an_amount_of_0_is_of_no_use_to_a_pod_that_needs_nothing_else(self) -> None:
        world = World(node("n0", cpu="16", extended={"nvidia.com/gpu": "8"}))
        world.put(reservation("a", cpu="8", more={"nvidia.com/gpu": "0"}, on="n0"))
        world.put(pod("p", cpu="0", more={"nvidia.com/gpu": "1"}))
        world.settle()
        assert world.inside("shop/p") == ""

    def test_33_exact_matches_compare_every_name(self) -> None:
        def exact(*names: str) -> dict[str, str]:
            listed = ",".join(f'"{name}"' for name in names)
            return {f"{PREFIX}exact-match-reservation": f'{{"resourceNames":[{listed}]}}'}

        world = World(8)
        world.put(reservation("a", cpu="4", memory="8Gi", on="n0", **MANY))
        refused = {"node(s) no reservations match reservation affinity": 1}
        assert words_against(world, "p", cpu="4", annotations=exact("cpu", "memory"), affinity="{}") == refused
        # A name that neither has says nothing; the others still count.
        unequal = exact("nvidia.com/gpu", "cpu")
        assert words_against(world, "q", cpu="3", annotations=unequal, affinity="{}") == refused
        assert words_against(world, "s", cpu="4", annotations=unequal, affinity="{}") == {}

    def test_34_taints_keep_out_whoever_does_not_tolerate_them(self) -> None:
        taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
        world = World(4)
        world.put(reservation("a", cpu="4", on="n0", taints=[taint], **MANY))
        assert words_against(world, "none", cpu="4") == {"Insufficient cpu": 1}
        refused = {"node(s) no reservations match reservation affinity": 1}
        assert words_against(world, "empty", cpu="4", affinity="{}") == refused
        tolerating = '{"tolerations":[{"key":"k","operator":"Equal","value":"v","effect":"NoSchedule"}]}'
        assert words_against(world, "tolerant", cpu="4", affinity=tolerating) == {}


class TestAffinity:
    def test_a_pod_that_must_come_out_of_a_reservation_waits_for_one(self) -> None:
        world = World(8)
        world.put(pod("p", affinity="{}"))
        decision = world.nowhere()
        assert decision.placement.refusal == "node(s) no reservations match reservation affinity"
        world.put(reservation(cpu="2", on="n0"))
        world.wait(10)
        assert world.settle() == {"p": "n0"}

    def test_nodes_without_such_a_reservation_are_left_out(self) -> None:
        world = World(8, 8)
        world.put(reservation(cpu="2", on="n0", **MANY))
        world.put(pod("p", cpu="12", affinity="{}"))
        against = world.nowhere().placement.rejections
        assert against == {"Insufficient cpu": 2}
        world.put(pod("q", cpu="1", affinity="{}"))
        assert world.settle()["q"] == "n0"

    @pytest.mark.parametrize(
        ("affinity", "goes_to"),
        [
            ('{"name":"b"}', "b"),
            ('{"reservationSelector":{"pool":"cold"}}', "b"),
            ('{"reservationSelector":{"zone":"z1"}}', "b"),
            (
                '{"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":'
                '[{"matchExpressions":[{"key":"pool","operator":"In","values":["cold"]}]}]}}',
                "b",
            ),
            (
                '{"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":'
                '[{"matchFields":[{"key":"metadata.name","operator":"In","values":["b"]}]}]}}',
                "b",
            ),
            ('{"reservationSelector":{"pool":"warm"}}', ""),
            ('{"name":"c"}', ""),
        ],
    )
    def test_names_and_selectors(self, affinity: str, goes_to: str) -> None:
        world = World(node("n0", labels={"zone": "z0"}), node("n1", labels={"zone": "z1"}))
        world.put(reservation("a", cpu="2", on="n0", labels={"pool": "hot"}))
        world.put(reservation("b", cpu="2", on="n1", labels={"pool": "cold"}))
        world.put(pod("p", affinity=affinity))
        world.settle()
        assert world.inside("shop/p") == goes_to

    def test_a_name_counts_whatever_else_speaks_against_it(self) -> None:
        world = World(8)
        world.put(reservation("a", cpu="2", on="n0", unschedulable=True))
        world.put(pod("p", affinity='{"name":"a"}'))
        assert world.settle() == {"p": "n0"}

    def test_an_unschedulable_one_takes_only_who_tolerates_that(self) -> None:
        world = World(8)
        world.put(reservation("a", cpu="2", on="n0", unschedulable=True))
        world.put(pod("p", affinity="{}"))
        world.nowhere()
        tolerating = '{"tolerations":[{"key":"node.kubernetes.io/unschedulable","operator":"Exists"}]}'
        world.put(pod("q", affinity=tolerating))
        assert world.settle() == {"q": "n0"}

    def test_a_malformed_affinity_is_told_and_others_go_on(self) -> None:
        world = World(8)
        world.put(reservation("a", cpu="2", on="n0", **MANY))
        world.put(pod("bad", affinity="{"), pod("good"))
        broken = world.decide()
        assert broken is not None
        assert "reservation-affinity" in getattr(broken, "message", "")
        assert world.settle() == {"good": "n0"}

    def test_who_ignores_reservations_takes_what_they_hold_and_owns_nothing(self) -> None:
        world = World(8)
        world.put(reservation("a", cpu="8", on="n0"))
        world.put(pod("p", app="other", cpu="8", labels={f"{PREFIX}reservation-ignored": "true"}))
        assert world.settle() == {"p": "n0"}
        assert world.inside("shop/p") == ""
        assert world.reservations["a"].status.phase is ReservationPhase.AVAILABLE


class TestChoosing:
    def test_of_several_on_a_node_the_one_that_is_filled_best(self) -> None:
        world = World(64)
        for name, cpu in (("a", "8"), ("b", "2"), ("c", "4")):
            world.put(reservation(name, cpu=cpu, on="n0"))
        world.put(pod("p", cpu="2"))
        world.settle()
        assert world.inside("shop/p") == "b"

    def test_the_lowest_order_comes_first(self) -> None:
        world = World(64)
        world.put(reservation("a", cpu="2", on="n0"))
        world.put(reservation("b", cpu="8", on="n0", labels={f"{PREFIX}reservation-order": "20"}))
        world.put(reservation("c", cpu="8", on="n0", labels={f"{PREFIX}reservation-order": "10"}))
        world.put(pod("p", cpu="2"))
        world.settle()
        assert world.inside("shop/p") == "c"

    def test_equals_go_by_name(self) -> None:
        world = World(64)
        for name in ("b", "a", "c"):
            world.put(reservation(name, cpu="2", on="n0"))
        world.put(pod("p", cpu="2"))
        world.settle()
        assert world.inside("shop/p") == "a"

    def test_a_pod_takes_no_part_of_a_second_one(self) -> None:
        world = World(8)
        world.put(reservation("a", cpu="4", on="n0"), reservation("b", cpu="4", on="n0"))
        assert words_against(world, "p", cpu="6") == {"Insufficient cpu by node": 1}


class TestLifeCycle:
    @pytest.mark.parametrize(
        ("spec", "on", "phase"),
        [
            ({"ttl": "10m"}, "n0", "Failed"),
            ({"ttl": "10m"}, "", "Pending"),
            ({"ttl": "0s", "expires": "2026-01-01T00:05:00Z"}, "n0", "Available"),
            ({"ttl": "1h", "expires": "2026-01-01T00:05:00Z"}, "n0", "Failed"),
            ({"ttl": "12m"}, "n0", "Available"),
            ({"ttl": "99999999999h"}, "n0", "Available"),
            ({"ttl": "soon"}, "n0", "Available"),
            ({"ttl": "12m", "expires": "0000-01-01T00:00:00Z"}, "n0", "Available"),
            ({"ttl": "10m", "expires": "2026-01-01T00:00:00+99:99"}, "n0", "Failed"),
        ],
    )
    def test_32_only_those_with_a_node_expire(self, spec: dict[str, Any], on: str, phase: str) -> None:
        world = World(8)
        world.put(reservation(cpu="4" if on else "16", on=on, **spec))
        world.wait(11 * 60)
        world.settle()
        status = world.reservations["r"].status
        assert status.phase == phase
        if phase == "Failed":
            assert [(condition.type, condition.status, condition.reason) for condition in status.conditions] == [
                ("Ready", "False", "Expired")
            ]
            assert world.requested() == 0

    def test_owners_of_an_expired_one_stay_and_count_for_themselves(self) -> None:
        world = World(8)
        world.put(reservation(cpu="4", on="n0", ttl="10m", **MANY), pod("p", cpu="3", on="n0", inside="r"))
        world.settle()
        world.wait(601)
        world.settle()
        assert world.requested() == 3000

    def test_without_its_node_it_fails_after_a_moment_and_is_deleted(self) -> None:
        world = World(8, 8)
        world.put(reservation(cpu="4", on="n0"))
        world.settle()
        world.delete(world.nodes["n0"])
        world.settle()
        assert world.reservations["r"].status.phase is ReservationPhase.AVAILABLE
        world.wait(4)
        world.settle()
        assert world.deleted == ["r"]

    def test_a_node_that_flaps_costs_nothing(self) -> None:
        world = World(8)
        world.put(reservation(cpu="4", on="n0", **MANY), pod("p", cpu="3", on="n0", inside="r"))
        world.settle()
        old = world.nodes["n0"]
        world.delete(old)
        world.wait(1)
        world.settle()
        world.put(old)
        world.wait(60)
        world.settle()
        assert world.reservations["r"].status.phase is ReservationPhase.AVAILABLE
        assert world.requested() == 4000

    @pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
    @pytest.mark.parametrize("says_when", [True, False])
    def test_one_that_ended_without_a_node_is_deleted_after_a_day(self, phase: str, says_when: bool) -> None:
        since = "2026-01-01T01:00:00Z"
        ended = {"type": "Ready" if says_when else "Scheduled", "status": "False", "lastTransitionTime": since}
        world = World(8)
        world.put(reservation("r", status={"phase": phase, "conditions": [ended]}))
        for hours, deleted in ((24.5, []), (1, ["r"])):
            world.wait(3600 * hours)
            world.settle()
            assert world.deleted == deleted

    def test_those_that_have_ended_are_deleted_after_a_day(self) -> None:
        world = World(8)
        world.put(reservation(cpu="4", on="n0"), pod("p", cpu="3", on="n0", inside="r"))
        world.settle()
        assert world.reservations["r"].status.phase is ReservationPhase.SUCCEEDED
        world.wait(86400 - 60)
        world.settle()
        assert world.deleted == []
        world.wait(130)
        world.settle()
        assert world.deleted == ["r"]

    def test_deleting_it_frees_the_room(self) -> None:
        world = World(8)
        world.put(reservation(cpu="8", on="n0"))
        world.put(pod("other", app="other", cpu="8"))
        world.nowhere()
        world.delete("r")
        world.wait(10)
        assert world.settle() == {"other": "n0"}

    def test_its_size_follows_the_annotation_where_the_node_has_room(self) -> None:
        def resized(cpu: str) -> dict[str, str]:
            return {f"{PREFIX}reservation-resize-allocatable": f'{{"resources":{{"cpu":"{cpu}"}}}}'}

        world = World(8)
        world.put(reservation(cpu="4", annotations=resized("6")))
        world.settle()
        assert world.requested() == 6000
        meta = world.reservations["r"].metadata
        for wanted, found in (("2", 2000), ("8", 8000), ("9", 8000)):
            world.put(replace(world.reservations["r"], metadata=replace(meta, annotations=resized(wanted))))
            world.settle()
            assert world.requested() == found
        assert dict(world.reservations["r"].status.allocatable) == {"cpu": "8"}

    def test_a_second_of_the_same_name_is_another_one(self) -> None:
        world = World(8)
        world.put(reservation(cpu="4", on="n0"), pod("p", cpu="1", on="n0", inside="r"))
        world.put(reservation(cpu="2", on="n0", uid="another"))
        assert world.requested() == 3000
        world.put(pod("q", cpu="2"))
        world.settle()
        assert world.pods["shop/q"].metadata.annotations[f"{PREFIX}reservation-allocated"] == (
            '{"name":"r","uid":"another"}'
        )

    def test_a_failed_binding_gives_the_room_back(self) -> None:
        world = World(8)
        world.put(reservation(cpu="8", on="n0"))
        world.put(pod("p", cpu="8"))
        bind = world.decide()
        assert isinstance(bind, Bind)
        world.core.failed(bind, bind.ask)
        assert world.requested() == 8000
        assert world.reservations["r"].status.phase is ReservationPhase.AVAILABLE
        world.wait(10)
        assert world.settle() == {"p": "n0"}


class TestRestart:
    def test_a_new_scheduler_knows_the_same(self) -> None:
        world = example(allocatePolicy="Restricted")
        world.put(pod("p", cpu="2"), pod("q", app="x", cpu="3"))
        world.settle()
        other = world.restarted()
        assert other.requested() == world.requested()
        room, same = world.rooms.named("a"), other.rooms.named("a")
        assert room is not None
        assert same is not None
        assert (room.used, sorted(room.owners), room.row) == (same.used, sorted(same.owners), same.row)
        assert words_against(other, "late", cpu="3", affinity="{}") == {"Reservation(s) Insufficient cpu": 1}


class TestLoad:
    """A node of 10 CPUs that may be loaded to 65%; a pod of 4 CPUs is taken to use 85% of that."""

    def loaded(self) -> World:
        written = {"usageThresholds": {"cpu": 65}, "filterExpiredNodeMetrics": False}
        args = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "LoadAwareSchedulingArgs", **written}
        profile = {
            "schedulerName": "koord-scheduler",
            "plugins": {"multiPoint": {"enabled": [{"name": "LoadAwareScheduling"}, {"name": "Reservation"}]}},
            "pluginConfig": [{"name": "LoadAwareScheduling", "args": args}],
        }
        kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        return World(10, config=parse({**kind, "profiles": [profile]}))

    def report(self, world: World) -> None:
        status = {"updateTime": MADE, "nodeMetric": {"nodeUsage": {"resources": {"cpu": "1", "memory": "1Gi"}}}}
        world.core.put(NODE_METRICS, convert(NodeMetric, {"metadata": {"name": "n0"}, "status": status}))

    def test_what_is_reserved_counts_as_load_to_others_and_not_to_its_owners(self) -> None:
        world = self.loaded()
        self.report(world)
        world.put(reservation(cpu="4", **MANY))
        world.settle()
        against = {"node(s) cpu usage exceed threshold": 1}
        assert words_against(world, "other", app="other", cpu="4") == against
        assert words_against(world, "owner", cpu="4") == {}

    def test_the_same_where_the_node_reports_later(self) -> None:
        world = self.loaded()
        world.put(reservation(cpu="4", **MANY))
        world.settle()
        engine = world.core.engines["koord-scheduler"]
        engine.class_of(Ask(pod("early", cpu="4")))
        self.report(world)
        assert words_against(world, "owner", cpu="4") == {}


class TestOperatingPods:
    def operating(self, **more: Any) -> Pod:
        owners = '[{"labelSelector":{"matchLabels":{"app":"web"}}}]'
        made = pod(
            "old",
            app="other",
            cpu="6",
            on="n0",
            labels={f"{PREFIX}operating-mode": "Reservation"},
            annotations={f"{PREFIX}reservation-owners": owners},
        )
        ready = convert(Pod, {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
        return replace(made, status=ready.status, **more)

    def test_the_pod_that_takes_its_place_goes_into_its_room(self) -> None:
        world = World(8)
        world.put(self.operating())
        assert words_against(world, "else", app="else", cpu="6") == {"Insufficient cpu": 1}
        world.put(pod("new", cpu="6"))
        assert world.settle() == {"new": "n0"}
        assert world.inside("shop/new") == "old"
        assert world.requested() == 6000
        said = world.pods["shop/old"].metadata.annotations[f"{PREFIX}reservation-current-owner"]
        assert said == '{"namespace":"shop","name":"new","uid":"uid-new"}'

    def test_it_lends_nothing_before_it_is_ready_and_only_once(self) -> None:
        world = World(8)
        world.put(pod("old", app="other", cpu="6", on="n0", labels={f"{PREFIX}operating-mode": "Reservation"}))
        assert words_against(world, "p", cpu="6") == {"Insufficient cpu": 1}
        world.put(self.operating())
        world.put(pod("q", cpu="1"))
        world.wait(10)
        assert len(world.settle()) == 2
        assert words_against(world, "late", cpu="6") == {"Insufficient cpu": 1}

    def test_it_holds_its_room_by_itself_again_when_it_is_gone_or_runs_on(self) -> None:
        world = World(8)
        world.put(self.operating(), pod("new", cpu="6", on="n0", inside="old"))
        assert world.requested() == 6000
        runnable = self.operating()
        labels = {**runnable.metadata.labels, f"{PREFIX}operating-mode": "Runnable"}
        world.put(replace(runnable, metadata=replace(runnable.metadata, labels=labels)))
        assert world.requested() == 12_000
        world.delete("shop/old")
        assert world.requested() == 6000
        assert world.restarted().requested() == 6000


class TestBadInput:
    @pytest.mark.parametrize(
        ("more", "told"),
        [
            (
                {"owners": [{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}]},
                "spec.owners[0]",
            ),
            ({"template": {"containers": [{"resources": "none"}]}}, "containers"),
            ({"cpu": "-4"}, "requests of cpu must not be negative"),
            ({"cpu": "1e30"}, "too large"),
        ],
    )
    def test_what_cannot_be_understood_is_told_on_the_reservation_and_others_go_on(
        self, more: dict[str, Any], told: str
    ) -> None:
        world = World(8)
        world.put(reservation("bad", **more), reservation("good", cpu="2"))
        world.settle()
        assert world.reservations["good"].status.phase is ReservationPhase.AVAILABLE
        bad = world.reservations["bad"].status
        assert told in bad.conditions[-1].message
        world.put(pod("p", cpu="2"))
        world.settle()
        assert world.inside("shop/p") == "good"

    def test_one_with_an_empty_template_says_so_and_does_not_wait_in_silence(self) -> None:
        world, empty = World(8), reservation("bad")
        world.put(replace(empty, spec=replace(empty.spec, template={})))
        world.settle()
        (said,) = world.reservations["bad"].status.conditions
        assert (said.reason, said.message.split(":")[0]) == ("Invalid", "spec.template")

    def test_one_whose_annotations_cannot_be_understood_holds_its_room_and_takes_nobody(self) -> None:
        world = World(8)
        world.put(reservation("bad", cpu="8", on="n0", annotations={"node.koordinator.sh/reservation": "{"}))
        assert words_against(world, "p", cpu="2") == {"Insufficient cpu": 1}

    def test_a_malformed_annotation_of_a_pod_on_a_node_counts_as_none(self) -> None:
        world = World(8)
        world.put(reservation(cpu="4", on="n0"))
        world.put(pod("p", cpu="2", on="n0", annotations={f"{PREFIX}reservation-allocated": "{"}))
        world.settle()
        assert world.requested() == 6000
        assert world.reservations["r"].status.phase is ReservationPhase.AVAILABLE


class TestPreemption:
    def test_others_make_room_beside_a_reservation_and_the_reservation_stays(self) -> None:
        world = World(8)
        world.put(reservation(cpu="4", on="n0", template={"priority": 1}))
        world.put(pod("low", app="other", cpu="4", on="n0"))
        world.put(pod("high", app="other", cpu="4", priority=100))
        decision = world.nowhere()
        assert (decision.remedy.node, decision.remedy.victims) == ("n0", ("shop/low",))
        world.put(pod("larger", app="other", cpu="6", priority=100))
        assert world.nowhere().remedy.node is None

    def test_an_owner_makes_room_inside_its_reservation(self) -> None:
        world = World(8)
        world.put(reservation(cpu="4", on="n0", **MANY), pod("low", cpu="4", on="n0", inside="r"))
        world.put(pod("filling", app="other", cpu="4", on="n0", priority=1000))
        world.put(pod("high", cpu="4", priority=100))
        decision = world.nowhere()
        assert (decision.remedy.node, decision.remedy.victims) == ("n0", ("shop/low",))
        world.delete("shop/low")
        world.wait(1)
        assert world.settle() == {"high": "n0"}
        assert world.inside("shop/high") == "r"

    def test_a_reservation_makes_room_where_that_is_allowed(self) -> None:
        args = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "ReservationArgs", "enablePreemption": True}
        profile = {
            "schedulerName": "koord-scheduler",
            "plugins": {"multiPoint": {"enabled": [{"name": "Reservation"}]}},
            "pluginConfig": [{"name": "Reservation", "args": args}],
        }
        kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        world = World(8, config=parse({**kind, "profiles": [profile]}))
        world.put(pod("kept", app="other", cpu="4", on="n0", labels={f"{PREFIX}disable-preemptible": "true"}))
        world.put(pod("low", app="other", cpu="4", on="n0"))
        world.put(reservation(cpu="4"))
        decision = world.nowhere()
        assert (decision.remedy.node, decision.remedy.victims) == ("n0", ("shop/low",))
        world.delete("shop/low")
        world.wait(1)
        assert world.settle() == {"reservation:r": "n0"}
