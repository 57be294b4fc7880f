"""`koord colocation break-glass on|off`: admission off and on by hand, with or without a manager."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import click

from koord.cli.groups import Group
from koord.cli.options import kube_options

if TYPE_CHECKING:
    from koord.api.kinds import Kind
    from koord.kube.client import Client

FIELD_MANAGER: Final = "koord-cli"


@click.group("break-glass", cls=Group, epilog="Example: koord colocation break-glass on --reason 'the manager is gone'")
def break_glass() -> None:
    """Take admission off the cluster at once, with or without a manager; and put it back.

    While it is off, no pod, quota or configuration waits for koord, and none is changed or checked by it: pods that
    profiles would make batch pods are stored as they were written, and run on resources meant for services. A manager
    that comes back registers nothing until `break-glass off`.
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
    told = asyncio.run(_turn(kubeconfig, context, None))
    if not told:
        click.echo("admission was not off: koord has no webhook configurations on this cluster")
    for name, said in told.items():
        was = f"admission was off {said}" if said else "admission was not off"
        click.echo(f"{name}: {was}; the manager registers its webhooks")
    return 0


async def _turn(kubeconfig: str | None, context: str | None, reason: str | None) -> dict[str, str]:
    from koord.kube.client import Client

    async with Client.from_config(kubeconfig, context) as client:
        return await turn(client, reason)


def _configurations() -> tuple[tuple[Kind[Any], str], ...]:
    from koord.api.kinds import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS
    from koord.api.protocol import names

    return (
        (MUTATING_WEBHOOK_CONFIGURATIONS, names.WEBHOOK_MUTATING_CONFIGURATION),
        (VALIDATING_WEBHOOK_CONFIGURATIONS, names.WEBHOOK_VALIDATING_CONFIGURATION),
    )


async def turn(client: Client, reason: str | None) -> dict[str, str]:
    """By configuration what is said there, or was. `reason`: why admission goes off; None puts it back."""
    from koord.admission.break_glass import closed, opened, said
    from koord.kube.errors import NotFound

    told = {}
    for kind, name in _configurations():
        try:
            annotations = (await client.get(kind, name)).metadata.annotations
        except NotFound:
            if reason is None:
                continue
            # A manager that may create it must find the word there.
            patch = opened({}, time.time(), reason)
            body = {**patch, "metadata": {**patch["metadata"], "name": name}}
            annotations = (await client.create(kind, body, field_manager=FIELD_MANAGER)).metadata.annotations
        else:
            change = closed(annotations) if reason is None else opened(annotations, time.time(), reason)
            if change is not None:
                found = await client.patch(kind, name, change, field_manager=FIELD_MANAGER)
                annotations = found.metadata.annotations if reason is not None else annotations
        told[name] = said(annotations) or ""
    return told


async def look(client: Client) -> str:
    """What is said where admission is off; empty where it is on, or nobody may know."""
    from koord.admission.break_glass import said
    from koord.kube.errors import ApiError

    for kind, name in _configurations():
        try:
            found = said((await client.get(kind, name)).metadata.annotations)
        except ApiError:
            continue
        if found is not None:
            return found
    return ""
