"""`koord sim sweep`: a scenario with many settings, and which of them are worth considering."""

from __future__ import annotations

from pathlib import Path

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


@click.command(
    epilog="""\b
Example: koord sim sweep cluster.yaml --policy usage --over cpuReclaimThresholdPercent=60:90:5
         koord sim sweep cluster.yaml --over policy=usage,adaptive --over markPercent=75:90:5 --seeds 3

\b
Settings on the front are marked: no other one does more work with as few violations.
A Dask cluster needs koord[sweep] here and on its workers, and the files of the scenario under the same paths."""
)
@click.argument("scenario", required=False, metavar="[SCENARIO]", type=SCENARIO_PATH)
@click.option(
    "--over",
    "axes",
    multiple=True,
    required=True,
    metavar="KEY=FROM:TO:STEP",
    help="Values of a key, or KEY=VALUE,VALUE,...; keys as in --set. Repeatable: all combinations run.",
)
@click.option("--policy", default="", metavar="NAME", help="Lending policy; koord sim policies lists them.")
@seeds_option(1, "Runs of each setting, with different chance; the figures are their means.")
@click.option("--dask", default="", metavar="ADDRESS", help="Run on this Dask cluster, as in tcp://scheduler:8786.")
@common_options
@output_option("table", "json", "yaml")
def sweep(
    scenario: Path | None,
    axes: tuple[str, ...],
    policy: str,
    seeds: int,
    dask: str,
    settings: tuple[str, ...],
    pool: str,
    traces: Path | None,
    processes: int | None,
    report: Path | None,
    output: str,
) -> int:
    """Run a scenario with every combination of some settings, and mark those worth considering: the Pareto front of
    work done against violations.

    SCENARIO is a file, or a folder of koord sim record. Without it: a small one that ships with koord.
    """
    from koord.sim.jobs import seeded
    from koord.sim.sweep import as_json, grid
    from koord.sim.sweep import settings as settings_of
    from koord.sim.sweep import table as figures

    refuse_report(report)
    if dask and processes:
        raise click.UsageError("--dask and --processes: the Dask cluster has its own number of workers")
    combinations = grid(axes)
    given = {text.partition("=")[0].strip() for text in settings} | ({"policy"} if policy else set())
    if both := next((key for key in combinations[0] if key in given), ""):
        raise click.UsageError(f"{both} is in --over and also given once: leave one of them out")
    jobs = []
    for values in combinations:
        texts = (*settings, *(f"{key}={value}" for key, value in values.items()))
        option = "--set or --over" if settings else "--over"
        jobs.append(job_of(scenario, policy=policy, pool=pool, settings=texts, traces=traces, option=option))
    runs = [run for job in jobs for run in seeded(job, seeds)]
    with interruptible() as stopped:
        outcomes = perform_jobs(runs, stopped, processes=processes, dask=dask)
    totals = []
    for k, values in enumerate(combinations):
        of_setting = [outcomes[i] for i in range(k * seeds, (k + 1) * seeds) if i in outcomes]
        if len(of_setting) == seeds and all(outcome.ended for outcome in of_setting):
            totals.append((values, [outcome.totals for outcome in of_setting]))
    if not totals:
        raise KeyboardInterrupt
    setting_totals = settings_of(totals)
    name = jobs[0].scenario.name
    if output == "table":
        rows = [
            tuple(cell.upper() if i >= len(axes) else cell for i, cell in enumerate(row)) if not k else row
            for k, row in enumerate(figures(setting_totals))
        ]
        click.echo(table(rows, right=frozenset(range(len(rows[0]) - 1))))
    else:
        structured.say(as_json(setting_totals, [run.seed for run in runs[:seeds]], name), output)

    def page() -> str:
        from koord.sim.report.sweep_page import page

        return page(name, setting_totals, seeds)

    write_report(report, page)
    if len(totals) < len(combinations):
        click.echo(f"note: interrupted: {len(totals)} of {len(combinations)} settings are done", err=True)
        return INTERRUPTED
    return 0
