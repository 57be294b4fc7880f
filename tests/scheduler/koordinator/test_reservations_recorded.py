"""Pods find the reservations that Koordinator finds for them, and are refused where it refuses them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.reservation import Reservation
from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.reservation import fitting
from koord.scheduler.plugins.reservation.judges import Rooming
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array
from tests.scheduler.koordinator.recording import Answer, Question, read, unexplained
from tests.scheduler.reservations import PREFIX, World

TOO_MANY = "Insufficient pods by node"


@dataclass
class NodeVerdict:
    """What a pod finds on one node."""

    matched: list[str] = field(default_factory=list)
    scores: dict[str, int] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    short: list[str] = field(default_factory=list)
    "Of what the node has too little, as NodeResourcesFit sees it."
    nominated: str = ""


def found(question: Question) -> dict[str, NodeVerdict]:
    world = World()
    world.put(*(convert(Node, node) for node in question["nodes"]))
    world.put(*(convert(Reservation, reservation) for reservation in question["reservations"]))
    for pod in question["pods"]:
        owned = question["owned"].get(pod["metadata"]["name"])
        said = {f"{PREFIX}reservation-allocated": json.dumps({"name": owned, "uid": f"uid-{owned}"})} if owned else {}
        meta = {**pod["metadata"], "annotations": said}
        world.put(convert(Pod, {**pod, "metadata": meta, "status": {"phase": "Running"}}))
    ask = Ask(convert(Pod, question["pod"]))
    return {node["metadata"]["name"]: _on(world, ask, node["metadata"]["name"]) for node in question["nodes"]}


def _on(world: World, ask: Ask, name: str) -> NodeVerdict:
    cluster = world.core.cluster
    row, rooms = cluster.table.row_of[name], world.rooms
    for resource, _ in ask.requests:
        cluster.resource(resource)
    wish = rooms.wish(ask)
    if wish is None:
        return NodeVerdict(short=_short(cluster, cluster.table.columns, ask, row))
    matching = rooms.matching(wish, ask.meta)
    rooming, here = Rooming(cluster, matching, ask.requests, frozenset()), matching.at.get(row, [])
    mask = 0 if wish.ignores else rooming.verdict(row)
    named = next((room for at in matching.at.values() for room in at), None) if matching.rules.name else None
    chosen = None if mask or wish.ignores else rooming.chosen(row)
    return NodeVerdict(
        sorted(room.name for room in here),
        {room.name: fitting.score(ask.requests, room) for room in here},
        sorted(fitting.words(mask, ask.requests, named)),
        _short(cluster, matching.view.columns, ask, row),
        "" if chosen is None else chosen.name,
    )


def _short(cluster: Cluster, seen: Mapping[Hashable, Array], ask: Ask, row: int) -> list[str]:
    def left(has: Array, taken: Array) -> int:
        return int(has[row]) - int(taken[row])

    columns = cluster.table.columns
    pods = ["pods"] if left(columns["allocatable", "pods"], seen["pod count"]) < 1 else []
    return pods + [
        name for name, asked in ask.requests if asked > left(columns["allocatable", name], seen["requested", name])
    ]


def differences(question: Question, answer: Answer) -> list[str]:
    ours = found(question)
    if "error" in answer:
        return [f"{name}: {each}, not {answer['error']}" for name, each in ours.items() if not each.reasons]
    return [line for name, theirs in answer["nodes"].items() for line in _against(ours[name], theirs, name)]


def _against(ours: NodeVerdict, theirs: Answer, name: str) -> Iterator[str]:
    if ours.matched != theirs.get("matched", []):
        yield f"{name}: matched {ours.matched}, not {theirs.get('matched', [])}"
        return
    if ours.scores != theirs.get("scores", {}):
        yield f"{name}: scores {ours.scores}, not {theirs.get('scores', {})}"
    short, reasons = theirs.get("short", []), set(theirs.get("reasons", []))
    if "pods" in short and ours.matched:
        reasons.add(TOO_MANY)  # Koordinator leaves that to NodeResourcesFit.
    if bool(ours.reasons or ours.short) != bool(reasons or short):
        yield f"{name}: {ours.reasons or ours.short}, not {sorted(reasons) or short}"
    elif ours.reasons and reasons and ours.reasons != sorted(reasons):
        yield f"{name}: {ours.reasons}, not {sorted(reasons)}"
    elif not (ours.reasons or ours.short) and ours.nominated != theirs.get("nominated", ""):
        yield f"{name}: {ours.nominated} is taken, not {theirs.get('nominated')}"


def test_pods_find_the_reservations_that_koordinator_finds() -> None:
    assert unexplained("reservations", differences) == []


def test_the_recording_is_of_many_reservations() -> None:
    nodes = [node for case in read("reservations").cases for node in case.answers[0].get("nodes", {}).values()]
    reasons = Counter(reason for node in nodes for reason in node.get("reasons", []))
    assert sum(1 for node in nodes if len(node.get("matched", ())) > 1) >= 30
    assert sum(1 for node in nodes if node.get("nominated")) >= 80
    assert reasons["Insufficient cpu by node"] >= 20
    assert reasons["node(s) no reservations match reservation affinity"] >= 8
    assert sum(times for reason, times in reasons.items() if reason.startswith("Reservation(s) Insufficient")) >= 8
