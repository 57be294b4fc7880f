"""`koord top gangs`: a line for each gang."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from koord.api.text.counted import counted
from koord.cli import structured
from koord.cli.tables import table

if TYPE_CHECKING:
    from koord.offline.gangs import GangTop

_COLOURS: Final = {"Running": "green", "Finished": "green", "Failed": "red", "Scheduling": "yellow"}


def show_gangs(namespace: str, kubeconfig: str | None, context: str | None, output: str) -> int:
    gangs = [
        gang
        for gang in asyncio.run(_look(kubeconfig, context))
        if not namespace or gang.gang.startswith(f"{namespace}/")
    ]
    if output != "table":
        structured.say({"gangs": gangs}, output)
        return 0
    if not gangs:
        click.echo("there are no gangs" + (f" in {namespace}" if namespace else ""))
        return 0
    rows: list[tuple[str, ...]] = [("GANG", "PHASE", "NEEDS", "PODS", "BOUND", "RUNNING", "WAITING", "SINCE", "WITH")]
    for gang in gangs:
        numbers = (gang.pods, gang.bound, gang.running, gang.waiting)
        needs = "?" if gang.needs is None else str(gang.needs)
        since = _age(gang.waits_s) if gang.waiting else "-"
        rows.append((gang.gang, gang.phase, needs, *map(str, numbers), since, ", ".join(gang.group) or "-"))
    click.echo(table(rows, right=frozenset(range(2, 8)), colours=_COLOURS))
    for gang in gangs:
        if gang.fault:
            click.echo(f"{gang.gang}: {gang.fault}", err=True)
    short = [gang for gang in gangs if gang.waiting and gang.needs is not None and gang.bound < gang.needs]
    if short:
        click.echo(f"{counted(len(short), 'gang')} below the minimum: koord explain podgroup/{short[0].gang} says why")
    return 0


async def _look(kubeconfig: str | None, context: str | None) -> list[GangTop]:
    from koord.api import kinds
    from koord.api.protocol.crd.pod_group import PodGroup
    from koord.kube.client import Client
    from koord.kube.errors import ApiError, NotFound
    from koord.offline.gangs import gangs_of

    try:
        async with Client.from_config(kubeconfig, context) as client:
            pods = await client.list(kinds.PODS)
            groups: list[PodGroup] = []
            # Not every cluster has the CRD: pods can carry all gang settings themselves.
            with suppress(NotFound):
                groups = list(await client.list(kinds.POD_GROUPS))
    except ApiError as error:
        raise click.ClickException(str(error)) from None
    return gangs_of(pods, groups, time.time())


def _age(seconds: float) -> str:
    """As kubectl writes ages: 42s, 7m, 3h, 2d."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{int(seconds)}s"
