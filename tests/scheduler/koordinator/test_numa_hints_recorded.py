"""Hints of several plugins are merged as Koordinator's topology manager does."""

from __future__ import annotations

import re
from collections import Counter

from koord.scheduler.framework.exact_check import Objection
from koord.scheduler.plugins.numa.hints import Agreed, Hint, Hints, Rule, merged
from tests.scheduler.koordinator.recording import Answer, Question, read, unexplained


def agreed(question: Question) -> Agreed | Objection:
    hints: dict[str, Hints] = {
        name: None if each is None else tuple(Hint(_mask(h["nodes"]), h["preferred"], h["score"]) for h in each)
        for provider in question["providers"]
        for name, each in (provider or {}).items()
    }
    uses = tuple(question["status"]) if question["exclusive"] == "Required" else None
    return merged(hints, Rule(question["policy"], _mask(question["numa_nodes"]), uses))


def differences(question: Question, answer: Answer) -> list[str]:
    found = agreed(question)
    if isinstance(found, Objection):
        words = ", ".join(answer["reasons"]) if not answer["admit"] else "taken"
        return [] if _without_zeros(found.reason) == _without_zeros(words) else [f"{found.reason}, not {words}"]
    if not answer["admit"]:
        return [f"{found}, not {answer['reasons']}"]
    theirs = None if answer["affinity"] is None else _mask(answer["affinity"])
    # Any nodes will do, and all nodes: the same.
    same = theirs in (None, _mask(question["numa_nodes"])) if found.nodes is None else theirs == found.nodes
    return [] if same else [f"{found}, not {theirs}"]


def _mask(nodes: list[int]) -> int:
    return sum(1 << node for node in nodes)


def _without_zeros(reason: str) -> str:
    """How many digits a mask has in the text does not matter."""
    return re.sub(r"(?<=[\[ ])0+(?=1)", "", reason)


def test_merged_hints_are_those_of_koordinator() -> None:
    assert unexplained("numa_hints", differences) == []


def test_the_recording_is_of_many_hints() -> None:
    cases = read("numa_hints").cases
    taken = Counter((case.question["policy"], case.answers[0]["admit"]) for case in cases)
    assert {key for key, times in taken.items() if times >= 20} == {
        ("BestEffort", True),
        ("Restricted", True),
        ("Restricted", False),
        ("SingleNUMANode", True),
        ("SingleNUMANode", False),
    }
