"""`koord`: the command line. Finds the command, runs it, and turns an error into one clear message.

Exit codes: 0 success, 1 a negative answer, 2 bad usage or bad input, 130 interrupted. A command's module is imported
only when that command is used, so that `koord --help` stays instant.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import click

from koord import __version__
from koord.cli.starting import put_off_collection


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command in the list: where its code is, and its line in the help."""

    module: str
    help: str


COMMANDS: dict[str, CommandEntry] = {
    "up": CommandEntry("koord_minicluster.cli.up", "Run a whole cluster on this machine."),
    "status": CommandEntry(
        "koord.cli.status", "Say how a cluster and its components are, and how to fix what is wrong."
    ),
    "install": CommandEntry("koord.cli.install", "Install koord on a cluster, or change an installation."),
    "uninstall": CommandEntry("koord.cli.uninstall", "Take koord off a cluster without a trace."),
    "upgrade": CommandEntry("koord.cli.upgrade", "Bring an installation to this version of koord."),
    "migrate": CommandEntry("koord.cli.migrate", "Take over from Koordinator, component by component, or give back."),
    "check": CommandEntry(
        "koord.cli.check", "Say whether a cluster and its kernels are ready, feature by feature, and what is missing."
    ),
    "plan": CommandEntry(
        "koord.cli.plan", "Say where the pods in some manifests would go, and why; without a cluster."
    ),
    "admit": CommandEntry(
        "koord.cli.admit", "Say what admission would make of some manifests, or why it would refuse them."
    ),
    "explain": CommandEntry(
        "koord.cli.explain", "Say why a pod is where it is, or nowhere; or what a node lends, and why."
    ),
    "deschedule": CommandEntry(
        "koord.cli.deschedule", "Say which pods the descheduler would move, why, and where they would go."
    ),
    "recommend": CommandEntry(
        "koord.cli.recommend", "Say what workloads should request, by what they used, and what that saves."
    ),
    "report": CommandEntry(
        "koord.cli.report", "Say what co-location was worth: lent, used, evicted and saved, by namespace and more."
    ),
    "sim": CommandEntry(
        "koord.cli.sim", "Say what co-location would bring on a cluster, and what it would cost: simulation on traces."
    ),
    "colocation": CommandEntry(
        "koord.cli.colocation", "Turn co-location off or on, for the cluster, a pool or a node."
    ),
    "top": CommandEntry("koord.cli.top", "Show what nodes and pods have, ask for and use, by priority band."),
    "console": CommandEntry(
        "koord.cli.console", "Serve the web console: what is lent, used and held back, and why; with a switch."
    ),
    "crds": CommandEntry("koord.cli.crds", "Print the CustomResourceDefinitions of koord's kinds."),
    "hollow": CommandEntry("koord_minicluster.cli.hollow", "Run nodes that are only modelled."),
    "apiserver": CommandEntry(
        "koord_minicluster.cli.apiserver", "Serve a Kubernetes API on this machine, with nothing else installed."
    ),
    "scheduler": CommandEntry("koord.cli.scheduler", "Schedule pods: decide where they go, and bind them."),
    "descheduler": CommandEntry("koord.cli.descheduler", "Move pods that sit badly, and carry out PodMigrationJobs."),
    "manager": CommandEntry(
        "koord.cli.manager", "Decide what nodes lend to batch and mid pods, and keep it published."
    ),
    "agent": CommandEntry(
        "koord.cli.agent", "Protect the services of a node: measure, hold back, evict; or only say so."
    ),
    "runtime-proxy": CommandEntry(
        "koord.cli.runtime_proxy",
        "Stand between kubelet and its container runtime, and set containers up before they start.",
    ),
    "runtime-hooks": CommandEntry(
        "koord.cli.runtime_hooks", "Answer Koordinator's own runtime proxy with koord's hooks."
    ),
    "node": CommandEntry("koord.cli.node", "Prepare a node: what kubelet and its container runtime need for koord."),
    "nri": CommandEntry("koord.cli.nri", "Set containers up before they start: a plugin of containerd or CRI-O (NRI)."),
    "yarn": CommandEntry("koord.cli.yarn", "Run Hadoop YARN on reclaimed resources: the operator and the copilot."),
    "local": CommandEntry(
        "koord_minicluster.cli.local",
        "Make this machine a node: pods run as plain processes in real cgroups. No sandbox.",
    ),
    "controllers": CommandEntry(
        "koord_minicluster.cli.controllers", "Run the controllers of Deployments, Jobs and the like."
    ),
    "monitoring": CommandEntry(
        "koord_minicluster.cli.monitoring", "Run Prometheus and Grafana on a running koord up, with koord's dashboards."
    ),
    "bench": CommandEntry("koord_bench.cli", "Run the benchmarks, each against its baseline in the same run."),
    "chaos": CommandEntry("koord_chaos.cli.chaos", "Try to break koord: random load, judged by what koord promises."),
    "completion": CommandEntry("koord.cli.completion", "Print the completion script for bash, zsh or fish."),
    "version": CommandEntry("koord.cli.version", "Print the version of koord and of the cluster."),
}

EXTRAS: Final = {"koord_minicluster": "up", "koord_bench": "bench", "koord_chaos": "chaos"}
"""The extra of koord that installs a package beside it."""
NEAR: Final = 0.8
"""How similar a word must be to a command to suggest it: `stat` suggests status, `get` does not suggest agent."""


class LazyGroup(click.Group):
    """A group whose help comes from the table above, and whose commands are imported when they run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        try:
            module = importlib.import_module(entry.module)
        except ModuleNotFoundError as error:
            if (extra := EXTRAS.get(error.name or "")) is None:
                raise
            raise click.ClickException(
                f'koord {cmd_name} is not installed here: pip install "koord[{extra}]"'
            ) from None
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1, cutoff=NEAR)
            hint = f" Did you mean {near[0]!r}?" if near else " 'koord --help' lists the commands."
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Example: koord crds | kubectl apply --server-side -f -",
)
@click.version_option(__version__, message="koord %(version)s", help="Print the version of koord.")
@click.option("-v", "--verbose", is_flag=True, help="Log more; the same as KOORD_LOG=debug.")
def koord(verbose: bool) -> None:
    """koord runs batch jobs on the idle resources of services, without the services noticing."""
    if verbose:
        os.environ.setdefault("KOORD_LOG", "debug")


def main(args: Sequence[str] | None = None) -> None:
    put_off_collection()
    sys.exit(run(args))


def run(args: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. Bad input never shows a traceback; a bug in koord does."""
    try:
        code = koord.main(args=list(args) if args is not None else None, prog_name="koord", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except OSError as error:
        click.echo(f"Error: {_os_error(error)}", err=True)
        return 2
    except Exception as error:
        if not _is_an_answer(error):
            raise
        click.echo(f"Error: {error}", err=True)
        return 2


def _is_an_answer(error: Exception) -> bool:
    """Whether an error is about the input or a refusal of the API server, not a bug in koord."""
    from koord.api.machinery.faults import BadInput
    from koord.kube.errors import ApiError

    return isinstance(error, BadInput | ApiError)


def _os_error(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"
