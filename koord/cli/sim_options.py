"""Options and inputs that the commands of `koord sim` share: the scenario, what differs from it, and the report."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from koord.sim.jobs import Job
    from koord.sim.outcome import Outcome
    from koord.sim.scenario import Scenario

F = TypeVar("F", bound=Callable[..., Any])
INTERRUPTED: Final = 130
MOST_SCENARIO_MIB: Final = 4
MOST_SEEDS: Final = 1000
SCENARIO: Final = "scenario.yaml"
"""In the folder of a recording."""
SCENARIO_PATH: Final = click.Path(exists=True, path_type=Path)


def common_options(command: F) -> F:
    """What is simulated, and where the result goes."""
    for option in reversed(
        (
            click.option(
                "--set",
                "settings",
                multiple=True,
                metavar="KEY=VALUE",
                help="Another value for a field of the scenario, or of colocation-config or"
                " resource-threshold-config by its own name; repeatable.",
            ),
            click.option("--pool", default="", metavar="NAME", help="--set and --policy only for this pool of nodes."),
            click.option(
                "--traces",
                metavar="DIR",
                type=click.Path(exists=True, file_okay=False, path_type=Path),
                help="Folder of traces. Default: the folder of the scenario.",
            ),
            click.option(
                "--processes",
                type=click.IntRange(1),
                metavar="N",
                help="Runs at the same time. Default: one for each core.",
            ),
            click.option(
                "--report",
                metavar="FILE",
                type=click.Path(dir_okay=False, path_type=Path),
                help="Also write a page with plots, in one HTML file that needs nothing else.",
            ),
        )
    ):
        command = option(command)
    return command


def seeds_option(default: int, help_text: str) -> Callable[[F], F]:
    return click.option(
        "--seeds",
        type=click.IntRange(1, MOST_SEEDS),
        default=default,
        show_default=True,
        metavar="N",
        help=help_text,
    )


def scenario_in(path: Path | None) -> tuple[Scenario, str]:
    """The scenario of a file or of a recording's folder, and the folder where its paths begin. Without a path: the one
    that ships with koord."""
    from koord.api.text.bounded import read_bounded
    from koord.sim.live.shipped import DEFAULT
    from koord.sim.scenario import parse

    file = path or DEFAULT
    if file.is_dir():
        file /= SCENARIO
        if not file.is_file():
            raise click.UsageError(f"{path}: has no {SCENARIO}; koord sim record makes a folder with one")
    try:
        text = read_bounded(file, MOST_SCENARIO_MIB, "a scenario").decode()
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{file}: is no text in UTF-8 (byte {error.start})") from None
    return parse(text, str(file)), str(file.parent)


def job_of(
    path: Path | None,
    *,
    policy: str = "",
    pool: str = "",
    settings: Sequence[str] = (),
    seed: int | None = None,
    traces: Path | None = None,
    option: str = "--set",
) -> Job:
    """The run of a scenario with other settings, all of it checked. `option`: where they were given, for messages."""
    from koord.sim.jobs import Job, label
    from koord.sim.overrides import overridden, pairs
    from koord.sim.packing import POLICIES as PACKING
    from koord.sim.policies.registry import POLICIES

    scenario, folder = scenario_in(path)
    values = pairs(tuple(settings))
    if policy in PACKING:
        values = {"packing": policy, **values}
    elif policy:
        if policy not in POLICIES:
            raise click.UsageError(f"--policy: must be one of {', '.join((*POLICIES, *PACKING))}, not {policy!r}")
        if "policy" in values:
            raise click.UsageError("--policy and --set policy=... say the same thing: give one of them")
        values = {"policy": policy, **values}
    if pool and not values:
        raise click.UsageError("--pool goes with --policy or --set")
    scenario = overridden(scenario, values, pool, option)
    return Job(label(scenario), scenario, scenario.seed if seed is None else seed, str(traces or folder), folder)


def refuse_report(report: Path | None) -> None:
    """Before a long run: whether its report could be written at its end."""
    if report is None:
        return
    if report.exists():
        raise click.UsageError(f"--report {report}: exists already: remove it, or name another file")
    folder = report.parent
    if not folder.is_dir():
        raise click.UsageError(f"--report {report}: there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise click.UsageError(f"--report {report}: you may not write into {folder}")


def write_report(report: Path | None, page: Callable[[], str]) -> None:
    if report is None:
        return
    # "x": a file that came during the run stays.
    with report.open("x") as file:
        file.write(page())
    click.echo(f"report: {report}", err=True)


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed. It ends the runs with what they have so far; the second one ends the command."""
    pressed = False

    def press(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _say_of_manifests(jobs: Sequence[Job]) -> None:
    """What is ignored of the manifests that the jobs read. Raises `Invalid` if one is faulty, before the first run."""
    from collections import Counter

    from koord.api.kinds import NODES, PODS
    from koord.cli.inputs import say_of
    from koord.scheduler.core.inputs import INPUTS
    from koord.sim.live.performing import manifests_of

    read_kinds = {entry.kind for entry in INPUTS} - {NODES, PODS}
    different = {(job.folder, job.scenario.manifests): job for job in jobs}
    for job in different.values():
        manifests = manifests_of(job.scenario, job.folder)
        if manifests is not None:
            ignored = Counter(item.kind.kind for item in manifests.items if item.kind not in read_kinds)
            say_of(manifests, {**manifests.unknown, **ignored})


def perform_jobs(
    jobs: Sequence[Job],
    stopped: Callable[[], bool],
    *,
    processes: int | None = None,
    checkpoints: Path | None = None,
    dask: str = "",
) -> dict[int, Outcome]:
    """The outcomes by the indexes of their jobs, with a line of progress. Without all of them after a stop."""
    import time

    from koord.api.text.duration import parse_duration
    from koord.cli.progress import Progress
    from koord.sim.live import dask_workers, workers
    from koord.sim.report.pace import Pace

    _say_of_manifests(jobs)
    lengths_s = [parse_duration(job.scenario.duration) for job in jobs]
    pace = Pace(time.monotonic(), lengths_s)
    with Progress() as progress:

        def show(at_s: Sequence[float]) -> None:
            progress.say("stopping ..." if stopped() else pace.line(time.monotonic(), at_s))

        progress.say("reading traces")
        if dask:
            return dict(dask_workers.perform_all(jobs, show, stopped, address=dask))
        count = processes or workers.cores()
        return dict(workers.perform_all(jobs, show, stopped, processes=count, checkpoints=checkpoints))
