"""Commands with subcommands, for example `koord colocation off`."""

from __future__ import annotations

from typing import Final

import click

LONGEST: Final = 1000
"""Maximum length of a help sentence, in characters; click cuts off the rest."""


class Group(click.Group):
    """A group whose help shows each command's full first sentence, wrapped if necessary."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        lines = [(name, command.get_short_help_str(limit=LONGEST)) for name, command in commands if command is not None]
        with formatter.section("Commands"):
            formatter.write_dl(lines)
