"""What survives a restart: all of it, or nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.lending.checkpoint import CheckpointError, memory_in, of_memory
from koord.agent.lending.learner import Learner
from koord.agent.lending.learning import LendingMemory, figures
from koord.agent.live.lending import FILE, LendingFile
from tests.agent.lending.minutes import NODE, after, minute, pod


def learned(minutes: int = 100) -> LendingMemory:
    return after(minutes, minute(12.0, used=45.0, wanted=50.0, rise=2.0, pods={"a": pod(8.0, 5.0)}))


def test_a_restored_memory_has_the_same_figures() -> None:
    memory = learned()
    again = memory_in(of_memory(memory))
    assert figures(again, NODE) == figures(memory, NODE)
    assert (again.got_mean, again.minutes, again.at_s) == (memory.got_mean, memory.minutes, memory.at_s)
    assert again.counted == memory.counted


def test_a_restored_memory_learns_on_as_if_nothing_had_been() -> None:
    on, again = (after(60, minute(20.0, used=30.0), each) for each in (learned(), memory_in(of_memory(learned()))))
    assert figures(on, NODE) == figures(again, NODE)


@given(st.binary(max_size=200))
def test_a_file_that_is_not_one_is_refused(data: bytes) -> None:
    with pytest.raises(CheckpointError):
        memory_in(data)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", 2),
        ("scale", 7.0),
        ("moreMilli", -1.0),
        ("gotMean", 1.5),
        ("minutes", -3),
        ("atS", -1.0),
        ("hour", [1.0] * 61),
        ("memoryByHour", [1e19]),
        ("counted", {"a": [-1.0, False]}),
        ("rises", {"newest_s": 1.0, "total": 1.0, "weights": {"99999": 1}}),
    ],
)
def test_a_file_with_an_impossible_figure_is_refused(field: str, value: Any) -> None:
    kept = json.loads(of_memory(learned()))
    with pytest.raises(CheckpointError):
        memory_in(json.dumps({**kept, field: value}).encode())


def test_a_damaged_file_starts_again_and_is_replaced(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(of_memory(learned())[:100])
    file, learner = LendingFile(tmp_path), Learner()
    file.load(learner)
    assert learner.memory.minutes == 0
    learner.memory = learned()
    file.save(learner)
    again = Learner()
    file.load(again)
    assert again.memory.minutes == 100


def test_a_full_disk_keeps_the_old_file_and_learning_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file, learner = LendingFile(tmp_path), Learner(learned(50))
    file.save(learner)

    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    learner.memory = learned(60)
    with monkeypatch.context() as disk:
        disk.setattr(Path, "write_bytes", full)
        file.save(learner)
        file.save(learner)
    assert [record.message for record in caplog.records if "cannot be written" in record.message][1:] == []
    again = Learner()
    LendingFile(tmp_path).load(again)
    assert again.memory.minutes == 50
    file.save(learner)
    LendingFile(tmp_path).load(again)
    assert again.memory.minutes == 60
