from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from koord.minicluster.up.health import (
    Check,
    ComponentFact,
    Facts,
    Leader,
    Nodes,
    Pods,
    Server,
    age,
    judge,
    parse_checks,
)

FINE = Facts(
    version="1",
    server=Server("https://127.0.0.1:1", True, "v1.35.0", checks=(Check("ping", True),)),
    components=(ComponentFact("hollow", "ready", 12, log="/d/logs/hollow.log"),),
    leaders=(Leader("koordinator-system/koord-manager", "me", 3.0, False),),
    nodes=Nodes(3, 3),
)


def test_where_nothing_is_wrong_there_are_no_problems() -> None:
    status = judge(FINE)
    assert status.healthy
    assert status.problems == ()


@dataclass(frozen=True)
class Case:
    change: dict[str, Any]
    what: str
    how: str


@pytest.mark.parametrize(
    "case",
    [
        Case(
            {"server": Server("u", False, error="refused"), "data_dir": "/d"},
            "the API server at u does not answer: refused",
            "koord up --data-dir /d",
        ),
        Case(
            {"server": Server("u", True, checks=(Check("store", False, "the disk is full"),))},
            "check store fails: the disk is full",
            "log",
        ),
        Case(
            {"components": (ComponentFact("hollow", "waiting", log="/d/hollow.log"),)},
            "hollow is waiting",
            "/d/hollow.log",
        ),
        Case(
            {"components": (ComponentFact("hollow", "ready", checks=(Check("started", False, "still"),)),)},
            "hollow: check started fails: still",
            "",
        ),
        Case({"leaders": (Leader("ns/l", "pod-1", 90.0, True),)}, "nobody leads by lease ns/l: pod-1", "runs"),
        Case({"missing_kinds": ("devices.x",)}, "not served: devices.x", "koord crds | kubectl apply"),
        Case({"nodes": Nodes(3, 2, ("n3",))}, "nodes that are not ready, of 3: n3", "kubectl describe node n3"),
        Case(
            {"pods": Pods(unschedulable=("shop/web",))},
            "pods that fit on no node: shop/web",
            "koord explain -n shop web",
        ),
        Case(
            {"pods": Pods(crashing=("shop/web",))},
            "pods that keep failing: shop/web",
            "kubectl -n shop logs --previous web",
        ),
        Case({"unread": ("pods: forbidden",)}, "could not look at pods: forbidden", "kubectl auth can-i"),
    ],
    ids=lambda case: case.what[:30],
)
def test_each_fault_is_told_with_what_mends_it(case: Case) -> None:
    status = judge(msgspec.structs.replace(FINE, **case.change))
    assert not status.healthy
    (problem,) = status.problems
    assert case.what in problem.what
    assert case.how in problem.how


def test_a_lease_that_nobody_holds_is_no_fault() -> None:
    assert judge(msgspec.structs.replace(FINE, leaders=(Leader("ns/l", "", 90.0, True),))).healthy


def test_many_names_are_cut_short() -> None:
    names = tuple(f"n{number}" for number in range(9))
    (problem,) = judge(msgspec.structs.replace(FINE, nodes=Nodes(9, 0, names))).problems
    assert problem.what.endswith("n0, n1, n2, n3, n4 and 4 more")


def test_the_lines_of_a_health_endpoint_are_understood() -> None:
    text = "[+]ping ok\n[-]store failed: reason withheld\n[+]etcd excluded: ok\nreadyz check failed\n"
    assert parse_checks(text) == (
        Check("ping", True, ""),
        Check("store", False, "reason withheld"),
        Check("etcd", True, "excluded: ok"),
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(-3, "0s"), (5, "5s"), (119, "119s"), (120, "2m"), (7300, "2h"), (200_000, "2d")]
)
def test_ages_read_as_kubectls(seconds: float, text: str) -> None:
    assert age(seconds) == text
