"""`koord sim policies`: the lending policies that can be simulated."""

from __future__ import annotations

import click

from koord.cli import structured
from koord.cli.options import output_option
from koord.cli.tables import table, terminal_columns


@click.command(epilog="Example: koord sim policies")
@output_option("table", "json", "yaml")
def policies(output: str) -> int:
    """List the lending policies: what each of them is, and which band it lends to."""
    from koord.sim.policies.registry import POLICIES

    if output == "table":
        lines = [("POLICY", "BAND", "SUMMARY")]
        lines += [(policy.name, policy.band, policy.summary) for policy in POLICIES.values()]
        click.echo(table(lines, most=terminal_columns()))
    else:
        structured.say(
            [{"name": policy.name, "band": policy.band, "summary": policy.summary} for policy in POLICIES.values()],
            output,
        )
    return 0
