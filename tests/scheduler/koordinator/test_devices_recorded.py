"""Devices are handed out as Koordinator's DeviceShare does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from koord.api.machinery.codec import convert
from koord.api.protocol.crd.device import Device
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import One
from koord.scheduler.framework.exact_check import Objection
from koord.scheduler.plugins.devices.alignment import hints
from koord.scheduler.plugins.devices.allocate import Grants, allocate
from koord.scheduler.plugins.devices.check import DeviceCheck
from koord.scheduler.plugins.devices.judge import DeviceJudge
from koord.scheduler.plugins.devices.requests import InvalidRequest, Wanted, wanted
from koord.scheduler.state.table import Row
from tests.scheduler.build import node, pod
from tests.scheduler.koordinator.recording import Answer, Question, read, unexplained
from tests.scheduler.plugins.devices.machines import ALLOCATED, Scene, asking

SCORED = ("gpu-memory-ratio", "gpu-memory", "rdma", "fpga")


@dataclass
class Asked:
    """A pod that asks for devices of one node, with all that is on it."""

    scene: Scene
    ask: Ask
    judge: DeviceJudge
    check: DeviceCheck
    wanted: Wanted
    row: Row


def asked(question: Question) -> Asked | None:
    """None where the pod's requests are not valid."""
    weights = [{"name": f"koordinator.sh/{each}", "weight": 1} for each in SCORED]
    scene = Scene(scoringStrategy={"type": question["strategy"], "resources": weights})
    scene.cluster.put_node(node("n", labels=question.get("node_labels", {})))
    device = question["device"]
    scene.devices.put_device(convert(Device, {**device, "metadata": {**device.get("metadata", {}), "name": "n"}}))
    for i, of_type in enumerate(question.get("pods", ())):
        said = {type_: [_device(device) for device in devices] for type_, devices in of_type.items()}
        requests = asking(**{type_: len(devices) for type_, devices in of_type.items()})
        scene.put(pod(f"there-{i}", on="n", requests=requests, annotations={ALLOCATED: json.dumps(said)}))
    requests = {name: str(amount) for name, amount in question["request"].items()}
    ask = Ask(pod("new", requests=requests, annotations=question.get("annotations", {})))
    try:
        found = wanted(ask.requests, ask.meta)
    except InvalidRequest:
        return None
    judge = scene.plugin.compile(ask, scene.cluster)
    assert found is not None
    assert isinstance(judge, DeviceJudge)
    assert judge.exact is not None
    return Asked(scene, ask, judge, judge.exact, found, scene.cluster.table.row_of["n"])


def _device(each: dict[str, Any]) -> dict[str, Any]:
    vfs = [{"minor": 0, "busID": bus} for bus in each.get("vfs", ())]
    resources = {name: str(amount) for name, amount in each["resources"].items()}
    return {"minor": each["minor"], "resources": resources, **({"extension": {"vfs": vfs}} if vfs else {})}


def differences(question: Question, answer: Answer) -> list[str]:
    here = asked(question)
    invalid = "per_card" not in answer and answer["reasons"][0].startswith("invalid resource")
    if here is None or invalid:
        return [] if here is None and invalid else [f"valid: {here is not None}, Koordinator: {not invalid}"]
    return [*_requests(here, answer), *_devices(here, question, answer), *_hints(here, answer)]


def _requests(here: Asked, answer: Answer) -> Iterator[str]:
    for request in here.wanted.requests:
        theirs = answer.get("per_card", {}).get(request.type, request.amounts)
        number = answer.get("count", {}).get(request.type, request.count)
        # All that there are is a number in Koordinator.
        if request.amounts != theirs or request.count not in (0, number):
            yield f"{request.count} x {request.amounts}, not {number} x {theirs}"


def _devices(here: Asked, question: Question, answer: Answer) -> Iterator[str]:
    mask = sum(1 << number for number in question["numa"]) if "numa" in question else None
    room = here.check.room(here.ask, here.row, mask)
    assert room is not None
    found = allocate(room, here.wanted, here.check.score_in(room))
    if isinstance(found, Objection):
        # Of two types that are short either may be told.
        same = len(here.wanted.requests) > 1 or found.resolvable == (answer.get("code") == "Unschedulable")
        if "code" not in answer or not same:
            yield f"{found}, not {answer.get('allocated') or answer['reasons']}"
        return
    if "code" in answer:
        yield f"{_minors(found)}, not {answer['reasons']}"
        return
    theirs = {
        type_: sorted(
            (device["minor"], sorted(device["resources"].items()), device.get("vfs", [])) for device in devices
        )
        for type_, devices in answer["allocated"].items()
    }
    if _told(found) != theirs:
        yield f"{_told(found)}, not {theirs}"
    if mask is None and "selector" not in str(question.get("annotations")):
        score = here.judge.facets[0].raw(One(here.scene.cluster.table.columns, here.row))  # type: ignore[attr-defined]
        if score != answer["score"]:
            yield f"node score {score}, not {answer['score']}"


def _hints(here: Asked, answer: Answer) -> Iterator[str]:
    if "hints" not in answer and "hint_code" not in answer:
        return
    room = here.check.room(here.ask, here.row)
    assert room is not None
    ours = {
        type_: sorted((hint.nodes, hint.preferred, hint.score) for hint in each or ())
        for type_, each in hints(room, here.wanted, here.check.score_in(room)).items()
    }
    theirs = {
        type_: sorted((sum(1 << n for n in hint["nodes"]), hint["preferred"], hint["score"]) for hint in each)
        for type_, each in answer.get("hints", {}).items()
    }
    if ours != theirs:
        yield f"hints {ours}, not {theirs}"


def _told(found: Grants) -> dict[str, list[tuple[int, list[tuple[str, int]], list[str]]]]:
    return {
        type_: [(grant.minor, list(grant.amounts), [vf.bus_id for vf in grant.vfs]) for grant in grants]
        for type_, grants in found.items()
    }


def _minors(found: Grants) -> dict[str, list[int]]:
    return {type_: [grant.minor for grant in grants] for type_, grants in found.items()}


def test_devices_are_those_that_koordinator_gives() -> None:
    assert unexplained("devices", differences) == []


def test_the_recording_is_of_many_machines() -> None:
    cases = read("devices").cases
    answers = Counter(case.answers[0].get("code", "given") for case in cases)
    assert {key for key, times in answers.items() if times >= 25} == {
        "given",
        "Unschedulable",
        "UnschedulableAndUnresolvable",
    }
    given = [case.answers[0]["allocated"] for case in cases if "allocated" in case.answers[0]]
    assert sum(1 for each in given if len(each.get("gpu", ())) > 1) >= 30
    assert sum(1 for each in given if "rdma" in each) >= 40
    assert sum(1 for each in given if any("vfs" in one for one in each.get("rdma", ()))) >= 5
    assert sum(1 for case in cases if "hints" in case.answers[0]) >= 40
