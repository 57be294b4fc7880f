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
from koord.cli.status import print_status
from koord.operate.facts import (
    Check,
    ComponentFact,
    Facts,
    Leader,
    Nodes,
    Place,
    Pods,
    Scheduler,
    Server,
    Untried,
    WebhooksFact,
    nodes_of,
    overbooked,
    parse_checks,
    pods_of,
)
from koord.operate.health import EXAMINATIONS, MANAGER_LEASE, age, judge

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
            {"namespace": Place(leaving_s=300.0, held=("delete elasticquotas: refused by a webhook",))},
            "namespace koordinator-system was deleted 5m ago and is still there: delete elasticquotas: refused",
            "koord colocation break-glass on",
        ),
        Case({"namespace": Place(there=False)}, "namespace koordinator-system does not exist", "koord install"),
        *(
            Case({"namespace": place, "leaders": (), "schedulers": (), **more}, what, how)
            for place, more, what, how in (
                (Place(there=False), {"up_pid": 7}, "does not exist", "koord up makes it again"),
                (Place(leaving_s=3.0), {"up_pid": 7}, "was deleted 3s ago", "koord up makes it again"),
                (Place(leaving_s=3.0), {}, "was deleted 3s ago", "koord install"),
                (Place(made_s=4.0), {}, "was made 4s ago: components have not announced", "wait a few seconds"),
            )
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
        Case(
            {"schedulers": (Scheduler("default-scheduler", "me", 3.0, True, ("other", "third")),)},
            "several schedulers decide for the name default-scheduler without an election: me, other, third",
            "stop all but one, or start each with --leader-elect",
        ),
        Case(
            {"nodes": Nodes(3, 3, overbooked={"n1": "cpu 34 of 32"})},
            "nodes whose pods request more than they have: n1 cpu 34 of 32",
            "kubectl get pods -A --field-selector spec.nodeName=n1",
        ),
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
            "pods that should run all the time and fit on no node: shop/web",
            "koord explain -n shop web",
        ),
        Case(
            {"pods": Pods(crashing=("shop/web",))},
            "pods that keep failing: shop/web",
            "kubectl -n shop logs --previous web",
        ),
        Case({"nodes": Nodes()}, "the cluster has no nodes, so no pod can run", "add a node"),
        Case({"nodes": Nodes(), "up_pid": 7}, "the cluster has no nodes, so no pod can run", "--nodes 3"),
        Case(
            {"pods": Pods(cannot_start={"shop/web": 'CreateContainerConfigError: configmap "x" not found'})},
            'cannot start: shop/web (CreateContainerConfigError: configmap "x" not found)',
            "kubectl -n shop describe pod web",
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
    assert [finding.name for finding in status.findings] == [examination.name for examination in EXAMINATIONS]
    assert [finding.name for finding in status.findings if not finding.ok] == ["kinds"]


def test_of_a_server_that_does_not_answer_only_that_is_told() -> None:
    status = judge(Facts(version="1", server=Server("u", False, error="refused")))
    assert len(status.problems) == 1


def test_objects_without_effect_are_a_note_and_no_fault() -> None:
    status = judge(msgspec.structs.replace(FINE, unacted={"koord does not act on gangs yet": 2}))
    assert status.healthy
    assert status.notes == ("2 objects without effect: koord does not act on gangs yet",)


NOW_S = 1_800_000_000.0


def test_pods_that_queue_are_a_note_and_no_fault() -> None:
    status = judge(msgspec.structs.replace(FINE, pods=Pods(queued=("jobs/a", "jobs/b"))))
    assert status.healthy
    assert status.notes == ("2 pods wait for room: jobs/a, jobs/b; koord explain -n jobs a says what for",)


def test_of_nodes_that_could_not_be_read_nothing_is_said() -> None:
    (problem,) = judge(msgspec.structs.replace(FINE, nodes=Nodes(), unread=("nodes and pods: forbidden",))).problems
    assert "could not look at" in problem.what


def pod(
    age_s: float,
    node: str = "",
    *,
    phase: str = "Pending",
    condition: str = "",
    deleted_s: float | None = None,
    waiting: str = "",
    init: bool = False,
    priority: int | None = None,
    restart: str = "Always",
) -> Pod:
    meta: dict[str, Any] = {"name": "web", "namespace": "shop", "creationTimestamp": from_seconds(NOW_S - age_s)}
    if deleted_s is not None:
        meta["deletionTimestamp"] = from_seconds(NOW_S - deleted_s)
    status: dict[str, Any] = {"phase": phase}
    if condition:
        status["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": condition}]
    if waiting:
        state = {"name": "c", "state": {"waiting": {"reason": waiting}}}
        status["initContainerStatuses" if init else "containerStatuses"] = [state]
    spec = {"nodeName": node, "priority": priority, "restartPolicy": restart}
    return convert(Pod, {"metadata": meta, "spec": spec, "status": status})


@pytest.mark.parametrize(
    ("seen", "field"),
    [
        (pod(31), "untried"),
        (pod(29), None),
        (pod(900, condition="SchedulingGated"), None),
        (pod(5, condition="Unschedulable"), "unschedulable"),
        (pod(5, condition="Unschedulable", priority=9000), "unschedulable"),
        (pod(5, condition="Unschedulable", priority=5500), "queued"),
        (pod(5, condition="Unschedulable", restart="Never"), "queued"),
        (pod(5, condition="QuotaExceeded"), "queued"),
        (pod(5, "n1", waiting="CreateContainerConfigError"), "cannot_start"),
        (pod(900, "n1", waiting="ImagePullBackOff", init=True), "cannot_start"),
        (pod(5, "n1", waiting="ContainerCreating"), None),
        (pod(5, "n1", phase="Running", waiting="CrashLoopBackOff"), "crashing"),
        (pod(5, "n1", waiting="CrashLoopBackOff", init=True), "crashing"),
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
    lists = tuple(name for name in Pods.__struct_fields__ if name != "phases")
    assert [each for each in lists if getattr(found, each)] == ([field] if field else [])


@pytest.mark.parametrize(
    ("node_age_s", "report_age_s", "silent"),
    [
        (900, 20, False),
        (900, 209, False),
        (900, 211, True),
        (900, None, True),
        (100, None, False),
        (900, -60, False),
        (900, -250e9, True),
    ],
)
def test_a_node_that_stops_reporting_is_noticed(node_age_s: float, report_age_s: float | None, silent: bool) -> None:
    meta = {"name": "n1", "creationTimestamp": from_seconds(NOW_S - node_age_s)}
    node = convert(Node, {"metadata": meta, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    # Reported each minute: three of them and half a minute more is too long.
    status = {"updateTime": from_seconds(NOW_S - report_age_s)} if report_age_s is not None else {}
    metric = convert(NodeMetric, {"metadata": {"name": "n1"}, "status": status})
    assert nodes_of([node], [metric], NOW_S).silent == (("n1",) if silent else ())
    assert nodes_of([node], None, NOW_S).silent == ()


def test_nodes_whose_pods_request_more_than_they_have_are_noticed() -> None:
    def on(node: str, cpu: str, phase: str = "Running", **more: str) -> Pod:
        requests = {"cpu": cpu, **more}
        spec = {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": requests}}]}
        return convert(Pod, {"metadata": {"name": "p"}, "spec": spec, "status": {"phase": phase}})

    def node(name: str) -> Node:
        has = {"cpu": "4", "memory": "8Gi", "pods": "3", "kubernetes.io/batch-cpu": "100"}
        return convert(Node, {"metadata": {"name": name}, "status": {"allocatable": has}})

    pods = [on("full", "3"), on("full", "1"), on("full", "9", "Failed"), on("over", "3"), on("over", "1500m")]
    pods += [on("many", "0") for _ in range(4)]
    pods += [on("lent", "1", **{"kubernetes.io/batch-cpu": "900"}), on("", "99"), on("gone", "99")]
    found = overbooked([node(name) for name in ("full", "over", "many", "lent")], pods)
    assert found == {"over": "cpu 4500m of 4", "many": "pods 4 of 3"}


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


def test_status_names_what_still_starts_and_does_not_say_that_all_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    print_status(judge(FINE))
    assert "all is well" in capsys.readouterr().out
    starting = (*FINE.components, ComponentFact("scheduler", "starting"))
    print_status(judge(msgspec.structs.replace(FINE, components=starting)))
    text = capsys.readouterr().out
    assert "still starting: scheduler" in text
    assert "all is well" not in text
