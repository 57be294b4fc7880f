"""A PodGroup comes to say what Koordinator's controller makes it say."""

from __future__ import annotations

from collections import Counter
from typing import Any

from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol import names
from koord.api.protocol.crd.pod_group import PodGroup, PodGroupStatus
from koord.scheduler.plugins.gang_status import status_of
from koord.scheduler.plugins.gangs import Gangs
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.koordinator.recording import Answer, Question, read, unexplained


def at_rest(question: Question) -> PodGroupStatus:
    gangs = Cluster(0).notes(Gangs)
    meta = {"name": "g", "namespace": "d"}
    spec = {"minMember": question["min_member"]}
    gangs.put_group(convert(PodGroup, {"metadata": meta, "spec": spec, "status": question["status"]}))
    for i, pod in enumerate(question["pods"]):
        gangs.put_pod(convert(Pod, _pod(f"p{i:02}", pod)))
    status = status_of(gangs.all["d/g"], 1_800_000_000.0)
    assert status is not None
    return status


def _pod(name: str, pod: dict[str, Any]) -> dict[str, Any]:
    owners = [{"apiVersion": "batch/v1", "kind": "Job", "name": owner} for owner in pod.get("owners", ())]
    meta = {"name": name, "namespace": "d", "uid": name, "labels": {names.LABEL_POD_GROUP: "g"}}
    spec = {"nodeName": pod.get("node", ""), "containers": [{"name": "main"}]}
    return {"metadata": {**meta, "ownerReferences": owners}, "spec": spec, "status": {"phase": pod["phase"]}}


def differences(question: Question, answer: Answer) -> list[str]:
    status = at_rest(question)
    ours = {
        "phase": str(status.phase),
        "occupied_by": status.occupied_by,
        "scheduled": status.scheduled,
        "running": status.running,
        "succeeded": status.succeeded,
        "failed": status.failed,
        "started": status.schedule_start_time is not None,
    }
    return [f"{key} {value}, not {answer[key]}" for key, value in ours.items() if value != answer[key]]


def test_pod_groups_say_what_koordinator_makes_them_say() -> None:
    assert unexplained("pod_groups", differences) == []


def test_the_recording_is_of_many_pod_groups() -> None:
    phases = Counter(case.answers[0]["phase"] for case in read("pod_groups").cases)
    assert sum(phases.values()) >= 200
    assert all(phases[phase] >= 5 for phase in ("Pending", "Scheduling", "Scheduled", "Running", "Finished", "Failed"))
