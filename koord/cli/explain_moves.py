"""What `koord explain POD` says of moves and slowdowns: read from the cluster, beside what decides about the pod."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from koord.api import kinds
from koord.api.kinds import Kind
from koord.kube.client import Client
from koord.kube.errors import ApiError, Forbidden, NotFound
from koord.offline.moves import moves_of
from koord.offline.slowdowns import slowdowns_of


class PodHistory(NamedTuple):
    moves: tuple[str, ...] = ()
    "Who wanted a pod gone, why, and where its replacement went."
    slowdowns: tuple[str, ...] = ()
    "What slowed it down, or whom it slowed down."


def history(kubeconfig: str | None, context: str | None, key: str, now_s: float) -> PodHistory:
    try:
        return asyncio.run(_history(kubeconfig, context, key, now_s))
    except ApiError as error:
        raise click.ClickException(str(error)) from None


async def _history(kubeconfig: str | None, context: str | None, key: str, now_s: float) -> PodHistory:
    namespace, _, name = key.partition("/")
    async with Client.from_config(kubeconfig, context) as client:
        pods = await client.list(kinds.PODS, namespace=namespace)
        about = f"regarding.kind=Pod,regarding.name={name}"
        events = await _listed(client, kinds.EVENTS, namespace=namespace, fields=about)
        jobs = await _listed(client, kinds.POD_MIGRATION_JOBS)
        return PodHistory(moves_of(key, list(pods), jobs, events, now_s), slowdowns_of(key, events))


async def _listed(client: Client, kind: Kind[Any], namespace: str = "", fields: str = "") -> Sequence[Any]:
    try:
        return list(await client.list(kind, namespace=namespace, fields=fields))
    except NotFound:
        return ()
    except Forbidden as error:
        click.echo(f"note: moves of the pod may be missing: {error}", err=True)
        return ()
