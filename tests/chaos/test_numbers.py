"""The table of faults and stories that koord has stood: made from records, and up to date."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools import chaos_numbers


def outcome(number: int, *seconds: float | None, virtual: bool = False, broken: bool = False) -> dict[str, Any]:
    recoveries = [{"kind": "kill", "target": "manager-a", "seconds": value} for value in seconds]
    fault = {"kind": "kill", "target": "manager-a"}
    return {
        "number": number,
        "faults": [fault] * len(seconds),
        "recoveries": recoveries,
        "violations": ["lost"] if broken else [],
        "seed": 7,
        "virtual": virtual,
    }


def lines(folder: Path, name: str, *records: dict[str, Any]) -> Path:
    path = folder / name
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def test_runs_are_added_once_and_counted_by_where_they_ran(tmp_path: Path) -> None:
    files = [
        lines(tmp_path, "real", outcome(0, 1.04, 3.0), outcome(1, 2.0)),
        lines(tmp_path, "virtual", outcome(0, 0.5, virtual=True), outcome(1, None, virtual=True, broken=True)),
        lines(tmp_path, "stories", {"first": 0, "end": 20, "broken": 0}, {"first": 20, "end": 40, "broken": 1}),
    ]
    runs = chaos_numbers.merged({}, files)
    assert chaos_numbers.merged(runs, files) == runs
    text = chaos_numbers.text(runs)
    assert "| stories in memory | 40 | 1 |" in text
    assert "| rounds of faults on processes | 2 | 0 |" in text
    assert "| rounds of faults in virtual time | 2 | 1 |" in text
    assert "| `kill` | 3 | 2.0 s | 3.0 s | 2 | 0.5 s | 0.5 s |" in text
    assert "| `pause` | - | - | - | - | - | - |" in text


def test_the_page_shows_the_recorded_runs() -> None:
    page = chaos_numbers.PAGE.read_text()
    assert chaos_numbers.rewritten(page, json.loads(chaos_numbers.NUMBERS.read_text())) == page
