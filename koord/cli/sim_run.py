"""`koord sim run`: one scenario with its policy, beside no co-location, Koordinator's defaults and the oracle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from koord.cli import structured
from koord.cli.options import output_option
from koord.cli.sim_options import (
    INTERRUPTED,
    SCENARIO_PATH,
    common_options,
    interruptible,
    job_of,
    perform_jobs,
    refuse_report,
    write_report,
)
from koord.cli.tables import table

if TYPE_CHECKING:
    from koord.sim.jobs import Job
    from koord.sim.outcome import Outcome
    from koord.sim.report.figures import SideBySide


@click.command(
    epilog="""\b
Example: koord sim run --report out.html
         koord sim run cluster.yaml --policy usage --set cpuReclaimThresholdPercent=70

\b
Ctrl-C ends the runs and shows what they have so far. With --checkpoint the same command continues them later,
with the same result as an uninterrupted run."""
)
@click.argument("scenario", required=False, metavar="[SCENARIO]", type=SCENARIO_PATH)
@click.option("--policy", default="", metavar="NAME", help="Lending policy; koord sim policies lists them.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), metavar="N", help="Chance. Default: that of the scenario.")
@click.option(
    "--latency",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Constants of the latency model, as koord sim calibrate writes them. Default: those of the scenario.",
)
@click.option("--alone", is_flag=True, help="Only this policy, without the others beside it.")
@click.option(
    "--checkpoint",
    "checkpoints",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for a checkpoint of each run, where it continues if there is one.",
)
@common_options
@output_option("table", "json", "yaml")
def run(
    scenario: Path | None,
    policy: str,
    seed: int | None,
    latency: Path | None,
    alone: bool,
    checkpoints: Path | None,
    settings: tuple[str, ...],
    pool: str,
    traces: Path | None,
    processes: int | None,
    report: Path | None,
    output: str,
) -> int:
    """Simulate a scenario: what batch pods get done, and what it costs services.

    SCENARIO is a file, or a folder of koord sim record. Without it: a small one that ships with koord.
    """
    from koord.sim.jobs import side_by_side
    from koord.sim.report.figures import as_json, headline
    from koord.sim.report.figures import table as figures

    refuse_report(report)
    job = job_of(scenario, policy=policy, pool=pool, settings=settings, seed=seed, traces=traces)
    job = _with_constants(job, latency)
    jobs = (job,) if alone else side_by_side(job)
    with interruptible() as stopped:
        outcomes = perform_jobs(jobs, stopped, processes=processes, checkpoints=checkpoints)
    if 0 not in outcomes:
        raise KeyboardInterrupt
    side = _side(jobs, outcomes)
    if output == "table":
        rows = figures(side)
        click.echo(table(rows, right=frozenset(range(1, len(rows[0])))))
        click.echo(f"\n{headline(side, side.runs[0])}")
    else:
        structured.say(as_json(side), output)
    for repair in side.runs[0].outcome.repairs:
        click.echo(f"note: {repair.count} times: {repair.rule} (first: {repair.first})", err=True)
    write_report(report, lambda: _page(side, job))
    if not side.is_whole or len(outcomes) < len(jobs):
        click.echo("note: interrupted: figures cover the time until then", err=True)
        return INTERRUPTED
    return 0


def _with_constants(job: Job, latency: Path | None) -> Job:
    """The job with the constants of that file. Bad constants are refused before the first run."""
    from msgspec.structs import replace

    from koord.sim.live.constants import latency_of
    from koord.sim.response_times import check_settings

    if latency is not None:
        settings = replace(job.scenario.latency, constants=str(latency.absolute()))
        job = replace(job, scenario=replace(job.scenario, latency=settings))
    model = latency_of(job.scenario.latency, job.folder)
    if model is not None:
        check_settings(model, job.scenario.latency)
    return job


def _side(jobs: tuple[Job, ...], outcomes: dict[int, Outcome]) -> SideBySide:
    from koord.sim.fluid import bound_milli_s
    from koord.sim.jobs import ORACLE
    from koord.sim.report.figures import Run, SideBySide

    runs = tuple(Run(jobs[i].name, outcome) for i, outcome in sorted(outcomes.items()))
    scenario = jobs[0].scenario
    whole = next((run.outcome for run in runs if run.outcome.ended), None)
    return SideBySide(
        runs,
        next((run.outcome for run in runs if run.name == ORACLE), None),
        None
        if whole is None or scenario.packing
        else bound_milli_s(
            whole.series,
            warm_up_ticks=scenario.warm_up_ticks,
            never_empty=scenario.batch.arrivals == "saturate",
        ),
    )


def _page(side: SideBySide, job: Job) -> str:
    from koord.sim.report.page import page

    return page(side, job.scenario.description)
