"""The table of `koord top cpus`: one line for each NUMA node, with its free CPUs and the pods that hold CPUs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from koord.cli import structured
from koord.cli.tables import short, table

if TYPE_CHECKING:
    from koord.scheduler.plugins.numa.figures import CPUFigures, CPUHolder


def show(node: str, kubeconfig: str | None, context: str | None, output: str) -> int:
    figures = [
        node_figures
        for node_figures in asyncio.run(_look(kubeconfig, context))
        if not node or node_figures.node == node
    ]
    if output in ("json", "yaml"):
        structured.say({"nodes": figures}, output)
    elif not figures:
        click.echo(f"there is no node {node}" if node else "there are no nodes")
    else:
        click.echo(cpu_table(figures))
    return 0


def cpu_table(figures: Sequence[CPUFigures]) -> str:
    rows: list[tuple[str, ...]] = [
        ("NODE", "NUMA", "POLICY", "CPUS", "FREE", "IN WHOLE CORES", "NOT FOR PODS", "CPU", "MEMORY", "PODS")
    ]
    for node in figures:
        for numa in node.numa_nodes:
            amounts = []
            for name in ("cpu", "memory"):
                has = numa.amounts.get(name)
                amounts.append("-" if has is None else f"{short(name, has.taken)}/{short(name, has.allocatable)}")
            rows.append(
                (
                    node.node,
                    str(numa.number),
                    node.numa_policy or "-",
                    numa.cpuset,
                    f"{numa.free_cpus}",
                    str(numa.free_in_whole_cores),
                    numa.reserved or "-",
                    *amounts,
                    ", ".join(_told(pod) for pod in node.pods if numa.number in pod.numa_nodes) or "-",
                )
            )
    silent = [node.node for node in figures if not node.numa_nodes]
    paragraphs = [table(rows, right=frozenset({1, 4, 5, 7, 8}))] if len(rows) > 1 else []
    if silent:
        named = f"{', '.join(silent[:2])} and {len(silent) - 2} more nodes" if len(silent) > 3 else ", ".join(silent)
        paragraphs.append(f"no NodeResourceTopology tells of the CPUs of {named}")
    return "\n\n".join(paragraphs)


def _told(pod: CPUHolder) -> str:
    return f"{pod.pod} {pod.cpuset}" if pod.cpuset else pod.pod


async def _look(kubeconfig: str | None, context: str | None) -> Sequence[CPUFigures]:
    from koord.api import kinds
    from koord.kube.client import Client
    from koord.kube.errors import ApiError, NotFound
    from koord.offline.live.node_snapshot import reservations
    from koord.scheduler.plugins.numa.figures import figures
    from koord.scheduler.plugins.reservation.unused import unused

    try:
        async with Client.from_config(kubeconfig, context) as client:
            reports = []
            # Without koord's agents no CPUs are reported.
            with suppress(NotFound):
                reports = await client.list(kinds.NODE_RESOURCE_TOPOLOGIES)
            pods = await client.list(kinds.PODS)
            held = unused(await reservations(client), pods)
            return figures(await client.list(kinds.NODES), reports, [*pods, *held])
    except ApiError as error:
        raise click.ClickException(str(error)) from None
