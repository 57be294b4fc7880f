"""What a command has found, as JSON or YAML: the same for all commands that offer them."""

from __future__ import annotations

import click


def say(found: object, output: str) -> None:
    """Print it in the form asked for, `json` or `yaml`."""
    import msgspec

    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
    else:
        from koord.api.text.yaml import dump

        click.echo(dump(msgspec.to_builtins(found)), nl=False)
