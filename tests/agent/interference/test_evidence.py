"""The log of what was found, and how it reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as replace_in

from koord.agent.interference.culprits import Suspect, Suspects
from koord.agent.interference.episode import Episode, EpisodeStep, Finding, Step
from koord.agent.interference.evidence import CONTAINERS, RING, Evidence, EvidenceLog, line
from koord.agent.interference.signals import Signal
from koord.agent.interference.story import evidence, lost, sentence
from koord.agent.live import keeping
from koord.agent.live.keeping import EVIDENCE, add_evidence, evidence_so_far, read_evidence
from koord.api.text.timestamp import parse_timestamp
from koord.cli.main import run

NOON = parse_timestamp("2026-11-15T12:00:00Z")
BUILD = Suspect("u2", 0.8, 0.71, 5.0, 0.9, 1900.0)
SLOW = Episode("u1", Signal.RUN_QUEUE_DELAY, 7320.0, 0.5, 4.5, 4.5, "app", Suspects((BUILD,)))
NAMES = {"u1": "web-1", "u2": "build-7"}


def taken(step: Step, minutes: int, uid: str = "") -> EpisodeStep:
    """So long after noon."""
    return EpisodeStep(step, 60.0 * minutes, uid)


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
        ((BUILD, replace(BUILD, uid="u1")), (), "unclear: build-7 (score 0.80), its own work (score 0.80)."),
        ((replace(BUILD, uid="u1", score=0.4),), (), "no neighbour used more meanwhile."),
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
    suspects: tuple[Suspect, ...], steps: tuple[EpisodeStep, ...], expected: str
) -> None:
    text = told(replace(SLOW, suspects=Suspects(suspects), steps=steps))
    assert text.startswith("web-1 has been slow since 14:02: run-queue delay 9x its baseline; ")
    assert text.endswith(expected)


def entry(number: int = 0, uid: str = "u1", container: str = "app") -> Evidence:
    finding = Finding(EpisodeStep(Step.HELD_BACK, float(number), "u2"), SLOW)
    found = evidence(finding, lambda each: f"shop/{NAMES.get(each, each)}", lambda at_s: NOON + at_s)
    return Evidence(
        **{name: getattr(found, name) for name in found.__struct_fields__} | {"uid": uid, "container": container}
    )  # fmt: skip


def test_a_container_keeps_its_last_entries_and_a_node_its_last_containers() -> None:
    log = EvidenceLog(entry(number) for number in range(3 * RING))
    assert [evidence.at for evidence in log] == [entry(number).at for number in range(2 * RING, 3 * RING)]
    for number in range(2 * CONTAINERS):
        log.add(entry(uid=f"pod-{number}"))
    assert len(log) == CONTAINERS
    assert all(evidence.uid != "pod-0" for evidence in log)


def test_evidence_is_found_by_the_victim_and_by_the_suspect() -> None:
    log = EvidenceLog([entry()])
    assert log.of("shop/web-1") == log.of("shop/build-7") == [entry()]
    assert log.of("shop/other") == []
    assert entry().suspects[0].direct == 0.71


@pytest.mark.parametrize(
    "damage",
    [
        b"\xff\xfe\x00",
        b'{"at":"\xff\xfe"}',
        b'{"else":' + b"[" * 100_000,
        b'{"at":"\xed\xa0\x80"}',
        b"\x00" * 5000,
        b"null",
    ],
    ids=["no text", "no utf-8", "nested", "half a character", "zeros", "null"],
)
def test_a_line_of_any_bytes_is_passed_over(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / EVIDENCE).write_bytes(line(entry(1)) + damage + b"\n" + line(entry(2)))
    assert list(read_evidence(tmp_path)) == [entry(1), entry(2)]


def test_an_agent_starts_without_what_it_found_before_where_that_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / EVIDENCE).mkdir()
    assert not list(evidence_so_far(tmp_path))
    assert run(["agent", "--state-dir", str(tmp_path), "evidence", "shop/web-1"]) == 2
    assert EVIDENCE in capsys.readouterr().err


def test_of_a_file_that_somebody_let_grow_only_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "EVIDENCE_BYTES", 64 * 1024)
    (tmp_path / EVIDENCE).write_bytes(line(entry(1)) * 10_000 + line(entry(2)))
    assert list(read_evidence(tmp_path))[-1] == entry(2)


def test_a_node_with_many_slow_containers_writes_its_file_anew_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the rings may hold together is larger than the file may be."""
    monkeypatch.setattr(keeping, "EVIDENCE_BYTES", 64 * 1024)
    log, times, inode = EvidenceLog(), 0, 0
    for number in range(2000):
        one = entry(number, uid=f"pod-{number % 500}")
        log.add(one)
        add_evidence(tmp_path, log, one)
        found = (tmp_path / EVIDENCE).stat()
        assert found.st_size < 66 * 1024
        times, inode = times + (found.st_ino != inode), found.st_ino
    assert times <= 2 * 2000 * len(line(entry())) // (64 * 1024) + 2, "each time, half of it is free again"
    assert list(read_evidence(tmp_path)) == list(log)
    assert list(log)[-1] == one


def test_a_clock_that_is_set_back_puts_no_end_before_its_beginning() -> None:
    began, over = replace_in(entry(600), step="slowed"), replace_in(entry(0), step="over")
    assert began.at > over.at
    assert list(EvidenceLog([began, over])) == [began, over]


def test_a_suspect_is_shown_the_whole_episode_and_no_other() -> None:
    steps = [("slowed", ""), ("held-back", "shop/build-7"), ("better", ""), ("over", ""), ("slowed", ""), ("over", "")]
    log = EvidenceLog(replace_in(entry(at), step=step, suspect=suspect) for at, (step, suspect) in enumerate(steps))
    log.add(replace_in(entry(9, uid="u3"), step="slowed", suspect="", pod="shop/cart-0"))
    assert [evidence.step for evidence in log.of("shop/build-7")] == ["slowed", "held-back", "better", "over"]
    assert len(log.of("shop/web-1")) == len(steps)


def test_an_episode_that_nobody_watches_any_more_says_so() -> None:
    last = evidence(
        Finding(taken(Step.HELD_BACK, 123, "u2"), SLOW), lambda uid: f"shop/{NAMES[uid]}", lambda s: NOON + s
    )
    found = "run-queue delay 9x its baseline; build-7 held the CPU 71% of that time"
    assert lost(last, NOON + 60 * 126, has_ended=True).message == (
        f"web-1 was slowed 14:02-14:06: {found}; then it ended."
    )
    assert lost(last, NOON + 60 * 126, has_ended=False).message == (
        f"web-1 was slowed 14:02-14:03 at least: {found}; nobody watches it or is held back for it since."
    )


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
