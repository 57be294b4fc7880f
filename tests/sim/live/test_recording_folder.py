"""The folder of a recording: killed at any time, it continues without a line twice."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from koord.api.machinery.faults import BadInput
from koord.sim.history.rows import Cell, Lines, PodFacts, Use
from koord.sim.live.recording_folder import SCENARIO, STATE, RecordingFolder
from koord.sim.live.traces import read_recording
from koord.sim.scenario import parse
from koord.sim.traces.trace import Content

SOURCE = "the cluster at https://127.0.0.1:6443"


def lines(*minutes: int) -> dict[Content, list[tuple[Cell, ...]]]:
    collected = Lines()
    for minute in minutes:
        collected.add_use(Use(60 * minute, "shop/web", "n1", False, 100 * minute, None), PodFacts(0, 500, 1 << 30))
    return collected.taken()


def opened(folder: Path, most_bytes: int = 1 << 30) -> RecordingFolder:
    return RecordingFolder(folder, SOURCE, most_bytes)


def append(folder: RecordingFolder, *minutes: int) -> None:
    folder.append(lines(*minutes), {"n1": 60.0 * max(minutes)}, tuple(60.0 * minute for minute in minutes))


def use(folder: Path) -> list[float]:
    services = read_recording(folder).services
    assert services is not None
    return [float(value) for value in services.cpu_milli[0]]


def test_parts_make_one_file(tmp_path: Path) -> None:
    recording = opened(tmp_path / "new")
    append(recording, 1, 2)
    append(recording, 3)
    assert use(tmp_path / "new") == [100, 200, 300]
    assert (recording.state.first_s, recording.state.last_s) == (60, 180)


def test_a_recording_that_was_killed_between_file_and_state_repeats_nothing(tmp_path: Path) -> None:
    append(opened(tmp_path), 1)
    state = (tmp_path / STATE).read_bytes()
    append(opened(tmp_path), 2)
    # As after a kill in the second part: the file has it, perhaps not whole, and the state does not.
    (tmp_path / STATE).write_bytes(state)
    with (tmp_path / "services.csv.gz").open("ab") as file:
        file.write(b"\x1f\x8b\x08 half a part")
    recording = opened(tmp_path)
    assert recording.state.until_s == {"n1": 60}
    append(recording, 2)
    assert use(tmp_path) == [100, 200]
    assert read_recording(tmp_path).repairs == ()


def test_a_recording_that_was_killed_before_its_first_state_begins_again(tmp_path: Path) -> None:
    recording = opened(tmp_path)
    append(recording, 1)
    (tmp_path / STATE).write_text(json.dumps({"version": 1, "source": SOURCE}))
    recording = opened(tmp_path)
    append(recording, 5)
    assert gzip.decompress((tmp_path / "services.csv.gz").read_bytes()).decode().count("time_s") == 1
    assert use(tmp_path) == [500]


def test_a_recording_without_a_sample_leaves_no_folder(tmp_path: Path) -> None:
    recording = opened(tmp_path / "new")
    recording.append({}, {}, ())
    assert not (tmp_path / "new").exists()


def test_a_full_folder_says_so(tmp_path: Path) -> None:
    recording = opened(tmp_path, 150)
    assert not recording.is_full
    append(recording, 1, 2, 3)
    assert recording.is_full


def test_the_scenario_simulates_the_whole_recording_and_stays_if_it_was_changed(tmp_path: Path) -> None:
    recording = opened(tmp_path)
    append(recording, 1, 10)
    recording.write_scenario()
    scenario = parse((tmp_path / SCENARIO).read_text(), SCENARIO)
    assert (scenario.ticks, scenario.services.trace, scenario.batch.trace) == (10, "table", "table")
    (tmp_path / SCENARIO).write_text("name: mine\nduration: 5m\n")
    recording.write_scenario()
    assert (tmp_path / SCENARIO).read_text() == "name: mine\nduration: 5m\n"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"notes.txt": "mine"}, "has other files and no recording.json"),
        ({STATE: "{"}, r"recording\.json: is damaged"),
        ({STATE: '{"version": 9, "source": "x"}'}, "version 9 is not supported, this koord writes 1"),
        ({STATE: '{"version": 1, "source": "Prometheus x"}'}, "is a recording of Prometheus x, not of the cluster"),
        (
            {
                STATE: json.dumps({"version": 1, "source": SOURCE, "sizes": {"services.csv.gz": 5}}),
                "services.csv.gz": "a",
            },
            r"services\.csv\.gz: is missing or shorter than recording\.json says",
        ),
    ],
)
def test_a_folder_that_cannot_be_continued_is_refused_and_left_alone(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=message):
        opened(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == files


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="is a file; name a folder"):
        opened(tmp_path / "file")
