"""Preemption as it goes in a cluster: victims take their time, others ask in the meantime, and then all is quiet."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord_chaos.stories.dice import Dice
from tests.scheduler.plugins.test_default_preemption import engine_with
from tests.scheduler.preemption_scenes import crowded

MOST_ROUNDS = 40


@dataclass
class Story:
    """Rounds in which every waiting pod is tried, the most important first."""

    engine: Engine
    dice: Dice
    waiting: dict[str, Ask]
    going: dict[str, int] = field(default_factory=dict)
    "Victims that still run, and for how many rounds."
    had_others_go: set[str] = field(default_factory=set)
    outbid: set[str] = field(default_factory=set)
    placed: dict[str, str] = field(default_factory=dict)
    evictions: int = 0

    def round(self) -> bool:
        """Whether anything happened, or will."""
        happened = bool(self.going)
        for key in [key for key, rounds in self.going.items() if not rounds]:
            self.engine.cluster.remove_pod(key)
            del self.going[key]
        self.going = {key: rounds - 1 for key, rounds in self.going.items()}
        for key, ask in sorted(self.waiting.items(), key=lambda item: (-item[1].priority, item[0])):
            happened = self.tries(key, ask) or happened
        return happened

    def tries(self, key: str, ask: Ask) -> bool:
        node = self.engine.place(ask).node
        if node is not None:
            del self.waiting[key]
            self.placed[key] = node
            promised = self.engine.cluster.nominations.on(self.engine.cluster.table.row_of[node])
            self.outbid.update(
                nomination.record.key for nomination in promised if nomination.record.priority < ask.priority
            )
            return True
        remedy = self.engine.remedy(ask)
        for lost in self.engine.nominate(ask, remedy):
            self.outbid.add(lost)
        if remedy.node is None:
            return False
        self.had_others_go.add(key)
        self.outbid.discard(key)
        for victim in remedy.victims:
            record, row = self.engine.cluster.pods[victim]
            assert record.priority < ask.priority
            if victim not in self.going:
                self.evictions += 1
                self.going[victim] = self.dice.integer(0, 3)
                self.engine.cluster.place(replace(record, terminating=True, preempted=True), row)
        return True


def told(seed: int, *, plain: bool) -> Story:
    crowd = crowded(seed, plain=plain)
    story = Story(engine_with(crowd), Dice(seed), {pod.metadata.key: Ask(pod) for pod in crowd.pods()})
    for _ in range(MOST_ROUNDS):
        if not story.round():
            break
    else:
        raise AssertionError(f"seed {seed}: no rest after {MOST_ROUNDS} rounds")
    assert not story.round(), f"seed {seed}: something happens after all"
    return story


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_by_amounts_everybody_who_had_others_go_gets_a_place(seed: int) -> None:
    """That one, or another that became free before; unless a more important pod took it."""
    story = told(seed, plain=True)
    assert all(key in story.placed or key in story.outbid for key in story.had_others_go)
    assert len(story.engine.cluster.nominations) == 0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_the_cluster_comes_to_rest_whatever_decides(seed: int) -> None:
    story = told(seed, plain=False)
    assert not story.going
    assert len(story.engine.cluster.nominations) == 0
