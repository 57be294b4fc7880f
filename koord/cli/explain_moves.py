"""The history of a pod in `koord explain POD`, from a cluster or from manifests: its moves, its slowdowns and its
events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

from koord.api import kinds
from koord.api.configuration.descheduler_config import DeschedulerConfiguration
from koord.api.kinds import Kind
from koord.api.text.manifest import Manifests
from koord.cli.inputs import configuration_of
from koord.descheduler.compiled import compiled
from koord.kube.client import Client
from koord.kube.errors import ApiError, Forbidden, NotFound
from koord.offline.deschedule import deschedule
from koord.offline.moves import moves_of, would_move
from koord.offline.pod_events import happened
from koord.offline.slowdowns import slowdowns_of
from koord.scheduler.profiles import Profiles


class PodHistory(NamedTuple):
    moves: tuple[str, ...] = ()
    "Which component evicted a pod, why, and where its replacement went."
    slowdowns: tuple[str, ...] = ()
    "What slowed the pod down, or which pods it slowed down."
    events: tuple[str, ...] = ()
    "Events of the pod, one line each."


def history(kubeconfig: str | None, context: str | None, key: str, now_s: float) -> PodHistory:
    try:
        return asyncio.run(_history(kubeconfig, context, key, now_s))
    except ApiError as error:
        raise click.ClickException(str(error)) from None


def _moves_in(manifests: Manifests, profiles: Callable[[], Profiles], key: str, now_s: float) -> tuple[str, ...]:
    moves = moves_of(
        key, manifests.of(kinds.PODS), manifests.of(kinds.POD_MIGRATION_JOBS), manifests.of(kinds.EVENTS), now_s
    )
    config = configuration_of(DeschedulerConfiguration, "DeschedulerConfiguration", None, manifests)
    if config is None or all(pod.metadata.key != key for pod in manifests.of(kinds.PODS)):
        return moves
    return (*moves, *would_move(key, deschedule(manifests, compiled(config), profiles(), now_s=now_s)))


def history_in(manifests: Manifests, profiles: Callable[[], Profiles], key: str, now_s: float) -> PodHistory:
    """The same for a pod in manifests, and what a descheduler would do with the pod if they hold its configuration."""
    events = manifests.of(kinds.EVENTS)
    return PodHistory(_moves_in(manifests, profiles, key, now_s), slowdowns_of(key, events), happened(key, events))


async def _history(kubeconfig: str | None, context: str | None, key: str, now_s: float) -> PodHistory:
    namespace, _, name = key.partition("/")
    async with Client.from_config(kubeconfig, context) as client:
        pods = await client.list(kinds.PODS, namespace=namespace)
        about = f"regarding.kind=Pod,regarding.name={name}"
        events = await _listed(client, kinds.EVENTS, namespace=namespace, fields=about)
        jobs = await _listed(client, kinds.POD_MIGRATION_JOBS)
        moves = moves_of(key, list(pods), jobs, events, now_s)
        return PodHistory(moves, slowdowns_of(key, events), happened(key, events))


async def _listed(client: Client, kind: Kind[Any], namespace: str = "", fields: str = "") -> Sequence[Any]:
    try:
        return list(await client.list(kind, namespace=namespace, fields=fields))
    except NotFound:
        return ()
    except Forbidden as error:
        click.echo(f"note: moves of the pod may be missing: {error}", err=True)
        return ()
