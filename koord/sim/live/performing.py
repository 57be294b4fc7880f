"""One run of a job, with the files that it needs: traces and manifests are read, checkpoints are written and continued.

The cluster of a job is kept for the next one: runs that are compared share scenario, traces and seed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from koord.api.machinery.faults import BadInput
from koord.api.text.manifest import Manifests, read
from koord.offline.field_names import misnamed_fields
from koord.sim.checkpoint import CheckpointError
from koord.sim.cluster import Cluster
from koord.sim.jobs import Job, load_of, policies_of
from koord.sim.live.constants import latency_of
from koord.sim.live.traces import cluster_of
from koord.sim.outcome import Outcome
from koord.sim.run import run
from koord.sim.scenario import Scenario

SUFFIX: Final = ".checkpoint"


class JobRefused(BadInput):
    """What was wrong with the input of a job, in words: other errors may not survive the way out of a worker."""


def perform_packed(
    job: bytes, advance: Callable[[float], None], stop: Callable[[], bool], checkpoints: Path | None = None
) -> Outcome:
    """In a worker, with the job as JSON."""
    try:
        return perform(msgspec.json.decode(job, type=Job), advance, stop, checkpoints)
    except BadInput as error:
        raise JobRefused(str(error)) from None


def perform(
    job: Job, advance: Callable[[float], None], stop: Callable[[], bool], checkpoints: Path | None = None
) -> Outcome:
    """`advance` is called with the virtual time that the run has reached. `checkpoints`: folder for the checkpoint of
    each job; a run continues from its own."""
    file = checkpoints / f"{re.sub(r'[^A-Za-z0-9.-]+', '-', job.name)}{SUFFIX}" if checkpoints is not None else None
    try:
        return _run(job, advance, stop, file)
    except CheckpointError as error:
        raise CheckpointError(f"{file}: {error}") from None


def _run(job: Job, advance: Callable[[float], None], stop: Callable[[], bool], file: Path | None) -> Outcome:
    scenario = job.scenario
    return run(
        scenario,
        _cluster(msgspec.json.encode(load_of(scenario)), job.traces, job.seed),
        policies_of(scenario),
        seed=job.seed,
        manifests=manifests_of(scenario, job.folder),
        latency=latency_of(scenario.latency, job.folder),
        progress=lambda progress: advance(progress.at_s),
        stop=stop,
        save=None if file is None else lambda state: _write(file, state),
        resume=file.read_bytes() if file is not None and file.exists() else None,
    )


@lru_cache(maxsize=1)
def _cluster(scenario: bytes, traces: str, seed: int) -> Cluster:
    return cluster_of(msgspec.json.decode(scenario, type=Scenario), Path(traces), seed)


def manifests_of(scenario: Scenario, folder: str) -> Manifests | None:
    """None: the scenario names none. Raises `Invalid` with all faults."""
    if not scenario.manifests:
        return None
    paths = [Path(folder, path).absolute() for path in scenario.manifests]
    return read(paths, misnamed=misnamed_fields).require_valid()


def _write(file: Path, state: bytes) -> None:
    """Whole or not at all: a run that is killed while it writes continues from the checkpoint before."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.new")
    with new.open("wb") as stream:
        stream.write(state)
        stream.flush()
        os.fsync(stream.fileno())
    new.replace(file)
