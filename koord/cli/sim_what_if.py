"""`koord sim what-if`: other settings on recorded history, beside those in force."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

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
    from koord.sim.what_if import WhatIf

MOST_EVICTED: Final = 20


@click.command(
    "what-if",
    epilog="""\b
Example: koord sim what-if history --policy usage --set cpuReclaimThresholdPercent=70
         koord sim what-if history --policy usage --set policy=adaptive

\b
A recording comes from koord sim record. Both runs see the same load and the same chance.""",
)
@click.argument("recording", required=False, metavar="[RECORDING]", type=SCENARIO_PATH)
@click.option("--policy", default="", metavar="NAME", help="The policy in force. Default: that of the scenario.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), metavar="N", help="Chance. Default: that of the scenario.")
@common_options
@output_option("table", "json", "yaml")
def what_if(
    recording: Path | None,
    policy: str,
    seed: int | None,
    settings: tuple[str, ...],
    pool: str,
    traces: Path | None,
    processes: int | None,
    report: Path | None,
    output: str,
) -> int:
    """Show what other settings would have changed: the gain, the risk, and which pods would have been evicted when.

    RECORDING is a folder of koord sim record, or the file of a scenario. Without it: a small one that ships with koord.
    """
    from koord.sim.what_if import as_json

    refuse_report(report)
    if not settings:
        raise click.UsageError("--set KEY=VALUE is missing: what should change?")
    before = job_of(recording, policy=policy, seed=seed, traces=traces)
    after = changed(before, settings, pool)
    runs = outcomes_of(before, after, processes)
    change = ", ".join(settings)
    if output == "table":
        click.echo(described(runs))
    else:
        structured.say(as_json(runs), output)
    if runs.is_same:
        click.echo(
            f"note: nothing changed: {change} has no effect on this history with policy {before.name};"
            " --policy names the policy in force",
            err=True,
        )

    def page() -> str:
        from koord.sim.report.what_if_page import page

        return page(runs, change)

    write_report(report, page)
    if not runs.is_whole:
        click.echo("note: interrupted: figures cover the time until then", err=True)
        return INTERRUPTED
    return 0


def changed(before: Job, settings: Sequence[str], pool: str) -> Job:
    """The same run with other settings."""
    from msgspec.structs import replace

    from koord.sim.jobs import label, load_of
    from koord.sim.overrides import overridden, pairs

    scenario = overridden(before.scenario, pairs(tuple(settings)), pool)
    if load_of(scenario) != load_of(before.scenario):
        raise click.UsageError(
            "--set: the load must stay the same: only policy, markPercent, and fields of colocation-config and"
            " resource-threshold-config may change"
        )
    return replace(before, name=f"{label(scenario)}, changed", scenario=scenario)


def outcomes_of(before: Job, after: Job, processes: int | None = None) -> WhatIf:
    from koord.sim.what_if import WhatIf

    with interruptible() as stopped:
        outcomes = perform_jobs((before, after), stopped, processes=processes)
    if len(outcomes) < 2:
        raise KeyboardInterrupt
    return WhatIf(outcomes[0], outcomes[1])


def described(runs: WhatIf) -> str:
    from koord.sim.what_if import evictions, headline
    from koord.sim.what_if import table as figures

    parts = [table(figures(runs), right=frozenset((1, 2, 3))), "", headline(runs)]
    if runs.added:
        rows = evictions(runs.added)
        parts += ["", "would be evicted:", table(rows[: MOST_EVICTED + 1], right=frozenset((4,)))]
        if len(rows) > MOST_EVICTED + 1:
            parts.append(f"and {len(rows) - MOST_EVICTED - 1} more (all of them with -o json)")
    return "\n".join(parts)
