"""`koord colocation break-glass on|off`: switches admission off and on by hand, with or without a manager."""

from __future__ import annotations

import asyncio

import click

from koord.cli.groups import Group
from koord.cli.options import kube_options


@click.group("break-glass", cls=Group, epilog="Example: koord colocation break-glass on --reason 'the manager is gone'")
def break_glass() -> None:
    """Switch admission off at once, with or without a manager, and on again.

    While admission is off, no pod, quota or configuration waits for koord, and koord changes and checks none of them:
    pods that profiles would turn into batch pods are stored unchanged and use resources meant for services. A manager
    that comes back registers no webhooks until `break-glass off`.
    """


@break_glass.command(epilog="Example: koord colocation break-glass on --reason 'the manager is gone'")
@click.option("--reason", default="", metavar="TEXT", help="Why, for those who find it off.")
@kube_options
def on(reason: str, kubeconfig: str | None, context: str | None) -> int:
    """Admission is off: nothing waits for koord."""
    for name, said in asyncio.run(_turn(kubeconfig, context, reason)).items():
        click.echo(f"{name} is empty: admission is off {said}")
    click.echo("koord colocation break-glass off puts it back", err=True)
    return 0


@break_glass.command(epilog="Example: koord colocation break-glass off")
@kube_options
def off(kubeconfig: str | None, context: str | None) -> int:
    """Admission is back: the manager registers its webhooks when it next looks."""
    switched = asyncio.run(_turn(kubeconfig, context, None))
    if not switched:
        click.echo("admission was not off: koord has no webhook configurations on this cluster")
    for name, said in switched.items():
        was = f"admission was off {said}" if said else "admission was not off"
        click.echo(f"{name}: {was}; the manager registers its webhooks")
    return 0


async def _turn(kubeconfig: str | None, context: str | None, reason: str | None) -> dict[str, str]:
    from koord.kube.client import Client
    from koord.operate.live.break_glass import turn

    async with Client.from_config(kubeconfig, context) as client:
        return await turn(client, reason)
