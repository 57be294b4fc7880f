"""`koord chaos stories`: plays stories by their seeds, and prints those that break a promise."""

from __future__ import annotations

import re
from typing import Any

import click

from koord.cli.progress import Progress
from koord_chaos.stories.play import Broken, play


class Seeds(click.ParamType[range]):
    """`17`, or `0:1000` for the seeds from 0 to 999."""

    name = "seeds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> range:
        if isinstance(value, range):
            return value
        match = re.fullmatch(r"(\d+)(?::(\d+))?", value)
        seeds = range(int(match[1]), int(match[2] or int(match[1]) + 1)) if match else range(0)
        if not seeds:
            self.fail(
                f"{value!r} has no seeds: write a seed as in 17, or the first and the end as in 0:1000", param, ctx
            )
        return seeds


@click.command(epilog="Example: koord chaos stories --seeds 0:1000")
@click.option("--seeds", type=Seeds(), default="0:100", show_default=True, metavar="FIRST:END", help="Stories to play.")
def stories(seeds: range) -> int:
    """Play stories in memory and print those that break a promise; exit code 1 if there are any."""
    broken = 0
    with Progress() as progress:
        for seed in seeds:
            progress.say(f"story {seed}, {broken} broken")
            try:
                play(seed)
            except Broken as error:
                broken += 1
                click.echo(f"{error}\n\nrepeat it: koord chaos stories --seeds {seed}\n")
    click.echo(f"{len(seeds)} stories, {broken} broken")
    return int(bool(broken))
