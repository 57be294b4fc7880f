from __future__ import annotations

import re
from contextlib import nullcontext

import pytest

from koord_bench import api_servers
from koord_bench.apiserver import FULL, QUICK, add_rows, measure
from koord_bench.cli import table
from koord_bench.harness import Report, Result, Size

TINY = Size(pods=30, gets=40, patches=8, applies=8, lists=2, watchers=5, watched_patches=10, grown_pods=60, clients=4)
CASES = 12


def test_every_case_is_measured_on_the_embedded_server_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_servers, "real", lambda: nullcontext(None))
    results = measure(Report("apiserver", quick=True), TINY)
    assert len(results) == CASES
    assert all(result.value > 0 for result in results), results
    assert all(result.baseline is None and result.met is None for result in results)
    assert len(table(results).splitlines()) == 1 + CASES, "nothing is said of versions where there is no baseline"


@pytest.mark.cluster
def test_the_real_server_is_measured_beside_it() -> None:
    results = measure(Report("apiserver", quick=True), TINY)
    assert len(results) == CASES
    assert all(result.baseline and result.ratio for result in results), results
    versions = table(results).splitlines()[-1]
    assert re.fullmatch(r"Baseline of apiserver: kube-apiserver v1\.\d+\.\S+, etcd 3\.\d+\.\S+", versions), versions


def test_goals_are_held_at_full_size_only() -> None:
    keys = ("start_s", "creates", "gets", "patches", "applies", "list_s", "events", "rss_mb")
    figures = dict.fromkeys(keys, 1.0) | {f"growth_{verb}": 1.3 for verb in ("create", "get", "patch", "page")}
    ours = figures | {"creates": 3.0, "gets": 1.9, "list_s": 1.0, "rss_mb": 0.5}

    def met(results: list[Result]) -> dict[str, bool | None]:
        return {f"{result.case} {result.metric}": result.met for result in results}

    full = met(add_rows(Report("apiserver"), ours, figures, FULL))
    assert full["create pods, 32 clients speed"] is True
    assert full["get pods, 32 clients speed"] is False
    assert full["list 2000 pods time"] is True
    assert full["20000 pods memory"] is True
    assert full["10x the pods cost of a get"] is False
    assert set(met(add_rows(Report("apiserver", quick=True), ours, figures, QUICK)).values()) == {None}
