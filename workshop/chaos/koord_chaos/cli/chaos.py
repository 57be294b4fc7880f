"""`koord chaos`: stories that mix all features, and faults, judged by what koord promises."""

from __future__ import annotations

import click

from koord.cli.groups import Group
from koord_chaos.cli.faults import faults, recoveries
from koord_chaos.cli.stories import stories


@click.group(cls=Group, epilog="Example: koord chaos stories --seeds 0:100")
def chaos() -> None:
    """Try to break koord: random load that mixes all features, and faults, judged by what koord promises."""


chaos.add_command(stories)
chaos.add_command(faults)
chaos.add_command(recoveries)
