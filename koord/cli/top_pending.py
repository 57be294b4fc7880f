"""`koord top pending`: why pods are pending, by reason and pod by pod. The console's page Pending shows the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from koord.api.text.counted import counted
from koord.cli import structured
from koord.cli.tables import table

if TYPE_CHECKING:
    from koord.console.reasons import Reason, SchedulerReason
    from koord.console.rows import PodRow

    Pending = list[tuple[PodRow, Reason]]


def show_pending(namespace: str, url: str, kubeconfig: str | None, context: str | None, output: str) -> int:
    from koord.console.reasons import groups_of, pending_sentence
    from koord.operate.health import age

    pods, fault = asyncio.run(_look(namespace, url, kubeconfig, context))
    now_s = time.time()
    groups = groups_of(pods, now_s, lambda namespace: True)
    if output != "table":
        listed = [
            {
                "pod": pod.key,
                "quota": pod.quota,
                "band": pod.band,
                "reason": why.code,
                "plugin": why.plugin,
                "title": why.title,
                "nodes": why.nodes,
                "ageS": int(now_s - pod.created_at_s),
            }
            for pod, why in pods
        ]
        structured.say({"total": len(pods), "groups": groups, "pods": listed, "incomplete": fault}, output)
        return 0
    click.echo(pending_sentence(groups, len(pods)))
    if not pods:
        return 0
    rows: list[tuple[str, ...]] = [("PODS", "OLDEST", "PLUGIN", "REASON")]
    rows += [(str(group.pods), age(group.oldest_s), group.plugin or "-", group.title) for group in groups]
    click.echo("\n" + table(rows, right=frozenset((0, 1))))
    rows = [("POD", "FOR", "QUOTA", "NODES", "REASON")]
    for pod, why in pods:
        nodes = "-" if why.nodes is None else str(why.nodes)
        rows.append((pod.key, age(now_s - pod.created_at_s), pod.quota or "-", nodes, why.title))
    click.echo("\n" + table(rows, right=frozenset((1, 3))))
    oldest = pods[0][0]
    click.echo(f"NODES: that the reason's plugin rejects. koord explain {oldest.name} -n {oldest.namespace} says more")
    if fault:
        click.echo(f"plugins and nodes are not known for {counted(len(pods), 'pod')}: {fault}", err=True)
    return 0


async def _look(namespace: str, url: str, kubeconfig: str | None, context: str | None) -> tuple[Pending, str]:
    """The pods that wait longest first; and why the scheduler could not be asked."""
    from msgspec.structs import replace

    from koord.api import kinds
    from koord.cli.status import beside
    from koord.console.live.scheduler_reasons import SchedulerList, Unanswered, answered_soon
    from koord.console.reasons import reason_of
    from koord.console.rows import row_of_pod
    from koord.kube.client import Client
    from koord.kube.errors import ApiError, Forbidden, NotFound
    from koord.offline.quotas import quota_of_pods
    from koord.operate.endpoints import read_endpoints

    folder = beside(kubeconfig)
    reasons: Mapping[str, SchedulerReason] = {}
    fault = ""
    try:
        async with Client.from_config(kubeconfig, context) as client:
            rows = [row_of_pod(pod) for pod in await client.list(kinds.PODS, namespace=namespace)]
            pods = sorted((row for row in rows if row.is_pending), key=lambda row: (row.created_at_s, row.key))
            # Not every cluster has quotas, and not everybody may list them.
            with suppress(NotFound, Forbidden):
                quota_of = quota_of_pods(await client.list(kinds.ELASTIC_QUOTAS))
                pods = [replace(pod, quota=quota_of(pod.quota, pod.namespace)) for pod in pods]
            if pods:
                scheduler = SchedulerList(client, lambda: read_endpoints(folder) if folder else None, url)
                try:
                    async with answered_soon() as session:
                        reasons = await scheduler.read(session)
                except Unanswered as error:
                    fault = str(error)
    except ApiError as error:
        raise click.ClickException(str(error)) from None
    return [(pod, reason_of(pod, reasons)) for pod in pods], fault
