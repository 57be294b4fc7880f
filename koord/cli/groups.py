"""Commands that have commands of their own, such as `koord colocation off`."""

from __future__ import annotations

from typing import Final

import click

LONGEST: Final = 1000
"""Characters of a sentence; click cuts off what is longer."""


class Group(click.Group):
    """A group whose help has the first sentence of each command whole, on several lines if need be."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        lines = [(name, command.get_short_help_str(limit=LONGEST)) for name, command in commands if command is not None]
        with formatter.section("Commands"):
            formatter.write_dl(lines)
