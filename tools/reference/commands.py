"""docs/reference/commands.md: every command with its arguments and options, from the command line itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from koord.cli.main import koord
from tools.reference.structs import escaped


def page() -> tuple[str, list[str]]:
    """The page, and the options that have no description."""
    undescribed: list[str] = []
    lines = [
        "# Commands",
        "",
        "Every command of `koord` with its arguments and options. `koord COMMAND --help` prints the same.",
        "",
        "Exit codes: 0 success, 1 a negative answer, 2 bad usage or bad input, 130 interrupted.",
        "",
        *_options(koord, "koord", undescribed),
    ]
    context = click.Context(koord, info_name="koord")
    for name in koord.list_commands(context):
        command = koord.get_command(context, name)
        assert command is not None
        lines += _command(command, f"koord {name}", 2, undescribed)
    return "\n".join(lines), undescribed


def _command(command: click.Command, path: str, level: int, undescribed: list[str]) -> Iterator[str]:
    if command.hidden:
        return
    context = click.Context(command, info_name=path)
    yield f"{'#' * level} {path}"
    yield ""
    for paragraph in inspect.cleandoc(command.help or "").replace("\b\n", "").split("\n\n"):
        yield escaped(paragraph)
        yield ""
    yield "```"
    yield " ".join([path, *command.collect_usage_pieces(context)])
    yield "```"
    yield ""
    yield from _options(command, path, undescribed)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(inner, f"{path} {name}", min(level + 1, 4), undescribed)


def _options(command: click.Command, path: str, undescribed: list[str]) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    rows = []
    for option in command.params:
        if not isinstance(option, click.Option) or option.hidden:
            continue
        if not option.help:
            undescribed.append(f"{path} {option.opts[0]}")
        rows.append(f"| {_names(option, context)} | {_default(option, context)} | {escaped(option.help or '')} |")
    if rows:
        yield from ("| option | default | what it is |", "| --- | --- | --- |", *rows, "")


def _names(option: click.Option, context: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in sorted(option.opts, key=len))
    if option.secondary_opts:
        names += ", " + ", ".join(f"`{name}`" for name in option.secondary_opts)
    if option.is_flag or option.count:
        return names
    return f"{names} {_metavar(option, context)}"


def _metavar(option: click.Option, context: click.Context) -> str:
    kind = option.type
    if option.metavar is None and isinstance(kind, click.IntRange | click.FloatRange):
        if kind.max is None:
            return "N" if kind.min is None else f"N, at least {kind.min}"
        return f"N, {kind.min if kind.min is not None else '…'} to {kind.max}"
    return escaped(option.make_metavar(context))


def _default(option: click.Option, context: click.Context) -> str:
    if isinstance(option.show_default, str):
        return escaped(option.show_default)
    value = option.get_default(context, call=False)
    if value in (None, "", (), False) or callable(value) or str(value) == "Sentinel.UNSET":
        return "required" if option.required else ""
    return f"`{','.join(map(str, value)) if isinstance(value, tuple) else value}`"
