"""Events on pods about an episode: on the victim, on the suspect, and that it ended, whatever ended it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as changed

from koord.agent.interference.culprits import Suspect, Suspects
from koord.agent.interference.episode import NOISY_POD, POD_SLOWED, Episode, EpisodeStep, Finding, HeldBy, Step
from koord.agent.interference.signals import Signal
from koord.agent.live.interfering import Interfering
from koord.agent.live.keeping import read_evidence
from koord.agent.pods import AgentPod
from koord.agent.qos.decision import Move
from koord.api.kubernetes.core import Event
from koord.api.kubernetes.meta import ObjectReference
from koord.api.text.timestamp import from_seconds, parse_timestamp
from koord.kube.errors import ApiError, Forbidden, NotFound, Status
from koord.offline.slowdowns import slowdowns_of
from tests.agent import states

NOON = parse_timestamp("2026-11-15T12:00:00Z")


@dataclass
class ClockAndRecorder:
    """A clock, and a recorder that keeps events as an API server would."""

    at_s: float = 7320.0
    events: list[Event] = field(default_factory=list)

    def now(self) -> float:
        return NOON + self.at_s

    def monotonic(self) -> float:
        return self.at_s

    def record(self, regarding: ObjectReference, reason: str, note: str, **more: Any) -> None:
        time = f"{from_seconds(self.now())}.{len(self.events):06}"
        self.events.append(Event(event_time=time, regarding=regarding, reason=reason, note=note, **more))

    def of(self, name: str) -> tuple[str, ...]:
        return slowdowns_of(f"ns/{name}", self.events)


class Node:
    def __init__(self, state_dir: Path) -> None:
        self.told, self.state_dir = ClockAndRecorder(), state_dir
        self.pods: dict[str, AgentPod] = {
            "web": states.pod("web", "LS"), "shop": states.pod("shop", "LS"), "build": states.pod("build", "BE")
        }  # fmt: skip
        self.start()

    def start(self) -> None:
        told: Any = self.told
        self.agent = Interfering(told, told, told, self.state_dir, lambda: self.pods, {}, "here")

    def step(self, victim: str, *steps: Step) -> None:
        """The episode of a service that waits since a minute ago, and its last step."""
        build = Suspect("build", 0.9, 0.71, 5.0, 0.9, 1900.0)
        taken = tuple(
            EpisodeStep(step, self.told.at_s, "build", HeldBy.CPU)
            if step is Step.HELD_BACK
            else EpisodeStep(step, self.told.at_s)
            for step in steps
        )
        began_s = self.told.at_s - 60.0
        episode = Episode(victim, Signal.RUN_QUEUE_DELAY, began_s, 0.5, 4.5, 4.5, "main", Suspects((build,)), taken)
        self.agent.tell(Finding(taken[-1], episode))

    def begin(self, victim: str) -> None:
        self.step(victim, Step.SLOWED)
        self.step(victim, Step.SLOWED, Step.HELD_BACK)


def test_a_pod_that_slows_two_services_down_reads_how_each_episode_ended(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.step("web", Step.SLOWED)
    node.step("shop", Step.SLOWED)
    node.step("web", Step.SLOWED, Step.HELD_BACK)
    node.step("shop", Step.SLOWED, Step.OVER)
    node.step("web", Step.SLOWED, Step.HELD_BACK, Step.BETTER, Step.OVER)
    of_web, of_shop = node.told.of("build")
    assert of_web.startswith("web was slowed 14:01-14:02: run-queue delay 9x")
    assert "held back at 14:02, better at 14:02" in of_web
    assert of_shop.startswith("shop was slowed 14:01-14:02")
    assert node.told.of("web") == (of_web,)


def test_the_episode_of_a_pod_that_ended_ends_with_it(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.begin("web")
    node.agent.watch({"web"})
    assert len(node.told.events) == 4
    del node.pods["web"]
    node.told.at_s += 120.0
    for _ in range(3):
        node.agent.watch(())
    (said,) = node.told.of("web")
    assert said.startswith("web was slowed 14:01-14:04: ")
    assert said.endswith("held back at 14:02; then it ended.")
    assert node.told.of("build") == (said,)
    assert [evidence.step for evidence in read_evidence(tmp_path)] == ["slowed", "held-back", "lost"]


@pytest.mark.parametrize("why", ["the gate is switched off", "the agent is killed"])
def test_an_episode_that_is_not_watched_to_its_end_is_not_called_slow_for_ever(tmp_path: Path, why: str) -> None:
    node = Node(tmp_path)
    node.begin("web")
    node.told.at_s += 600.0
    if why == "the agent is killed":
        node.start()
    for _ in range(3):
        node.agent.watch(())
    (said,) = node.told.of("web")
    assert said.startswith("web was slowed 14:01-14:02 at least: ")
    assert said.endswith("held back at 14:02; nobody watches it or is held back for it since.")
    assert node.told.of("build") == (said,)
    node.start()
    node.agent.watch(())
    assert [evidence.step for evidence in read_evidence(tmp_path)] == ["slowed", "held-back", "lost"]


@pytest.mark.parametrize("is_gone", [False, True])
def test_an_agent_that_starts_ends_what_another_began(tmp_path: Path, is_gone: bool) -> None:
    node = Node(tmp_path)
    node.begin("web")
    if is_gone:
        node.pods = {}
    node.start()
    node.agent.watch(())
    assert [evidence.step for evidence in read_evidence(tmp_path)] == ["slowed", "held-back", "lost"]


def test_a_stateful_pod_that_is_made_anew_begins_an_episode_of_its_own(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.begin("web")
    web = states.pod("web", "LS")
    anew = replace(web, meta=changed(web.meta, uid="web-2"))
    node.pods = {"web-2": anew, "build": node.pods["build"]}
    node.agent.watch(())
    node.begin("web-2")
    ended, goes_on = node.told.of("web")
    assert ended.endswith("then it ended.")
    assert goes_on.startswith("web has been slow since 14:01")


@pytest.mark.parametrize("error", [NotFound(Status(code=404)), Forbidden(Status(code=403))])
async def test_a_move_that_nobody_can_be_asked_for_is_told_on_the_pod(tmp_path: Path, error: ApiError) -> None:
    node = Node(tmp_path)

    async def create(*_: object, **__: object) -> None:
        raise error

    node.told.create = create  # type: ignore[attr-defined]  # the client of this node
    assert not await node.agent.move(Move(node.pods["web"], "interference", "ns/build slows ns/web down"))
    assert [(event.reason, event.regarding.name) for event in node.told.events] == [("MoveFailed", "web")]


def test_reasons_are_the_two_that_people_filter_by(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.begin("web")
    assert {(event.regarding.name, event.reason, event.type) for event in node.told.events} == {
        ("web", POD_SLOWED, "Warning"),
        ("build", NOISY_POD, "Warning"),
    }
