"""`koord completion SHELL`: prints the script that makes the shell complete koord's commands and options."""

from __future__ import annotations

import click


@click.command(epilog="Example: source <(koord completion bash)")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell."""
    from click.shell_completion import get_completion_class

    from koord.cli.main import koord

    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(koord, {}, "koord", "_KOORD_COMPLETE").source())
