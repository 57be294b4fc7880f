"""Options that many commands share, spelled as in kubectl."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from koord.cli.cluster_names import namespaces

F = TypeVar("F", bound=Callable[..., Any])


class Number(click.FloatRange):
    """A number within bounds. No bound rejects `nan`, since every comparison with it is false."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def not_empty(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Refuses an option with an empty value, for example from an unset variable in a script: a command for one node or
    pool must not apply to the whole cluster."""
    from click.core import ParameterSource

    is_given = ctx.get_parameter_source(str(param.name)) is not ParameterSource.DEFAULT
    values = value if isinstance(value, tuple) else (value,)
    if is_given and not all(str(value).strip() for value in values):
        raise click.UsageError(f"{'/'.join(param.opts)} is empty: give a value, or leave it out for all nodes")
    return value


class SocketPath(click.ParamType[str]):
    """A unix socket: its path, or a URL as in kubelet's options."""

    name = "socket"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        path = str(value).removeprefix("unix://")
        if not path or "://" in path:
            self.fail(f"{str(value)!r} must be the path of a unix socket, or unix:// and the path.", param, ctx)
        return path


def kube_options(command: F) -> F:
    """--kubeconfig and --context: which cluster."""
    command = click.option("--context", metavar="NAME", help="Context of the kubeconfig to use.")(command)
    return click.option(
        "--kubeconfig",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        help="Kubeconfig to use instead of $KUBECONFIG or ~/.kube/config.",
    )(command)


def wait_option(help_text: str, default: float = 300.0) -> Callable[[F], F]:
    """--wait, as `wait_s`: how long to wait for pods."""
    return click.option(
        "--wait",
        "wait_s",
        type=Number(min=0),
        default=default,
        show_default=True,
        metavar="SECONDS",
        help=help_text,
    )


def output_option(*formats: str, default: str = "table") -> Callable[[F], F]:
    """-o/--output with the formats of this command."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats),
        default=default,
        show_default=True,
        help="How to print the result.",
    )


def manifest_option(command: F) -> F:
    """-f: the manifests to decide on."""
    return click.option(
        "-f",
        "--filename",
        "paths",
        multiple=True,
        metavar="PATH",
        help="File or folder of manifests, or - for standard input; repeatable.",
    )(command)


def config_option(whose: str, kind: str) -> Callable[[F], F]:
    """--config: a component's configuration, which may also be among the manifests."""
    return click.option(
        "--config",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help=f"The {whose}'s configuration, a {kind}. It may also lie among the manifests.",
    )


def namespaces_option(what: str) -> Callable[[F], F]:
    """-n and -A for a list of namespaced objects. All namespaces are the default, so -A has no effect."""

    def decorate(command: F) -> F:
        everywhere = click.option(
            "-A", "--all-namespaces", is_flag=True, expose_value=False, help="All namespaces, which is the default."
        )
        one = click.option(
            "-n",
            "--namespace",
            default="",
            metavar="NAME",
            shell_complete=namespaces,
            help=f"Only {what} of this namespace.",
        )
        return one(everywhere(command))

    return decorate


def pool_option(command: F) -> F:
    """-l: a pool of nodes. Without it, the command applies to all nodes."""
    return click.option(
        "-l",
        "--selector",
        default="",
        callback=not_empty,
        metavar="SELECTOR",
        help="Only nodes with these labels, as in pool=web.",
    )(command)


def offline_options(command: F) -> F:
    """-n and --now: the namespace and time that manifests do not give."""
    now = click.option(
        "--now", metavar="TIME", help="The time that it is, as in 2026-11-15T04:25:02Z; otherwise the present."
    )
    namespace = click.option(
        "-n", "--namespace", default="default", show_default=True, help="Namespace of objects that name none."
    )
    return namespace(now(command))


def scheduler_gates_option(command: F) -> F:
    """--feature-gates of the scheduler, for commands that predict its decisions."""
    return click.option(
        "--feature-gates",
        metavar="LIST",
        default="",
        help="The scheduler's feature gates, as in MultiQuotaTree=true, as far as they change decisions.",
    )(command)


def plugin_option(command: F, form: str = "MODULE:CLASS[=WEIGHT]") -> F:
    """--plugin: scheduler plugins that are not part of koord."""
    return click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar=form,
        help="A plugin of your own, in a module or FILE.py, for every profile; repeatable.",
    )(command)


def descheduler_plugin_option(command: F) -> F:
    """--plugin: the same for the descheduler, whose plugins have no weight."""
    return plugin_option(command, "MODULE:CLASS")
