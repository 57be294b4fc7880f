"""Make the small trace that ships with koord: a week of virtual machines of Bitbrains and jobs of SURF.

    python -m tools.shipped_trace TRACES     TRACES has the folders bitbrains and surf

Both are of OpenDC's repository and have the MIT licence: see LICENSE beside the files. The same input gives the
same bytes.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from koord.sim.columns import BatchTasks, ServiceCurves
from koord.sim.live.traces import SHIPPED_FOLDER, read_trace

WEEK_S: Final = 7 * 86_400
LEAST_PEAK_MILLI: Final = 300
MOST_ABSENT: Final = 0.02
TASKS: Final = 400
TASK_S: Final = (180, 14_400)
TASK_STEPS: Final = 10
"Of 30 s: means of 5 minutes."


def service_rows(services: ServiceCurves) -> Iterable[Sequence[object]]:
    steps = round(WEEK_S / services.step_s)
    yield "time_s", "pod", "cpu_milli", "request_cpu_milli"
    assert services.request_cpu_milli is not None
    for row, name in enumerate(services.ids):
        curve = services.cpu_milli[row, :steps]
        if np.isnan(curve).mean() > MOST_ABSENT or np.nanmax(curve) < LEAST_PEAK_MILLI:
            continue
        for step in np.flatnonzero(~np.isnan(curve)):
            request = services.request_cpu_milli[row] if step == 0 else ""
            yield round((step + 1) * services.step_s), name, round(float(curve[step])), request


def batch_rows(tasks: BatchTasks) -> Iterable[Sequence[object]]:
    duration_s = tasks.duration_s
    rows = np.flatnonzero((duration_s >= TASK_S[0]) & (duration_s <= TASK_S[1]))
    yield "time_s", "task", "arrival_s", "cpu_milli", "request_cpu_milli", "request_memory_mib"
    for row in rows[np.arange(TASKS) * len(rows) // TASKS]:
        use = tasks.use_milli[tasks.offset[row] : tasks.offset[row + 1]]
        means = np.add.reduceat(use, np.arange(0, len(use), TASK_STEPS)) / np.diff(
            np.append(np.arange(0, len(use), TASK_STEPS), len(use))
        )
        arrival = round(float(tasks.arrival_s[row]))
        first = -(-arrival // 300) * 300
        for step, mean in enumerate(means):
            request = (tasks.request_cpu_milli[row], tasks.request_memory_bytes[row] >> 20) if step == 0 else ("", "")
            yield first + 300 * (step + 1), tasks.ids[row], arrival, round(float(mean)), *request


def write(path: Path, rows: Iterable[Sequence[object]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    path.write_bytes(gzip.compress(text.getvalue().encode(), compresslevel=9, mtime=0))
    print(f"{path.name}: {path.stat().st_size} bytes")


def main(traces: Path) -> None:
    services, tasks = read_trace("bitbrains", traces).services, read_trace("surf", traces).tasks
    assert services is not None
    assert tasks is not None
    write(SHIPPED_FOLDER / "services.csv.gz", service_rows(services))
    write(SHIPPED_FOLDER / "batch.csv.gz", batch_rows(tasks))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
