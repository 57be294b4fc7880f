"""Runs in worker processes and on a real Dask cluster: the same outcomes, errors in words, and an end on request."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from koord.api.machinery.faults import BadInput
from koord.sim.jobs import Job, seeded
from koord.sim.live import dask_workers, workers
from koord.sim.live.dask_workers import NoDask
from koord.sim.outcome import Outcome
from koord.sim.scenario import BatchSource, ClusterSource, Scenario, ServiceSource
from tests.waiting import until

SCENARIO = Scenario(
    name="tiny",
    duration="10m",
    cluster=ClusterSource(nodes=2),
    services=ServiceSource(trace="shipped"),
    batch=BatchSource(trace="shipped", arrivals="saturate", pending=3, cores=(1,)),
)
JOB = Job("adaptive", SCENARIO, 0, ".")
LONG = replace(JOB, scenario=replace(SCENARIO, duration="48h"))


def work(outcomes: Iterator[tuple[int, Outcome]]) -> dict[int, dict[str, Any]]:
    return {i: outcome.as_json() for i, outcome in outcomes}


def alone(jobs: tuple[Job, ...]) -> dict[int, dict[str, Any]]:
    return work(workers.perform_all(jobs, lambda at_s: None, lambda: False, processes=1))


def test_workers_come_to_the_same_as_this_process() -> None:
    jobs = seeded(JOB, 3)
    reached: list[list[float]] = []
    outcomes = work(workers.perform_all(jobs, lambda at_s: reached.append(list(at_s)), lambda: False, processes=2))
    assert outcomes == alone(jobs)
    assert reached[-1] == [600.0] * 3


def test_runs_that_are_stopped_give_what_they_have() -> None:
    far = False

    def show(at_s: Sequence[float]) -> None:
        nonlocal far
        far = far or max(at_s) > 0

    outcomes = dict(workers.perform_all([LONG, LONG], show, lambda: far, processes=2))
    assert outcomes
    assert not any(outcome.ended for outcome in outcomes.values())


def test_ctrl_c_while_workers_start_ends_them_without_an_error() -> None:
    run = [sys.executable, "-m", "koord", "sim", "run", "--set", "duration=48h", "--processes", "2"]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0) as command:
        children = Path(f"/proc/{command.pid}/task/{command.pid}/children")
        # Two workers and the process that cleans up after them.
        until(lambda: len(children.read_text().split()) >= 3 or command.poll() is not None)
        os.killpg(command.pid, signal.SIGINT)
        _, errors = command.communicate()
    assert command.returncode == 130
    assert "Traceback" not in errors
    assert "Error" not in errors


def test_input_that_is_wrong_is_said_in_words_by_a_worker() -> None:
    bad = Job("x", Scenario(name="x", duration="10m", services=ServiceSource(trace="nope")), 0, ".")
    with pytest.raises(BadInput, match="nope: is not a trace"):
        list(workers.perform_all([bad, bad], lambda at_s: None, lambda: False, processes=2))


def test_a_dask_cluster_of_two_workers_comes_to_the_same() -> None:
    import distributed

    local: Any = distributed.LocalCluster

    jobs = seeded(JOB, 3)
    with local(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        address = cluster.scheduler_address
        outcomes = work(dask_workers.perform_all(jobs, lambda at_s: None, lambda: False, address=address))
        assert outcomes == alone(jobs)
        bad = Job("x", Scenario(name="x", duration="10m", services=ServiceSource(trace="nope")), 0, ".")
        with pytest.raises(BadInput, match="nope: is not a trace"):
            list(dask_workers.perform_all([bad], lambda at_s: None, lambda: False, address=address))
        assert list(dask_workers.perform_all([LONG], lambda at_s: None, lambda: True, address=address)) == []


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(NoDask, match=r'pip install "koord\[sweep\]"'):
        list(dask_workers.perform_all([JOB], lambda at_s: None, lambda: False, address="tcp://127.0.0.1:1"))


def test_a_dask_cluster_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_workers, "CONNECT_S", 0.2)
    with pytest.raises(NoDask, match=r"tcp://127\.0\.0\.1:1"):
        list(dask_workers.perform_all([JOB], lambda at_s: None, lambda: False, address="tcp://127.0.0.1:1"))
    with pytest.raises(NoDask, match="--dask nonsense"):
        list(dask_workers.perform_all([JOB], lambda at_s: None, lambda: False, address="nonsense:x"))
