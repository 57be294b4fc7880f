"""`koord up`: everything on one machine."""

from __future__ import annotations

import asyncio
import io
import shutil
import signal
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from koord.cli.lines import say
from koord_minicluster.cli.hollow import Fleet, fleet_options, options_for, size_of

if TYPE_CHECKING:
    from koord.kube.client import Client
    from koord_minicluster.cli.up_demo import Demo
    from koord_minicluster.up.data_dir import DataDir
    from koord_minicluster.up.plan import UpOptions
    from koord_minicluster.up.run import Up


NODES: Final = 5


@click.command(
    epilog="""\b
Example: koord up --demo --report out.html
         koord up --nodes 100 --data-dir ./data
         export KUBECONFIG=$PWD/data/kubeconfig
         kubectl get nodes"""
)
@click.option(
    "--demo",
    is_flag=True,
    help="Fill the cluster with services, batch jobs of two tenants, a gang on GPUs and a hot node, show what becomes"
    " of them, and sum it up at the end.",
)
@click.option(
    "--report",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="With --demo: write the summary as a page with plots, too.",
)
@click.option(
    "--nodes",
    type=click.IntRange(0, 16384),
    show_default=f"{NODES}; in a demo 50; beside a local node none",
    help="Number of hollow nodes.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep state there between runs. Without it, a temporary directory is used and removed at the end.",
)
@click.option(
    "--port",
    default=0,
    type=click.IntRange(0, 65535),
    show_default="that of the last run, else any free one",
    help="Port of the API server.",
)
@click.option(
    "--durability",
    type=click.Choice(["full", "fast"]),
    default="full",
    show_default=True,
    help="full: no answer before its write is on disk. fast: survives a crash of the process, not of the machine.",
)
@fleet_options
@click.option(
    "--descheduler",
    type=click.Choice(["off", "report", "on"]),
    show_default="report; in a demo on",
    help="report: events say which pods sit badly. on: they are moved, too. off: nobody looks.",
)
@click.option(
    "--descheduler-config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A DeschedulerConfiguration. Without it, nodes above cpu 75% or memory 80% are hot.",
)
@click.option("--local-node", is_flag=True, help="Make this machine a node, for real: needs root. No sandbox.")
@click.option("--local-cpu", metavar="QUANTITY", help="How much of this machine's CPU the local node has.")
@click.option("--local-memory", metavar="QUANTITY", help="How much of its memory.")
@click.option(
    "--agent-feature-gates",
    "agent_gates",
    default="",
    metavar="LIST",
    help="With --local-node: gates of its agent, as in InterferenceDetection=true.",
)
@click.option(
    "--yarn",
    is_flag=True,
    help="Run Hadoop's ResourceManager and a NodeManager too, on the idle part of the local node, else of the first"
    " hollow one. Needs Java. Whoever can reach this machine's loopback can run applications, as this user.",
)
@click.option(
    "--hadoop",
    envvar="KOORD_HADOOP",
    metavar="DIR",
    help="With --yarn: an unpacked Hadoop, or a folder with its jars; also $KOORD_HADOOP.",
)
@click.option(
    "--monitoring",
    is_flag=True,
    help="Run Prometheus too, and Grafana if it is installed, with koord's alerts and dashboards.",
)
@click.option("--headless", is_flag=True, help="No live view: one line when ready, then logs on stderr.")
@click.option("--single-process", is_flag=True, help="Run everything in this one process: for debugging.")
def up(
    nodes: int | None,
    data_dir: Path | None,
    port: int,
    durability: str,
    fleet: Fleet,
    descheduler: Literal["off", "report", "on"] | None,
    descheduler_config: Path | None,
    local_node: bool,
    local_cpu: str | None,
    local_memory: str | None,
    agent_gates: str,
    yarn: bool,
    hadoop: str | None,
    monitoring: bool,
    demo: bool,
    report: Path | None,
    headless: bool,
    single_process: bool,
) -> int:
    """Run a whole cluster on this machine: API server, controllers, scheduler, manager, descheduler, hollow nodes.

    Each component is a process of its own, started again if it dies. Ctrl-C stops everything. The cluster is empty;
    with --demo it is at work.
    """
    from koord.kube.logs import setup_logging
    from koord_minicluster.up.data_dir import DataDir
    from koord_minicluster.up.plan import UpOptions

    story: Demo | None = None
    if demo:
        from koord_minicluster.cli.up_demo import Demo

        given = {"--load": fleet.load, "--descheduler-config": descheduler_config, "--single-process": single_process}
        story = Demo.asked_for(nodes, fleet, given, report, local_node=local_node)
        nodes, fleet = story.scenario.nodes, story.fleet
    elif report is not None:
        raise click.UsageError("--report goes with --demo")
    if nodes is None:
        nodes = 0 if local_node else NODES
    # Report bad options here, not from a child process that fails to start.
    size_of(fleet)
    if fleet.load is not None:
        options_for(nodes, "hollow", fleet)
    if descheduler_config is not None:
        from koord.api.configuration.descheduler_config import DeschedulerConfiguration
        from koord.cli.inputs import configuration_file

        configuration_file(descheduler_config, DeschedulerConfiguration, "DeschedulerConfiguration")
    options = UpOptions(
        data_dir=data_dir,
        nodes=nodes,
        port=port,
        durability="full" if durability == "full" else "fast",
        fleet_args=fleet.arguments(),
        descheduler=descheduler or ("on" if demo else "report"),
        descheduler_config=None if descheduler_config is None else descheduler_config.absolute(),
        local_args=_local_args(local_cpu, local_memory) if local_node else None,
        agent_gates=agent_gates,
        hadoop=str(Path(hadoop or "").absolute()) if yarn else None,
        monitoring=monitoring,
    )
    if monitoring:
        _check_monitoring(single_process)
    if yarn:
        _check_yarn(hadoop or "", options, single_process)
    if not local_node and (local_cpu or local_memory or agent_gates):
        raise click.UsageError("--local-cpu, --local-memory and --agent-feature-gates go with --local-node")
    if local_node:
        from koord.api.configuration.features import AgentGate, parse_gates
        from koord_minicluster.cli.local import check_root, size

        parse_gates(AgentGate, agent_gates)
        size(local_cpu, local_memory, "--local-")
        check_root()
    view = not headless and not single_process and sys.stdout.isatty()
    setup_logging("info")
    with DataDir(data_dir) as data, ExitStack() as stack:
        if view:
            # The screen is the view's.
            stream = io.TextIOWrapper(data.open_log("up"), line_buffering=True)
            stack.callback(_close, stream)
            setup_logging("info", stream=stream)
        if yarn:
            from koord.yarn.live.java import configure, installed

            configure(data.path / "yarn", installed(hadoop or ""))
        if single_process:
            from koord_minicluster.cli.up_single import run_single

            return run_single(options, data, options_for(nodes, "hollow", fleet))
        if story is not None:
            options = story.settled(options, data)
        code = _supervise(options, data, story, view=view, headless=headless)
    if story is not None:
        story.end()
    return code


def _check_monitoring(single_process: bool) -> None:
    from koord_minicluster.up.installed import installed_prometheus

    if single_process:
        raise click.UsageError("--monitoring does not go with --single-process: Prometheus is a process of its own")
    installed_prometheus()


def _check_yarn(hadoop: str, options: UpOptions, single_process: bool) -> None:
    from koord.yarn.live.java import installed

    if single_process:
        raise click.UsageError("--yarn does not go with --single-process: Hadoop's daemons are processes of their own")
    if options.local_args is None and not options.nodes:
        raise click.UsageError("--yarn needs a node: leave --nodes 0 out, or give --local-node")
    installed(hadoop)


def _local_args(cpu: str | None, memory: str | None) -> tuple[str, ...]:
    return (*(("--cpu", cpu) if cpu else ()), *(("--memory", memory) if memory else ()))


def _supervise(options: UpOptions, data: DataDir, story: Demo | None, *, view: bool, headless: bool) -> int:
    from koord.kube.background_task import background_task
    from koord.kube.shell import run_component
    from koord_minicluster.up.run import Up
    from koord_minicluster.up.supervisor import Failed

    had_yarn = (data.path / "yarn").is_dir()

    begun, cleared = asyncio.Event(), asyncio.Event()

    async def show(running: Up, client: Client) -> None:
        if view:
            # The line of progress must be gone before the view takes the screen.
            begun.set()
            await cleared.wait()
        if had_yarn and options.hadoop is None:
            await _without_yarn(client, data.path / "yarn")
        if view:
            await shown(running, client)
            return
        say_ready(data)
        async with (
            background_task(say_console(running), name="up/console-link"),
            background_task(say_monitoring(running), name="up/monitoring"),
        ):
            await shown(running, client)

    async def shown(running: Up, client: Client) -> None:
        if story is not None:
            await story.show(running, client, "screen" if view else "nothing" if headless else "lines")
        elif view:
            from koord_minicluster.cli.up_view import show as live

            await live(running, client)
        else:
            await asyncio.Event().wait()

    async def main() -> int:
        if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
            # A terminal that is closed ends it as cleanly as Ctrl-C does.
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, signal.raise_signal, signal.SIGTERM)
        failed: BaseExceptionGroup[Failed] | None = None
        try:
            if view:
                count = options.nodes + (options.local_args is not None)
                click.echo(f"starting {count} node{'s' if count != 1 else ''} in {data.path} ...", err=True)
            running = Up(options, data)
            if view:
                async with background_task(_starting(running, begun, cleared), name="up/starting"):
                    await running.run(show)
            else:
                await running.run(show)
        except* Failed as errors:
            failed = errors
        if failed is None:
            return 0
        from koord.kube.shell import causes

        for error in causes(failed):
            click.echo(f"Error: {error}", err=True)
        return 1

    code = run_component(main, name="up")
    if view:
        click.echo("stopped", err=True)
    return code


async def _starting(up: Up, begun: asyncio.Event, cleared: asyncio.Event) -> None:
    """Shows which components are still starting, until the cluster is up."""
    from koord.cli.progress import Progress

    with Progress() as progress:
        while not begun.is_set():
            late = [child.name for child in up.supervisor.children.values() if not child.ready.is_set()]
            progress.say(f"waiting for {', '.join(late)}" if late else "almost there")
            with suppress(TimeoutError):
                await asyncio.wait_for(begun.wait(), 0.2)
    cleared.set()


async def _without_yarn(client: Client, left: Path) -> None:
    """Removes the state of an earlier run with YARN, and returns YARN's share of the nodes to Kubernetes."""
    from koord.yarn.live.declaring import forget_all

    await forget_all(client)
    shutil.rmtree(left, ignore_errors=True)


def say_ready(data: DataDir) -> None:
    """The one line that scripts wait for."""
    say(f"ready: KUBECONFIG={data.kubeconfig}")


async def say_console(running: Up) -> None:
    """On stderr, since the console starts after all else is ready."""
    await running.supervisor.children["console"].ready.wait()
    data = running.data
    click.echo(f"console: {data.console_link} (signs in once; {data.console_link_file} has the next one)", err=True)


async def say_monitoring(running: Up) -> None:
    child = running.supervisor.children.get("monitoring")
    if child is not None:
        await child.ready.wait()
        for name, url in child.endpoints.items():
            click.echo(f"{name}: {url}", err=True)


def _close(stream: io.TextIOWrapper) -> None:
    """A disk that is full loses the last lines of a log, not the exit code."""
    with suppress(OSError):
        stream.close()
