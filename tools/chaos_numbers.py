"""How many faults and stories koord has stood, as a table in docs/break-it-on-purpose.md.

`python -m tools.chaos_numbers FILE...` adds what `koord chaos faults --record` and `koord chaos stories --record` wrote
to tools/chaos_numbers.json, and writes the table. A run that was added before is replaced. Without files the table is
checked.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from koord_chaos.faults.kinds import KINDS
from koord_chaos.faults.recovery import quantile

PAGE: Final = Path(__file__).parents[1] / "docs" / "break-it-on-purpose.md"
NUMBERS: Final = Path(__file__).with_suffix(".json")
BEGIN: Final = "<!-- numbers: written by `python -m tools.chaos_numbers` -->"
END: Final = "<!-- end of numbers -->"
HEAD: Final = (
    "| fault | on processes | p50 | p99 | in virtual time | p50 | p99 |",
    "| --- | --: | --: | --: | --: | --: | --: |",
)

Run = dict[str, Any]
"""Of faults: `rounds`, `broken`, and `seconds` of recovery by kind. Of stories: `stories` and `broken`."""


def merged(runs: Mapping[str, Run], files: Iterable[Path]) -> dict[str, Run]:
    """By name: a run of faults is named by its seed, and where it ran; stories by their seeds."""
    result = dict(runs)
    for file in files:
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        stories = [line for line in lines if "first" in line]
        rounds = [line for line in lines if "number" in line]
        for line in stories:
            name = f"stories {line['first']}:{line['end']}"
            result[name] = {"stories": line["end"] - line["first"], "broken": line["broken"]}
        if rounds:
            first = rounds[0]
            place = "virtual" if first.get("virtual") else "processes"
            result[f"{place} seed {first.get('seed', 0)} from {first['number']}"] = _of_rounds(rounds)
    return dict(sorted(result.items()))


def _of_rounds(rounds: Iterable[Mapping[str, Any]]) -> Run:
    seconds: dict[str, list[float | None]] = {}
    number = broken = 0
    for line in rounds:
        number += bool(line["faults"])
        broken += bool(line["violations"])
        for recovery in line["recoveries"]:
            took_s = recovery["seconds"]
            seconds.setdefault(recovery["kind"], []).append(None if took_s is None else round(took_s, 1))
    return {"rounds": number, "broken": broken, "seconds": dict(sorted(seconds.items()))}


def text(runs: Mapping[str, Run]) -> str:
    stories = [run for run in runs.values() if "stories" in run]
    real = [run for name, run in runs.items() if name.startswith("processes")]
    virtual = [run for name, run in runs.items() if name.startswith("virtual")]
    lines = [
        "| what | number | with a broken promise |",
        "| --- | --: | --: |",
        f"| stories in memory | {sum(run['stories'] for run in stories):,} | {_broken(stories)} |",
        f"| rounds of faults on processes | {sum(run['rounds'] for run in real):,} | {_broken(real)} |",
        f"| rounds of faults in virtual time | {sum(run['rounds'] for run in virtual):,} | {_broken(virtual)} |",
        "",
        *HEAD,
    ]
    for kind in KINDS:
        cells = [*_cells(kind.name, real), *_cells(kind.name, virtual)]
        lines.append(f"| `{kind.name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _broken(runs: Iterable[Run]) -> int:
    return sum(run["broken"] for run in runs)


def _cells(kind: str, runs: Iterable[Run]) -> tuple[str, str, str]:
    recoveries = [seconds for run in runs for seconds in run["seconds"].get(kind, ())]
    if not recoveries:
        return "-", "-", "-"
    ordered = sorted(seconds for seconds in recoveries if seconds is not None)
    return f"{len(recoveries):,}", f"{quantile(ordered, 0.5):.1f} s", f"{quantile(ordered, 0.99):.1f} s"


def rewritten(page: str, runs: Mapping[str, Run]) -> str:
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{text(runs)}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    paths = [Path(name) for name in sys.argv[1:]]
    old = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
    page, new = PAGE.read_text(), merged(old, paths)
    if paths:
        NUMBERS.write_text(
            "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(run)}" for name, run in new.items()) + "\n}\n"
        )
        PAGE.write_text(rewritten(page, new))
    elif rewritten(page, new) != page:
        sys.exit(f"{PAGE.name} differs from {NUMBERS.name}; run: python -m tools.chaos_numbers")
