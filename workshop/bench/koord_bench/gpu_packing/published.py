"""What others have published for the same orders of arrival, to see that a replay is the same experiment."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Final, NamedTuple

from koord_bench.gpu_packing.arrivals import FULL
from koord_bench.gpu_packing.baselines import BASELINES
from koord_bench.gpu_packing.policies import FGD, RANDOM

FILE: Final = "fgd_expected_allo_discrete.csv.gz"
TWO_DECIMALS: Final = 0.005
CLOSE: Final = {**dict.fromkeys(BASELINES, TWO_DECIMALS), FGD: 0.35}
"""How far a run may be from what is published, in points. FGD's cut among equally frequent shapes is not published."""
CLOSE_AT_RANDOM: Final = 0.5
"""The same for the mean of random runs."""


class Run(NamedTuple):
    trace: str
    seed: int
    policy: str


def read(folder: Path) -> dict[Run, float]:
    """Percent of all GPU that was allocated when as much had arrived; empty if the file does not exist."""
    path = folder / FILE
    if not path.exists():
        return {}
    with gzip.open(path, "rt") as file:
        return {
            Run(
                line["workload"].removeprefix("openb_pod_list_"), int(line["seed"]), line["sc_policy"].split("-", 1)[1]
            ): float(line[str(FULL)])
            for line in csv.DictReader(file)
        }


def gap(policy: str, gaps: list[float]) -> tuple[float, float] | None:
    """How far runs of a policy are from what is published, and how far they may be; None where nothing is."""
    if not gaps:
        return None
    if policy == RANDOM:
        return abs(sum(gaps) / len(gaps)), CLOSE_AT_RANDOM
    return (max(abs(points) for points in gaps), CLOSE[policy]) if policy in CLOSE else None
