"""Options that many commands share, spelled as in kubectl."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def kube_options(command: F) -> F:
    """--kubeconfig and --context: which cluster."""
    command = click.option("--context", metavar="NAME", help="Context of the kubeconfig to use.")(command)
    return click.option(
        "--kubeconfig",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        help="Kubeconfig to use instead of $KUBECONFIG or ~/.kube/config.",
    )(command)


def output_option(*formats: str, default: str = "table") -> Callable[[F], F]:
    """-o/--output with the formats that this command has."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats),
        default=default,
        show_default=True,
        help="How to print the result.",
    )


def plugin_option(command: F) -> F:
    """--plugin: plugins of the scheduler that koord does not come with."""
    return click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="MODULE:CLASS[=WEIGHT]",
        help="A plugin of your own, in a module or FILE.py, for every profile; repeatable.",
    )(command)
