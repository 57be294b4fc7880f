"""`koord explain` of pods that were moved, of their replacements, and of pods that have notice."""

from __future__ import annotations

from typing import Any

from koord.api.kubernetes.core import Event
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.api.protocol.eviction_notice import Tell, decide
from koord.offline.moves import moves_of
from tests.notice import build

NOW_S = build.START_S


def pod(name: str, node: str, created: str = "2027-01-15T08:00:10Z") -> Pod:
    stem = f"{name.rpartition('-')[0]}-"
    meta = {"name": name, "namespace": "shop", "uid": f"{name}-uid", "creationTimestamp": created}
    return convert(Pod, {"metadata": {**meta, "generateName": stem}, "spec": {"nodeName": node, "containers": []}})


def job(phase: str, new: str = "", **status: Any) -> PodMigrationJob:
    said = {
        "koordinator.sh/evict-reason": "node is overutilized, node cpu usage(86.00%)>threshold(70.00%)",
        "koordinator.sh/evict-trigger": "LowNodeLoad",
    }
    head = {"name": "move-1", "uid": "j1", "creationTimestamp": "2027-01-15T08:00:00Z", "annotations": said}
    if new:
        status["podRef"] = {"namespace": "shop", "name": new}
    spec = {"podRef": {"namespace": "shop", "name": "web-old", "uid": "web-old-uid"}}
    return convert(PodMigrationJob, {"metadata": head, "spec": spec, "status": {"phase": phase, **status}})


def event(reason: str, note: str, controller: str) -> Event:
    return convert(
        Event,
        {
            "eventTime": "2027-01-15T08:00:05.000000Z",
            "reason": reason,
            "note": note,
            "reportingController": controller,
            "regarding": {"kind": "Pod", "namespace": "shop", "name": "web-old", "uid": "web-old-uid"},
        },
    )


def test_of_a_pod_that_was_moved_who_asked_why_and_where_its_replacement_is() -> None:
    (told,) = moves_of("shop/web-old", [pod("web-new", "n2")], [job("Succeeded", "web-new")], (), NOW_S)
    assert told == (
        "koord-descheduler (LowNodeLoad) asked, because node is overutilized, node cpu usage(86.00%)>threshold(70.00%),"
        " to move it (PodMigrationJob move-1): it was replaced by shop/web-new on n2"
    )


def test_of_a_replacement_which_pod_it_came_for() -> None:
    (told,) = moves_of("shop/web-new", [pod("web-new", "n2")], [job("Succeeded", "web-new")], (), NOW_S)
    assert told.startswith(
        "it replaces shop/web-old: koord-descheduler (LowNodeLoad) asked, because node is overutilized"
    )


def test_of_a_move_under_way_or_failed_how_far_it_has_come() -> None:
    there = [pod("web-old", "n1")]
    (told,) = moves_of("shop/web-old", there, [job("Running", status="Eviction", nodeName="n2")], (), NOW_S)
    assert told.endswith("to move it (PodMigrationJob move-1), to n2: Eviction")
    (told,) = moves_of("shop/web-old", there, [job("Failed", reason="Timeout", message="too late")], (), NOW_S)
    assert told.endswith(": Failed, Timeout: too late")


def test_of_a_pod_that_was_preempted_and_what_its_workload_made_since() -> None:
    events = [event("Preempted", "Preempted by pod u7 on node n1", "koord-scheduler"), event("Pulled", "an image", "x")]
    pods = [pod("web-new", "n3"), pod("web-earlier", "n3", "2027-01-15T07:00:00Z"), pod("db-new", "n3")]
    told = moves_of("shop/web-old", pods, (), events, NOW_S)
    assert told == (
        "2027-01-15T08:00:05Z koord-scheduler: Preempted by pod u7 on node n1 (Preempted)",
        "since then its workload has made shop/web-new on n3",
    )


def test_of_a_pod_that_has_notice_until_when_and_what_it_can_say() -> None:
    given = build.pod("5m")
    verdict = decide(given, build.SCHEDULER, NOW_S)
    assert isinstance(verdict, Tell)
    told = moves_of("shop/train", [build.patched(given, verdict.patch)], (), (), NOW_S + 60)
    assert told == (
        "koord-scheduler asked it to go (PreemptionByScheduler, for shop/high): preempting for a more important pod;"
        " it has notice until 2027-01-15T08:05:00Z, for another 4m0s",
        "it goes earlier if it says that it is ready: scheduling.koord.sh/eviction-ready=2027-01-15T08:05:00Z",
    )


def test_of_a_pod_whose_operator_is_asked_to_take_it_away() -> None:
    asked = '{"timestamp":"2027-01-15T08:00:00Z","initiator":"koord-descheduler","reason":"n1 is hot"}'
    given = build.annotated(build.pod(None), "scheduling.koordinator.sh/soft-eviction", asked)
    (told,) = moves_of("shop/train", [given], (), (), NOW_S)
    assert told == "koord-descheduler asks its operator since 2027-01-15T08:00:00Z to take it away (n1 is hot)"


def test_of_a_pod_that_nobody_wanted_gone_nothing_is_said() -> None:
    assert moves_of("shop/web-new", [pod("web-new", "n2")], [job("Succeeded", "other")], (), NOW_S) == ()
