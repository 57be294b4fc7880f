"""Which pod counts, which is of use, and which goes first; facts as Kubernetes has them."""

from __future__ import annotations

import pytest

from koord.api.kubernetes.pod_costs import deletion_cost
from koord_minicluster.controllers.pods import (
    available_in_s,
    deleted_first,
    is_active,
    is_available,
    next_available_in_s,
)
from koord_minicluster.controllers.share import share
from tests.minicluster.controllers.builders import NOW, pod


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [
        (3, 10, 3, 3),
        (0, 10, 0, 0),
        ("25%", 10, 3, 2),
        ("25%", 4, 1, 1),
        ("25%", 1, 1, 0),
        ("100%", 7, 7, 7),
        ("0%", 7, 0, 0),
        ("1%", 3, 1, 0),
        ("150%", 3, 5, 4),
    ],
)
def test_a_share_rounds_as_asked(value: int | str, total: int, up: int, down: int) -> None:
    assert share(value, total, round_up=True) == up
    assert share(value, total, round_up=False) == down


@pytest.mark.parametrize("value", ["3", "x%", "%", "-5%", "1.5%"])
def test_a_share_that_is_neither_number_nor_percentage_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="neither a number nor a percentage"):
        share(value, 10, round_up=True)


@pytest.mark.parametrize(
    ("text", "cost"),
    [("5", 5), ("-7", -7), ("", 0), ("+1", 0), ("01", 0), ("x", 0), ("2147483647", 2**31 - 1), ("2147483648", 0)],
)
def test_a_deletion_cost_is_a_plain_integer_or_nothing(text: str, cost: int) -> None:
    assert deletion_cost(pod("a", cost=text)) == cost


def test_pods_go_in_the_order_of_kubernetes() -> None:
    unassigned = pod("unassigned", phase="Pending", ready=False)
    pending = pod("pending", node="n", phase="Pending", ready=False)
    unready = pod("unready", node="n", ready=False)
    cheap = pod("cheap", node="n", cost="-1")
    crowded = pod("crowded", node="full", ready_for_s=10_000, age_s=10_000)
    young = pod("young", node="n", ready_for_s=1)
    old = pod("old", node="n", ready_for_s=10_000, age_s=10_000)
    dear = pod("dear", node="full", cost="9")
    pods = [dear, old, young, crowded, cheap, unready, pending, unassigned]
    # On "full" there are also two pods of a sibling ReplicaSet.
    related = [*pods, *(pod(f"sibling-{i}", node="full") for i in range(5))]
    assert [p.metadata.name for p in deleted_first(pods, related, NOW)] == [
        "unassigned",
        "pending",
        "unready",
        "cheap",
        "crowded",
        "young",
        "old",
        "dear",
    ]


def test_among_equals_the_more_restarted_and_then_the_younger_go_first() -> None:
    calm = pod("calm", node="a", ready=False, age_s=10_000)
    young = pod("young", node="b", ready=False, age_s=10)
    restless = pod("restless", node="c", ready=False, restarts=3, age_s=10_000)
    ranked = deleted_first([calm, young, restless], [], NOW)
    assert [p.metadata.name for p in ranked] == ["restless", "young", "calm"]


def test_ages_of_one_order_of_magnitude_are_told_apart_by_uid() -> None:
    older, younger = pod("a", node="n", ready_for_s=120), pod("b", node="n", ready_for_s=100)
    assert [p.metadata.name for p in deleted_first([younger, older], [], NOW)] == ["a", "b"]


def test_a_pod_is_available_when_it_has_been_ready_for_long_enough() -> None:
    fresh = pod("fresh", ready_for_s=4)
    assert is_available(fresh, 0, NOW)
    assert not is_available(fresh, 10, NOW)
    assert available_in_s(fresh, 10, NOW) == 6
    assert is_available(fresh, 10, NOW + 6)
    assert available_in_s(pod("no", ready=False), 0, NOW) is None
    assert next_available_in_s([fresh, pod("long"), pod("no", ready=False)], 10, NOW) == 6


def test_finished_and_deleted_pods_are_not_active() -> None:
    assert is_active(pod("a"))
    assert not is_active(pod("a", deleting=True))
    assert not is_active(pod("a", phase="Failed"))
    assert not is_active(pod("a", phase="Succeeded"))
