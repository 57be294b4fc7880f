"""How dear is a copy of all pods? The informer against the official client, and against fixed goals.

Every case runs in a process of its own (`informer_child`), with pods from a server in another (`pod_server`), so that
CPU and memory are the client's alone. The baseline is the official client's decoding of the same pods: what it would
cost there before anything is indexed or followed.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from koord.kube.program import own_program
from koord_bench.children import ends_with_this_process, start_child
from koord_bench.result import Result, result

BENCH = "informer"
CHILD_TIMEOUT_S = 600
CHANGING_PODS = 2000


@dataclass(frozen=True, slots=True)
class Size:
    """How much each case does."""

    decoded: int
    decoded_official: int
    listed: int
    rows: int
    events: int
    repeats: int


FULL = Size(decoded=10_000, decoded_official=5_000, listed=150_000, rows=50_000, events=60_000, repeats=3)
QUICK = Size(decoded=5_000, decoded_official=2_000, listed=10_000, rows=10_000, events=10_000, repeats=1)


def run(quick: bool = False, progress: Callable[[str], None] = lambda line: None) -> list[Result]:
    """All cases. `quick` shrinks them: the same code in seconds, with goals that are for the full size left out."""
    return measure(QUICK if quick else FULL, progress)


def measure(size: Size, progress: Callable[[str], None] = lambda line: None) -> list[Result]:
    results: list[Result] = []
    full = size.listed >= FULL.listed

    progress(f"decoding {size.decoded} pods, {size.decoded_official} with the official client")
    ours = _best(lambda: _child("decode-koord", pods=size.decoded), size.repeats)
    official = None
    if find_spec("kubernetes") is not None:
        official = _best(lambda: _child("decode-official", pods=size.decoded_official), 1)
    official_cpu_s = official["cpu_s"] / official["pods"] if official else None
    official_kb = official["kb_a_pod"] if official else None
    results += [
        result(
            BENCH,
            "decode",
            "speed",
            ours["pods"] / ours["cpu_s"],
            "pods per CPU second",
            baseline=1 / official_cpu_s if official_cpu_s else None,
            more_is_better=True,
            ratio_goal=50,
        ),
        result(BENCH, "decode", "memory", ours["kb_a_pod"], "KB per pod", baseline=official_kb, ratio_goal=12),
    ]

    progress(f"listing and indexing {size.listed} pods over TLS")
    with _server(size.listed, 0) as server:
        listed = _child("sync", **server)
    _expect(listed["pods"], size.listed, "pods listed")
    results += [
        result(
            BENCH,
            f"list {size.listed} pods",
            "CPU",
            listed["cpu_s"],
            "s",
            baseline=official_cpu_s * size.listed if official_cpu_s else None,
            goal=6.0 if full else None,
        ),
        result(
            BENCH,
            f"list {size.listed} pods",
            "peak memory",
            listed["peak_mb"],
            "MB",
            baseline=official_kb * size.listed / 1024 if official_kb else None,
            goal=1500.0 if full else None,
        ),
    ]

    progress(f"keeping {size.rows} pods as rows")
    with _server(size.rows, 0) as server:
        rows = _child("rows", **server)
    _expect(rows["pods"], size.rows, "rows kept")
    results.append(
        result(BENCH, "rows", "memory", rows["kb_a_pod"], "KB per pod", baseline=official_kb, goal=1.5),
    )

    progress(f"following {size.events} changes")
    with _server(CHANGING_PODS, size.events) as server:
        followed = _best(lambda: _child("follow", pods=CHANGING_PODS, events=size.events, **server), size.repeats)
    results.append(
        result(
            BENCH,
            "watch",
            "speed",
            followed["events"] / followed["cpu_s"],
            "events per CPU second",
            baseline=1 / official_cpu_s if official_cpu_s else None,
            more_is_better=True,
            goal=20_000,
        )
    )
    return results


def _best(measure: Callable[[], dict[str, float]], repeats: int) -> dict[str, float]:
    """The run with the least CPU: what others do on the machine only ever adds."""
    return min((measure() for _ in range(repeats)), key=lambda figures: figures["cpu_s"])


def _child(case: str, **options: Any) -> dict[str, float]:
    done = subprocess.run(
        [*own_program("koord_bench.informer_child"), case, json.dumps(options)],
        stdout=subprocess.PIPE,
        timeout=CHILD_TIMEOUT_S,
        check=True,
        preexec_fn=ends_with_this_process(),
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


@contextmanager
def _server(pods: int, events: int) -> Iterator[dict[str, Any]]:
    """A server process; gives how to reach it."""
    process = start_child(
        [*own_program("koord_bench.pod_server"), "--pods", str(pods), "--events", str(events)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        where: dict[str, Any] = json.loads(process.stdout.readline())
        yield where
    finally:
        process.kill()
        process.communicate()


def _expect(found: float, wanted: int, what: str) -> None:
    if found != wanted:
        raise RuntimeError(f"{what}: {found:g}, but there were {wanted}; the figures would mean nothing")
