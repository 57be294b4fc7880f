"""`koord sim compare`: policies or scenarios beside each other, with confidence intervals over seeds."""

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
    seeds_option,
    write_report,
)
from koord.cli.tables import table

if TYPE_CHECKING:
    from koord.sim.jobs import Job


@click.command(
    epilog="""\b
Example: koord sim compare adaptive usage --seeds 5
         koord sim compare today.yaml tomorrow.yaml
         koord sim compare --policies all --scenario cluster.yaml

\b
All targets run with the same seeds, so differences are taken within each seed. A difference is called better or worse
if its 95% interval excludes zero."""
)
@click.argument("targets", nargs=-1, metavar="TARGET...")
@click.option(
    "--policies",
    type=click.Choice(["all"]),
    help="Instead of TARGETs: every policy that lends batch resources, and the oracle.",
)
@click.option(
    "--scenario",
    type=SCENARIO_PATH,
    metavar="FILE",
    help="What targets that are policies run on: a file, or a folder of koord sim record. Default: a small one that"
    " ships with koord.",
)
@seeds_option(3, "Runs of each target, with different chance; a single one gives no intervals.")
@common_options
@output_option("table", "json", "yaml")
def compare(
    targets: tuple[str, ...],
    policies: str | None,
    scenario: Path | None,
    seeds: int,
    settings: tuple[str, ...],
    pool: str,
    traces: Path | None,
    processes: int | None,
    report: Path | None,
    output: str,
) -> int:
    """Compare TARGETs: policies (koord sim policies lists them), or files of scenarios with their own policies."""
    from koord.sim.compare import as_json
    from koord.sim.compare import compare as compared_by_seed
    from koord.sim.compare import table as figures
    from koord.sim.jobs import seeded

    if bool(targets) == bool(policies):
        raise click.UsageError("give TARGETs, or --policies all")
    refuse_report(report)
    targets = targets or _lending_batch()
    jobs = [_job(target, scenario, settings, pool, traces) for target in targets]
    names = [job.name for job in jobs]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise click.UsageError(f"{twice} is given twice: targets must differ")
    runs = [run for job in jobs for run in seeded(job, seeds)]
    with interruptible() as stopped:
        outcomes = perform_jobs(runs, stopped, processes=processes)
    # After Ctrl-C: the seeds that all targets have finished.
    whole = [
        offset
        for offset in range(seeds)
        if all((i := k * seeds + offset) in outcomes and outcomes[i].ended for k in range(len(jobs)))
    ]
    if not whole:
        raise KeyboardInterrupt
    totals = {job.name: [outcomes[k * seeds + offset].totals for offset in whole] for k, job in enumerate(jobs)}
    compared = compared_by_seed(totals)
    if output == "table":
        rows = figures(compared)
        click.echo(table(rows, right=frozenset(range(1, len(rows[0])))))
    else:
        structured.say(as_json(compared, [runs[offset].seed for offset in whole], jobs[0].scenario.name), output)

    def page() -> str:
        from koord.sim.report.compare_page import page

        return page(compared, len(whole))

    write_report(report, page)
    if len(whole) < seeds:
        click.echo(f"note: interrupted: figures are of {len(whole)} of {seeds} seeds", err=True)
        return INTERRUPTED
    return 0


def _lending_batch() -> tuple[str, ...]:
    from koord.sim.policies.registry import POLICIES

    return tuple(name for name, policy in POLICIES.items() if policy.band == "batch")


def _job(target: str, scenario: Path | None, settings: tuple[str, ...], pool: str, traces: Path | None) -> Job:
    """A target is a policy if there is one of that name, else a scenario."""
    from msgspec.structs import replace

    from koord.sim.packing import POLICIES as PACKING
    from koord.sim.policies.registry import POLICIES

    policies = (*POLICIES, *PACKING)
    if target not in policies:
        path = Path(target)
        if not path.exists():
            raise click.UsageError(f"{target}: is neither a policy ({', '.join(policies)}) nor a file that exists")
        return replace(job_of(path, pool=pool, settings=settings, traces=traces), name=target)
    return replace(job_of(scenario, policy=target, pool=pool, settings=settings, traces=traces), name=target)
