"""Gangs are what Koordinator takes them for, and its pods go on together when Koordinator's do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.pod_group import PodGroup
from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.gang_rules import needs, why_it_waits
from koord.scheduler.plugins.gangs import Gangs
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.koordinator.recording import Answer, Question, read, unexplained

POD_GROUP = "pod-group.scheduling.sigs.k8s.io"


def gathered(question: Question) -> tuple[Gangs, dict[str, list[Ask]]]:
    """The gangs, and by gang its pods that were placed and wait for others."""
    gangs = Cluster(0).notes(Gangs)
    waiting: dict[str, list[Ask]] = {}
    for gang in question["gangs"]:
        if gang["via"] == "group":
            gangs.put_group(convert(PodGroup, _pod_group(gang)))
        id_ = f"{gang['namespace']}/{gang['name']}"
        waiting[id_] = []
        for state in ("pending", "waiting", "bound"):
            for i in range(gang[state]):
                pod = convert(Pod, _pod(gang, f"{gang['name']}-{state}-{i}", "n" if state == "bound" else ""))
                gangs.put_pod(pod)
                if state == "waiting":
                    waiting[id_].append(Ask(pod))
    return gangs, waiting


def _pod_group(gang: Mapping[str, Any]) -> dict[str, Any]:
    timeout = {"scheduleTimeoutSeconds": gang["timeout"]} if "timeout" in gang else {}
    meta = {"name": gang["name"], "namespace": gang["namespace"], "annotations": gang["annotations"]}
    return {"metadata": meta, "spec": {"minMember": gang["min_member"], **timeout}}


def _pod(gang: Mapping[str, Any], name: str, node: str) -> dict[str, Any]:
    is_group = gang["via"] == "group"
    meta = {
        "name": name,
        "namespace": gang["namespace"],
        "uid": name,
        "labels": {POD_GROUP: gang["name"]} if is_group else gang["labels"],
        "annotations": {} if is_group else gang["annotations"],
    }
    return {"metadata": meta, "spec": {"nodeName": node, "containers": [{"name": "c"}]}}


def differences(question: Question, answer: Answer) -> list[str]:
    gangs, waiting = gathered(question)
    return [*_settings(gangs, answer), *_released(gangs, waiting, answer)]


def _settings(gangs: Gangs, answer: Answer) -> Iterator[str]:
    for id_, theirs in answer["gangs"].items():
        ours = gangs.all[id_].settings
        if ours is None or not theirs["init"]:
            if theirs["init"] or ours is not None:
                yield f"{id_}: {ours}, not {theirs}"
            continue
        told = {
            "init": True,
            "min": ours.min_available,
            "total": ours.total_number,
            "mode": ours.mode,
            "policy": ours.match_policy,
            "wait_s": ours.waiting_time_s,
            "group": list(ours.groups),
        }
        yield from (f"{id_}: {key} {value}, not {theirs[key]}" for key, value in told.items() if value != theirs[key])


def _released(gangs: Gangs, waiting: Mapping[str, list[Ask]], answer: Answer) -> Iterator[str]:
    for id_, theirs in answer["released"].items():
        group = gangs.all[id_].group
        asks = [ask for each in group for ask in waiting.get(each, ())]
        if not waiting[id_]:
            continue
        why = why_it_waits(gangs, asks) or _held_back(gangs, id_, asks)
        if (why is None) != theirs:
            yield f"{id_}: {why or 'released'}, Koordinator: {'released' if theirs else 'waits'}"


def _held_back(gangs: Gangs, id_: str, asks: Sequence[Ask]) -> str | None:
    """Why a gang waits though another one of its group may go."""
    return next((need.waits or None for need in needs(gangs, asks) or () if need.name == f"gang {id_}"), None)


def test_gangs_are_what_koordinator_makes_of_them() -> None:
    assert unexplained("gangs", differences) == []


def test_the_recording_is_of_many_gangs() -> None:
    answers = [case.answers[0] for case in read("gangs").cases]
    gangs = [gang for answer in answers for gang in answer["gangs"].values()]
    assert len(answers) >= 150
    assert sum(1 for gang in gangs if not gang["init"]) >= 20
    assert sum(1 for answer in answers if any(answer["released"].values())) >= 40
    assert sum(1 for answer in answers if len(answer["gangs"]) > 1 and not any(answer["released"].values())) >= 40
