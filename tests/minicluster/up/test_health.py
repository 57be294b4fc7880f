from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.text.timestamp import from_seconds
from koord.minicluster.up.facts import (
    Check,
    ComponentFact,
    Facts,
    Leader,
    Nodes,
    Pods,
    Scheduler,
    Server,
    Untried,
    WebhooksFact,
    nodes_of,
    parse_checks,
    pods_of,
)
from koord.minicluster.up.health import EXAMINATIONS, MANAGER_LEASE, age, judge

FINE = Facts(
    version="1",
    server=Server("https://127.0.0.1:1", True, "v1.35.0", checks=(Check("ping", True),)),
    components=(ComponentFact("hollow", "ready", 12, log="/d/logs/hollow.log"),),
    leaders=(MANAGER := Leader(MANAGER_LEASE, "me", 3.0, False),),
    schedulers=(Scheduler("default-scheduler", "me", 3.0, True),),
    webhooks=WebhooksFact(asked=True, took_s=0.01),
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
        Case({"leaders": (MANAGER, Leader("ns/l", "pod-1", 90.0, True))}, "nobody leads by lease ns/l: pod-1", "runs"),
        Case({"leaders": ()}, "no manager leads: nobody holds lease", "koord manager"),
        Case(
            {"leaders": (Leader(MANAGER_LEASE, "pod-1", 90.0, True),)},
            "no manager leads: pod-1 stopped renewing",
            "koord manager",
        ),
        Case({"schedulers": ()}, "no scheduler runs", "koord scheduler"),
        Case({"moves": ("move-web",)}, "PodMigrationJobs that nobody carries out: move-web", "koord descheduler"),
        Case(
            {"pods": Pods(untried=(Untried("packed", ("shop/web",)),))},
            "nobody has tried to schedule: shop/web; the scheduler packed does not run",
            "one that runs (default-scheduler)",
        ),
        Case(
            {"missing_priority_classes": ("koord-batch",)},
            "PriorityClasses are missing: koord-batch",
            "kubectl create priorityclass koord-batch --value=5000",
        ),
        Case({"webhooks": WebhooksFact(missing=("m",))}, "webhooks are not registered", "--webhook-address"),
        Case({"webhooks": WebhooksFact(asked=True, failure="timed out")}, "timed out", "manager"),
        Case({"nodes": Nodes(3, 3, silent=("n2",))}, "do not report what they use: n2", "koord agent"),
        Case({"pods": Pods(astray=("shop/web",))}, "nodes that do not exist: shop/web", "kubectl -n shop delete pod"),
        Case({"pods": Pods(not_starting=("shop/web",))}, "do not start: shop/web", "describe pod web"),
        Case({"pods": Pods(not_ending=("shop/web",))}, "do not go: shop/web", "describe pod web"),
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
    assert judge(msgspec.structs.replace(FINE, leaders=(MANAGER, Leader("ns/l", "", 90.0, True)))).healthy


def test_every_examination_is_told_with_its_outcome() -> None:
    status = judge(msgspec.structs.replace(FINE, missing_kinds=("devices.x",)))
    assert [each.name for each in status.findings] == [each.name for each in EXAMINATIONS]
    assert [each.name for each in status.findings if not each.ok] == ["kinds"]


def test_of_a_server_that_does_not_answer_only_that_is_told() -> None:
    status = judge(Facts(version="1", server=Server("u", False, error="refused")))
    assert len(status.problems) == 1


def test_objects_without_effect_are_a_note_and_no_fault() -> None:
    status = judge(msgspec.structs.replace(FINE, unacted={"koord does not act on gangs yet": 2}))
    assert status.healthy
    assert status.notes == ("2 objects without effect: koord does not act on gangs yet",)


NOW_S = 1_800_000_000.0


def pod(
    age_s: float, node: str = "", *, phase: str = "Pending", condition: str = "", deleted_s: float | None = None
) -> Pod:
    meta: dict[str, Any] = {"name": "web", "namespace": "shop", "creationTimestamp": from_seconds(NOW_S - age_s)}
    if deleted_s is not None:
        meta["deletionTimestamp"] = from_seconds(NOW_S - deleted_s)
    conditions = [{"type": "PodScheduled", "status": "False", "reason": condition}] if condition else []
    body = {"metadata": meta, "spec": {"nodeName": node}, "status": {"phase": phase, "conditions": conditions}}
    return convert(Pod, body)


@pytest.mark.parametrize(
    ("seen", "field"),
    [
        (pod(31), "untried"),
        (pod(29), None),
        (pod(900, condition="SchedulingGated"), None),
        (pod(5, condition="Unschedulable"), "unschedulable"),
        (pod(301, "n1"), "not_starting"),
        (pod(299, "n1"), None),
        (pod(900, "n1", phase="Running"), None),
        (pod(5, "gone", phase="Running"), "astray"),
        (pod(900, "gone", phase="Succeeded"), None),
        (pod(900, "n1", phase="Running", deleted_s=61), "not_ending"),
        (pod(900, "n1", phase="Running", deleted_s=59), None),
    ],
)
def test_a_pod_that_is_stuck_is_noticed(seen: Pod, field: str | None) -> None:
    found = pods_of([seen], {"n1"}, NOW_S)
    lists = ("unschedulable", "crashing", "untried", "not_starting", "not_ending", "astray")
    assert [each for each in lists if getattr(found, each)] == ([field] if field else [])


@pytest.mark.parametrize(
    ("node_age_s", "report_age_s", "silent"),
    [(900, 20, False), (900, 209, False), (900, 211, True), (900, None, True), (100, None, False)],
)
def test_a_node_that_stops_reporting_is_noticed(node_age_s: float, report_age_s: float | None, silent: bool) -> None:
    meta = {"name": "n1", "creationTimestamp": from_seconds(NOW_S - node_age_s)}
    node = convert(Node, {"metadata": meta, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    # Reported each minute: three of them and half a minute more is too long.
    status = {"updateTime": from_seconds(NOW_S - report_age_s)} if report_age_s is not None else {}
    metric = convert(NodeMetric, {"metadata": {"name": "n1"}, "status": status})
    assert nodes_of([node], [metric], NOW_S).silent == (("n1",) if silent else ())
    assert nodes_of([node], None, NOW_S).silent == ()


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
