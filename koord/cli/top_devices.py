"""The table of `koord top devices`: one line for each device, with the allocated amount and the pods that hold it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from koord.cli import structured
from koord.cli.tables import short, table

if TYPE_CHECKING:
    from koord.scheduler.plugins.devices.figures import DeviceFigures

_COLOURS: Final = {"unhealthy": "red", "missing": "red", "no node": "red"}


def show(node: str, free: bool, kubeconfig: str | None, context: str | None, output: str) -> int:
    figures = asyncio.run(_look(kubeconfig, context))
    chosen = [device for device in figures if (not node or device.node == node) and (not free or _has_room(device))]
    if output in ("json", "yaml"):
        structured.say({"devices": chosen}, output)
        return 0
    if not chosen:
        click.echo("no device" + (f" on {node}" if node else "") + (" has room" if free else " is known"))
        return 0
    click.echo(device_table(chosen))
    return 0


def device_table(figures: Sequence[DeviceFigures]) -> str:
    rows: list[tuple[str, ...]] = [
        ("NODE", "TYPE", "MINOR", "STATE", "NUMA", "PCIE", "CORE%", "TAKEN%", "MEMORY", "PODS")
    ]
    for device in figures:
        memory = "-"
        if device.memory_bytes is not None:
            whole = "?" if device.memory_total_bytes is None else short("memory", device.memory_total_bytes)
            memory = f"{short('memory', device.memory_bytes)}/{whole}"
        rows.append(
            (
                device.node,
                device.type,
                str(device.minor),
                device.state,
                "-" if device.numa_node is None else str(device.numa_node),
                device.pcie or "-",
                "-" if device.core_percent is None else str(device.core_percent),
                str(device.percent),
                memory,
                ", ".join(f"{holder.pod} {holder.percent}%" for holder in device.pods) or "-",
            )
        )
    return table(rows, right=frozenset({2, 4, 6, 7, 8}), colours=_COLOURS)


def _has_room(figures: DeviceFigures) -> bool:
    return figures.state == "healthy" and figures.percent < 100


async def _look(kubeconfig: str | None, context: str | None) -> Sequence[DeviceFigures]:
    from koord.api import kinds
    from koord.kube.client import Client
    from koord.kube.errors import ApiError, NotFound
    from koord.offline.live.node_snapshot import reservations
    from koord.scheduler.plugins.devices.figures import figures
    from koord.scheduler.plugins.reservation.unused import unused

    try:
        async with Client.from_config(kubeconfig, context) as client:
            pods = await client.list(kinds.PODS)
            held = unused(await reservations(client), pods)
            nodes = {node_object.metadata.name for node_object in await client.list(kinds.NODES)}
            return figures(await client.list(kinds.DEVICES), [*pods, *held], nodes)
    except NotFound:
        raise click.ClickException("this cluster does not serve Devices: koord crds | kubectl apply -f -") from None
    except ApiError as error:
        raise click.ClickException(str(error)) from None
