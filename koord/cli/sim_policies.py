"""`koord sim policies`: the policies that can be simulated."""

from __future__ import annotations

import click

from koord.cli import structured
from koord.cli.options import output_option
from koord.cli.tables import table, terminal_columns


@click.command(epilog="Example: koord sim policies")
@output_option("table", "json", "yaml")
def policies(output: str) -> int:
    """List the policies: what each of them is, and which band it lends to, or that it packs GPUs."""
    from koord.sim.packing import POLICIES as PACKING
    from koord.sim.policies.registry import POLICIES

    listed = [(policy.name, str(policy.band), policy.summary) for policy in POLICIES.values()]
    listed += [(name, "gpu", summary) for name, summary in PACKING.items()]

    if output == "table":
        click.echo(table([("POLICY", "BAND", "SUMMARY"), *listed], most=terminal_columns()))
    else:
        structured.say([{"name": name, "band": band, "summary": summary} for name, band, summary in listed], output)
    return 0
