"""`koord status`: the health of a cluster, what is wrong, and how to fix it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from koord.cli import structured
from koord.cli.options import kube_options, output_option, wait_option
from koord.cli.progress import Progress

if TYPE_CHECKING:
    from koord.operate.health import Status


LOOK_AGAIN_S: Final = 0.5


@click.command(
    epilog="""\b
Example: koord status --data-dir ./data -o json
         koord up --data-dir ./data --headless & koord status --data-dir ./data --wait 60"""
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of a running koord up. Found by itself where the kubeconfig lies in it.",
)
@wait_option("Wait until all components are ready and all is well, at most this long.", default=0.0)
@kube_options
@output_option("table", "json", "yaml")
def status(data_dir: Path | None, wait_s: float, kubeconfig: str | None, context: str | None, output: str) -> int:
    """Show the health of a running koord up, or of an installation.

    Checks components, leaders, schedulers, kinds, priority classes, nodes and their reports, and pods; and tests with a
    dry run whether a new pod passes the webhooks. If there are problems, lists how to fix them and exits with 1.
    """
    with Progress() as progress:
        progress.say("waiting until all is well" if wait_s else "looking at the cluster")
        look = asyncio.run(_wait(data_dir, kubeconfig, context, wait_s))
    if output == "table":
        print_status(look)
    else:
        import msgspec

        body = {"healthy": look.healthy, **msgspec.to_builtins(look.facts)}
        body["checks"] = msgspec.to_builtins(look.findings)
        body["problems"] = msgspec.to_builtins(look.problems)
        body["notes"] = list(look.notes)
        structured.say(body, output)
    return 0 if look.healthy else 1


async def _wait(data_dir: Path | None, kubeconfig: str | None, context: str | None, wait_s: float) -> Status:
    """The status once the cluster is healthy, or when the time is over."""
    from koord.kube.cluster_config import ConfigError

    until_s = time.monotonic() + wait_s
    while True:
        try:
            look = await _look(data_dir, kubeconfig, context)
            if _is_settled(look) or time.monotonic() >= until_s:
                return look
        except ConfigError:
            # A koord up that is still starting may not have written its kubeconfig yet.
            if time.monotonic() >= until_s:
                raise
        await asyncio.sleep(LOOK_AGAIN_S)


def _is_settled(look: Status) -> bool:
    return look.healthy and all(component.state == "ready" for component in look.facts.components)


async def _look(data_dir: Path | None, kubeconfig: str | None, context: str | None) -> Status:
    from koord.kube.client import Client
    from koord.kube.locate import locate
    from koord.operate.endpoints import read_endpoints
    from koord.operate.health import judge
    from koord.operate.live.survey import survey

    if data_dir is not None:
        path = data_dir / "kubeconfig"
        endpoints = read_endpoints(data_dir)
        if endpoints is None or not path.exists():
            return judge(await survey(None, "", data_dir, endpoints))
        kubeconfig = kubeconfig or str(path)
    else:
        data_dir = beside(kubeconfig)
        endpoints = read_endpoints(data_dir) if data_dir is not None else None
    config = locate(kubeconfig, context)
    async with Client(config, user_agent="koord-status") as client:
        return judge(await survey(client, config.server, data_dir, endpoints))


def beside(kubeconfig: str | None) -> Path | None:
    """The data directory that contains a kubeconfig, if any."""
    import os

    name = kubeconfig or os.environ.get("KUBECONFIG", "")
    folder = Path(name).parent if name and os.pathsep not in name else None
    return folder if folder is not None and (folder / "endpoints.json").exists() else None


def print_status(status: Status) -> None:
    from koord.operate.health import age

    facts = status.facts
    server = facts.server
    ok = f"{sum(check.ok for check in server.checks)}/{len(server.checks)} checks ok"
    said = f"{server.version or 'version unknown'}, {ok}" if server.reachable else "does not answer"
    click.echo(f"API server  {server.url or '-'}  {said}")
    click.echo(f"koord       {facts.version}" + (f"  data directory {facts.data_dir}" if facts.data_dir else ""))
    if facts.components:
        rows = [("COMPONENT", "STATE", "PID", "RESTARTS", "CHECKS")]
        for component in facts.components:
            checks = (
                f"{sum(check.ok for check in component.checks)}/{len(component.checks)}" if component.checks else "-"
            )
            rows.append((component.name, component.state, str(component.pid or "-"), str(component.restarts), checks))
        _table(rows)
    if facts.leaders:
        rows_of_leaders = [("LEASE", "LEADER", "RENEWED")]
        for leader in facts.leaders:
            renewed = "-" if leader.age_s is None else f"{age(leader.age_s)} ago"
            rows_of_leaders.append((leader.lease, leader.holder or "nobody", renewed))
        _table(rows_of_leaders)
    if server.reachable:
        phases = ", ".join(f"{count} {phase}" for phase, count in sorted(facts.pods.phases.items())) or "none"
        cordoned = f", {len(facts.nodes.cordoned)} cordoned" if facts.nodes.cordoned else ""
        answering = ", ".join(scheduler.name for scheduler in facts.schedulers if scheduler.answers) or "none"
        tried = f"admit a pod (dry run, {facts.webhooks.took_s:.2f} s)" if facts.webhooks.took_s else "not tried"
        shared = f", {len(facts.nodes.yarn)} shared with YARN" if facts.nodes.yarn else ""
        click.echo(
            f"\nnodes       {facts.nodes.ready}/{facts.nodes.total} ready{cordoned}{shared}\npods        {phases}"
        )
        click.echo(f"schedulers  {answering}\nwebhooks    {'fail' if facts.webhooks.failure else tried}")
    passed = [finding.name for finding in status.findings if finding.ok]
    click.echo(f"checks      {len(passed)} of {len(status.findings)} pass: {', '.join(passed) or 'none'}")
    for note in status.notes:
        click.echo(f"\nnote: {note}")
    starting = [component.name for component in facts.components if component.state == "starting"]
    if starting:
        wait = "koord status --wait 60 waits until it is ready"
        click.echo("\n" + click.style(f"still starting: {', '.join(starting)}", fg="yellow") + f"\n  {wait}")
    elif not status.problems:
        click.echo("\n" + click.style("all is well", fg="green"))
    for problem in status.problems:
        click.echo("\n" + click.style(f"wrong: {problem.what}", fg="red") + f"\n  fix: {problem.how}")


def _table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    click.echo()
    for row in rows:
        click.echo("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
