"""Runs of several jobs on a Dask cluster. The extra `sweep` has what this needs.

Progress is known by whole runs: a worker of the cluster does not say how far it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from koord.api.machinery.faults import BadInput
from koord.api.text.duration import parse_duration
from koord.sim.jobs import Job
from koord.sim.live.performing import perform_packed
from koord.sim.live.workers import LOOK_S, Show
from koord.sim.outcome import Outcome

CONNECT_S: Final = 10.0
NEEDED: Final = '--dask needs the extra sweep: pip install "koord[sweep]"'


class NoDask(BadInput):
    """The cluster cannot be used, and why."""


class _Waiting(Protocol):
    """A run on the cluster."""

    def done(self) -> bool: ...
    def result(self) -> Outcome: ...


def perform_all(
    jobs: Sequence[Job], show: Show, stopped: Callable[[], bool], *, address: str
) -> Iterator[tuple[int, Outcome]]:
    """The outcomes with the indexes of their jobs. After a stop: those that ended."""
    with _connected(address) as client:
        waiting: dict[int, _Waiting] = {
            i: client.submit(_work, msgspec.json.encode(_anywhere(job)), pure=False) for i, job in enumerate(jobs)
        }
        at_s = [0.0] * len(jobs)
        while waiting:
            if stopped():
                client.cancel(list(waiting.values()))
                return
            ended = [i for i, run in waiting.items() if run.done()]
            for i in ended:
                yield i, waiting.pop(i).result()
                at_s[i] = parse_duration(jobs[i].scenario.duration)
            show(at_s)
            if not ended:
                time.sleep(LOOK_S)


def _anywhere(job: Job) -> Job:
    """The job for a worker whose working directory is another one."""
    return replace(job, traces=str(Path(job.traces).absolute()), folder=str(Path(job.folder).absolute()))


def _connected(address: str) -> Any:
    """A client of the cluster, which has workers."""
    try:
        import distributed
    except ModuleNotFoundError:
        raise NoDask(NEEDED) from None
    connect: Any = distributed.Client
    try:
        client = connect(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise NoDask(f"--dask {address}: {str(error) or 'no answer'}") from None
    if not client.scheduler_info()["workers"]:
        client.close()
        raise NoDask(f"--dask {address}: the cluster has no workers")
    return client


def _work(job: bytes) -> Outcome:
    """In a worker of the cluster."""
    return perform_packed(job, lambda at_s: None, lambda: False)
