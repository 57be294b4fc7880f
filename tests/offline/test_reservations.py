"""`koord plan` and `koord explain` know reservations: what they say is what the scheduler does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.machinery.faults import Invalid
from koord.api.text.manifest import read
from koord.cli.main import run
from koord.offline.explain_reservation import NoSuchReservation, ReservationExplained, explain_reservation
from koord.offline.plan import Plan, plan
from koord.scheduler.profiles import profiles_of

ROOT = Path(__file__).parents[2]
NODES = str(ROOT / "examples/plan/nodes.yaml")
EXAMPLE = str(ROOT / "examples/reservations")
NOW_S = 1767225600.0


def planned(*paths: str) -> Plan:
    return plan(read(paths), profiles_of(SHIPPED), now_s=NOW_S).plan


def explained(name: str, *paths: str) -> ReservationExplained:
    return explain_reservation(read(paths), profiles_of(SHIPPED), name, now_s=NOW_S).explained


def written(tmp_path: Path, *objects: dict[str, Any]) -> str:
    path = tmp_path / "objects.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    return str(path)


def reserving(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "owners": [{"labelSelector": {"matchLabels": {"app": "web"}}}],
            "template": {"spec": {"schedulerName": "koord-scheduler", "containers": [container]}},
            **more.pop("spec", {}),
        },
        **more,
    }


def test_the_example_is_planned_as_its_comments_say() -> None:
    found = planned(NODES, EXAMPLE)
    night, web = found.reservations["night"], found.reservations["web-release-1"]
    assert (night.phase, night.allocated, night.owners) == (
        "Available",
        {"cpu": "3", "memory": "4Gi"},
        ("default/report",),
    )
    assert (web.phase, web.owners) == ("Succeeded", ("default/web-0",))
    assert found.pods["default/report"].node == night.node
    assert found.pods["default/web-0"].node == web.node
    assert found.pods["default/report"].annotations == {
        "scheduling.koordinator.sh/reservation-allocated": '{"name":"night"}'
    }


def test_a_reservation_without_a_place_says_why_and_pods_are_told_apart(tmp_path: Path) -> None:
    found = planned(NODES, written(tmp_path, reserving("giant", "40")))
    giant = found.reservations["giant"]
    assert (giant.phase, giant.node) == ("Pending", None)
    assert giant.reason.startswith("0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu.")
    assert found.pods == {}


def test_why_one_is_pending_and_what_would_let_it_in(tmp_path: Path) -> None:
    found = explained("giant", NODES, written(tmp_path, reserving("giant", "12")))
    assert (found.phase, found.node, found.owners) == ("Pending", None, ("pods with app=web",))
    assert found.explanation is not None
    assert {each.reason: each.nodes for each in found.explanation.why_not} == {
        "node(s) had untolerated taint(s)": 1,
        "Insufficient cpu": 2,
    }
    assert "a request of 8 cpu instead of 12" in [
        step.text for change in found.explanation.changes for step in change.steps
    ]


def test_who_uses_one_and_what_is_left(tmp_path: Path) -> None:
    status = {
        "phase": "Available",
        "nodeName": "east-1",
        "allocatable": {"cpu": "4"},
        "allocated": {"cpu": "1"},
        "currentOwners": [{"namespace": "shop", "name": "web-0"}],
    }
    one = reserving("web", "4", spec={"allocateOnce": False, "ttl": "2h"}, status=status)
    found = explained("web", NODES, written(tmp_path, one))
    assert found.explanation is None
    assert (found.message, found.used_by) == ("used by shop/web-0", ("shop/web-0",))
    assert (found.left, found.expires) == ({"cpu": "3"}, "2026-01-01T02:00:00Z")


def test_one_that_takes_over_a_running_pod(tmp_path: Path) -> None:
    container = {"name": "c", "image": "web", "resources": {"requests": {"cpu": "8"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-0", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"nodeName": "east-1", "containers": [container]},
    }
    taking = {"preAllocation": True, "allocatePolicy": "Restricted", "allocateOnce": False}
    one = reserving("web", "8", spec={**taking, "ttl": "0"})
    one["spec"]["template"]["spec"]["nodeName"] = "east-1"
    reservation_plan = planned(NODES, written(tmp_path, pod, one)).reservations["web"]
    assert (reservation_plan.phase, reservation_plan.node, reservation_plan.owners) == (
        "Available",
        "east-1",
        ("shop/web-0",),
    )


def test_a_name_that_is_not_there_is_an_error_that_names_others(tmp_path: Path) -> None:
    with pytest.raises(NoSuchReservation, match="there is no reservation nigth; there is night"):
        explained("nigth", NODES, EXAMPLE)


def test_the_command_prints_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "reservation/night", "-f", NODES, "-f", EXAMPLE]) == 0
    printed = capsys.readouterr().out
    assert "reservation/night is Pending" in printed
    assert "for many owners, policy Restricted, never expires" in printed
    assert run(["plan", "-f", NODES, "-f", EXAMPLE]) == 0
    assert "web-release-1   Succeeded" in capsys.readouterr().out


AVAILABLE = {"phase": "Available", "nodeName": "east-1", "allocatable": {"cpu": "4"}}


@pytest.mark.parametrize(
    ("spec", "status", "told"),
    [
        ({"ttl": "0"}, AVAILABLE, "no pod uses it yet"),
        ({"ttl": "0", "unschedulable": True}, AVAILABLE, "it takes no new owners (spec.unschedulable)"),
        (
            {"ttl": "0", "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
            AVAILABLE,
            "new owners must tolerate k=v:NoSchedule in their reservation affinity",
        ),
        (
            {"expires": "2025-12-31T00:00:00Z"},
            AVAILABLE,
            "it expired at 2025-12-31T00:00:00Z, and no scheduler has ended it yet",
        ),
        (
            {"ttl": "0"},
            AVAILABLE
            | {
                "conditions": [
                    {"type": "ResizePending", "status": "True", "message": "cannot be resized to cpu 9: full"}
                ]
            },
            "cannot be resized to cpu 9: full",
        ),
        (
            {"ttl": "2h"},
            {
                **AVAILABLE,
                "phase": "Failed",
                "conditions": [
                    {"type": "Scheduled", "status": "True", "reason": "Scheduled"},
                    {"type": "Ready", "status": "False", "reason": "Expired", "message": "node east-1 is gone"},
                ],
            },
            "node east-1 is gone",
        ),
        (
            {},
            {**AVAILABLE, "phase": "Succeeded", "conditions": [{"type": "Ready", "reason": "Succeeded"}]},
            "Succeeded",
        ),
    ],
)
def test_why_one_can_or_cannot_be_used(tmp_path: Path, spec: Any, status: Any, told: str) -> None:
    found = explained("web", NODES, written(tmp_path, reserving("web", "4", spec=spec, status=status)))
    assert found.message.rpartition("; ")[2] == told


def test_an_entry_of_owners_that_gives_nothing_is_refused_as_the_api_server_does(tmp_path: Path) -> None:
    one = reserving("web", "4", spec={"owners": [{}]})
    with pytest.raises(Invalid, match=r"spec\.owners\[0\]: must have object, controller or labelSelector; \{labelSel"):
        explained("web", NODES, written(tmp_path, one))
    # What is stored by a schema that let it pass is for all pods.
    one["metadata"]["resourceVersion"] = "7"
    assert explained("web", NODES, written(tmp_path, one)).owners == ("all pods",)


def test_all_pods_are_owners_where_the_selector_is_empty_and_a_file_has_no_age(tmp_path: Path) -> None:
    one = reserving("web", "4", spec={"owners": [{"labelSelector": {}}], "ttl": "2h"})
    found = explained("web", NODES, written(tmp_path, one))
    assert found.owners == ("all pods",)
    assert found.expires is not None, "two hours after it is applied"


def test_what_keeps_those_out_who_wait_for_it_and_which_cpus_it_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = reserving(
        "web", "4", spec={"ttl": "0", "allocateOnce": False, "allocatePolicy": "Restricted"}, status=AVAILABLE
    )
    one["metadata"]["annotations"] = {"scheduling.koordinator.sh/resource-status": '{"cpuset": "0-3"}'}
    asks = {"name": "c", "image": "web", "resources": {"requests": {"cpu": "5"}}}
    must = {"scheduling.koordinator.sh/reservation-affinity": '{"name": "web"}'}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "large", "namespace": "shop", "labels": {"app": "web"}, "annotations": must},
        "spec": {"schedulerName": "koord-scheduler", "containers": [asks]},
    }
    path = written(tmp_path, one, pod)
    found = explained("web", NODES, path)
    assert found.holds == ("CPUs 0-3",)
    assert found.against == {"shop/large": "Reservation(s) Insufficient cpu, requested: 5000, used: 0, capacity: 4000"}
    assert run(["explain", "reservation/web", "-f", NODES, "-f", path]) == 0
    printed = capsys.readouterr().out
    assert "HOLDS   CPUs 0-3" in printed
    assert "  shop/large: Reservation(s) Insufficient cpu" in printed
