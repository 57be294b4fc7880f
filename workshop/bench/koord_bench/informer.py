"""How dear is a copy of all pods? The informer against the official client, and against fixed goals.

Every case runs in a process of its own (`informer_child`), with pods from a server in another (`pod_server`), so that
CPU and memory are the client's alone. The baseline is the official client's decoding of the same pods: what it would
cost there before anything is indexed or followed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from koord_bench.children import figures_of, running_module
from koord_bench.harness import Figures, Progress, Report, Result, Size, silent

BENCH = "informer"
CHANGING_PODS = 2000

FULL = Size(decoded=10_000, decoded_official=5_000, listed=150_000, rows=50_000, events=60_000, repeats=3)
QUICK = Size(decoded=5_000, decoded_official=2_000, listed=10_000, rows=10_000, events=10_000, repeats=1)


def run(quick: bool = False, progress: Progress = silent) -> list[Result]:
    return measure(Report(BENCH, quick, progress), QUICK if quick else FULL)


def measure(report: Report, size: Size) -> list[Result]:
    report.progress(f"decoding {size.decoded} pods, {size.decoded_official} with the official client")
    ours = _child("decode-koord", size.repeats, pods=size.decoded)
    pods_cpu_s = cpu_s = kb = None
    if find_spec("kubernetes") is not None:
        official = _child("decode-official", pods=size.decoded_official)
        cpu_s, kb = official["cpu_s"] / official["pods"], official["kb_a_pod"]
        pods_cpu_s = 1 / cpu_s
    speed, unit = ours["pods"] / ours["cpu_s"], "pods per CPU second"
    case = report.case("decode")
    case.add("speed", speed, unit, baseline=pods_cpu_s, more_is_better=True, ratio_goal=50, at_any_size=True)
    case.add("memory", ours["kb_a_pod"], "KB per pod", baseline=kb, ratio_goal=12, at_any_size=True)

    report.progress(f"listing and indexing {size.listed} pods over TLS")
    with _server(size.listed, 0) as address:
        listed = _child("sync", **address)
    _expect(listed["pods"], size.listed, "pods listed")
    case = report.case(f"list {size.listed} pods")
    case.add("CPU", listed["cpu_s"], "s", baseline=cpu_s * size.listed if cpu_s else None, goal=6.0)
    peak_mb = kb * size.listed / 1024 if kb else None
    case.add("peak memory", listed["peak_mb"], "MB", baseline=peak_mb, goal=1500.0)

    report.progress(f"keeping {size.rows} pods as rows")
    with _server(size.rows, 0) as address:
        rows = _child("rows", **address)
    _expect(rows["pods"], size.rows, "rows kept")
    report.case("rows").add("memory", rows["kb_a_pod"], "KB per pod", baseline=kb, goal=1.5, at_any_size=True)

    report.progress(f"following {size.events} changes")
    with _server(CHANGING_PODS, size.events) as address:
        followed = _child("follow", size.repeats, pods=CHANGING_PODS, events=size.events, **address)
    speed, unit = followed["events"] / followed["cpu_s"], "events per CPU second"
    case = report.case("watch")
    case.add("speed", speed, unit, baseline=pods_cpu_s, more_is_better=True, goal=20_000, at_any_size=True)
    return report.rows


def _child(case: str, repeats: int = 1, **options: Any) -> Figures:
    """The run with the least CPU: other load on the machine only ever adds."""
    runs = (figures_of("koord_bench.informer_child", case, json.dumps(options)) for _ in range(repeats))
    return min(runs, key=lambda figures: figures["cpu_s"])


@contextmanager
def _server(pods: int, events: int) -> Iterator[dict[str, Any]]:
    """A server process; gives its port and certificate."""
    with running_module("koord_bench.pod_server", "--pods", str(pods), "--events", str(events)) as (_, address):
        yield address


def _expect(number: float, expected: int, what: str) -> None:
    if number != expected:
        raise RuntimeError(f"{what}: {number:g}, but there were {expected}; the figures would mean nothing")
