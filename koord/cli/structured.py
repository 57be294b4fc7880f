"""The result of a command as JSON or YAML, in the same form for all commands."""

from __future__ import annotations

import click


def say(content: object, output: str) -> None:
    """Print the result in the requested format, `json` or `yaml`."""
    import msgspec

    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(content), indent=2))
    else:
        from koord.api.text.yaml import dump

        click.echo(dump(msgspec.to_builtins(content)), nl=False)
