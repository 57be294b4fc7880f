"""The real server's answers, kept: one file per module of sequences."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from tests.minicluster.apiserver.differential.sequences import MODULES
from tests.minicluster.apiserver.differential.steps import Sequence

FOLDER = Path(__file__).parent / "recorded"


class Stale(Exception):
    """A sequence that was changed, or added, since it was recorded."""


def all_sequences() -> dict[str, Sequence]:
    """Every sequence by its name."""
    found: dict[str, Sequence] = {}
    for module in MODULES:
        for sequence in module.SEQUENCES:
            assert sequence.name not in found, f"two sequences are called {sequence.name}"
            found[sequence.name] = sequence
    return found


def recorded(sequence: Sequence) -> list[dict[str, Any]]:
    """What the real server answered."""
    record = _load().get(sequence.name)
    if record is None or record["steps"] != [step.fingerprint() for step in sequence.steps]:
        state = "was never recorded" if record is None else "was changed since it was recorded"
        raise Stale(
            f"{sequence.name} {state}; python -m tests.minicluster.apiserver.differential record {sequence.name}"
        )
    answers: list[dict[str, Any]] = record["answers"]
    return answers


def write(answers: dict[str, list[dict[str, Any]]], version: str) -> None:
    """Write answers beside the recorded ones; sequences that no longer exist are dropped."""
    for module in MODULES:
        path = FOLDER / f"{_file_of(module.__name__)}.json"
        kept = json.loads(path.read_text())["sequences"] if path.exists() else {}
        made = {}
        for sequence in module.SEQUENCES:
            if sequence.name in answers:
                made[sequence.name] = {
                    "steps": [step.fingerprint() for step in sequence.steps],
                    "answers": answers[sequence.name],
                }
            elif sequence.name in kept:
                made[sequence.name] = kept[sequence.name]
        if made == kept:
            continue
        path.write_text(_written(made, version))
    _load.cache_clear()


def _written(made: dict[str, Any], version: str) -> str:
    """JSON with one answer a line, so that a change of the record can be read as a diff."""
    head = json.dumps({"server": version, "recorded": datetime.now(UTC).date().isoformat()})[:-1]
    parts = []
    for name, record in made.items():
        answers = ",\n   ".join(json.dumps(answer, ensure_ascii=False) for answer in record["answers"])
        parts.append(f'  "{name}": {{"steps": {json.dumps(record["steps"])}, "answers": [\n   {answers}\n  ]}}')
    return f'{head}, "sequences": {{\n' + ",\n".join(parts) + "\n}}\n"


@cache
def _load() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted(FOLDER.glob("*.json")):
        found.update(json.loads(path.read_text())["sequences"])
    return found


def _file_of(module: str) -> str:
    return module.rpartition(".")[2]
