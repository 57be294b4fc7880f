"""The log of what was found, and how it reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from koord.agent.interference.culprits import Suspect, Suspects
from koord.agent.interference.episode import Episode, Finding, Step, Taken
from koord.agent.interference.evidence import CONTAINERS, RING, Evidence, EvidenceLog
from koord.agent.interference.signals import Signal
from koord.agent.interference.story import evidence, sentence
from koord.agent.live import keeping
from koord.agent.live.keeping import EVIDENCE, add_evidence, read_evidence
from koord.api.text.timestamp import parse_timestamp

NOON = parse_timestamp("2026-11-15T12:00:00Z")
BUILD = Suspect("u2", 0.8, 0.71, 5.0, 0.9, 1900.0)
SLOW = Episode("u1", Signal.RUN_QUEUE_DELAY, 7320.0, 0.5, 4.5, 4.5, "app", Suspects((BUILD,)))
NAMES = {"u1": "web-1", "u2": "build-7"}


def taken(step: Step, minutes: int, uid: str = "") -> Taken:
    """So long after noon."""
    return Taken(step, 60.0 * minutes, uid)


def told(episode: Episode) -> str:
    return sentence(episode, lambda uid: NAMES[uid], lambda at_s: NOON + at_s)


def test_an_episode_is_one_sentence_with_its_figures() -> None:
    steps = (
        taken(Step.SLOWED, 122),
        taken(Step.HELD_BACK, 123, "u2"),
        taken(Step.BETTER, 124),
        taken(Step.OVER, 125),
    )
    assert told(replace(SLOW, steps=steps)) == (
        "web-1 was slowed 14:02-14:05: run-queue delay 9x its baseline; build-7 held the CPU 71% of that time;"
        " held back at 14:03, better at 14:04."
    )


@pytest.mark.parametrize(
    ("suspects", "steps", "expected"),
    [
        ((replace(BUILD, direct=None),), (), "build-7 used more CPU meanwhile (score 0.80)."),
        ((), (), "no neighbour used more meanwhile."),
        ((BUILD, replace(BUILD, uid="u1")), (), "unclear: build-7 (score 0.80), web-1 (score 0.80)."),
        (
            (BUILD,),
            (taken(Step.HELD_BACK, 123, "u2"), taken(Step.UNDONE, 124, "u2")),
            "held back at 14:03, undone at 14:04, since it did not help.",
        ),
        (
            (BUILD,),
            (taken(Step.MOVE_ASKED, 123, "u2"),),
            "its own move asked for at 14:03, since build-7 may not be evicted.",
        ),
    ],
)
def test_what_is_not_over_says_what_is_known(
    suspects: tuple[Suspect, ...], steps: tuple[Taken, ...], expected: str
) -> None:
    text = told(replace(SLOW, suspects=Suspects(suspects), steps=steps))
    assert text.startswith("web-1 has been slow since 14:02: run-queue delay 9x its baseline; ")
    assert text.endswith(expected)


def entry(number: int = 0, uid: str = "u1", container: str = "app") -> Evidence:
    finding = Finding(Taken(Step.HELD_BACK, float(number), "u2"), SLOW)
    found = evidence(finding, lambda each: f"shop/{NAMES.get(each, each)}", lambda at_s: NOON + at_s)
    return Evidence(
        **{name: getattr(found, name) for name in found.__struct_fields__} | {"uid": uid, "container": container}
    )  # fmt: skip


def test_a_container_keeps_its_last_entries_and_a_node_its_last_containers() -> None:
    log = EvidenceLog(entry(number) for number in range(3 * RING))
    assert [each.at for each in log] == [entry(number).at for number in range(2 * RING, 3 * RING)]
    for number in range(2 * CONTAINERS):
        log.add(entry(uid=f"pod-{number}"))
    assert len(log) == CONTAINERS
    assert all(each.uid != "pod-0" for each in log)


def test_evidence_is_found_by_the_victim_and_by_the_suspect() -> None:
    log = EvidenceLog([entry()])
    assert log.of("shop/web-1") == log.of("shop/build-7") == [entry()]
    assert log.of("shop/other") == []
    assert entry().suspects[0].direct == 0.71


def test_evidence_survives_a_restart_and_a_cut_off_line_and_stays_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "EVIDENCE_BYTES", 64 * 1024)
    log = read_evidence(tmp_path)
    for number in range(400):
        one = entry(number)
        log.add(one)
        add_evidence(tmp_path, log, one)
        assert (tmp_path / EVIDENCE).stat().st_size < 66 * 1024
    with (tmp_path / EVIDENCE).open("ab") as file:
        file.write(b'{"at": "2026-')
    assert list(read_evidence(tmp_path)) == list(log)
    assert len(log) == RING
