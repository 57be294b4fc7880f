"""The state of a running cluster, as `koord plan --live` takes it: every kind that decides about pods, listed once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import click

from koord.api.manifest import Manifest, Manifests
from koord.kube.client import Client
from koord.kube.errors import ApiError, NotFound
from koord.offline.world import KINDS


def with_live(
    change: Manifests, kubeconfig: str | None, context: str | None, listing: Callable[[str], None]
) -> Manifests:
    """A change together with all of a cluster that it does not replace. `listing` is told of each kind."""
    try:
        found = asyncio.run(_all(kubeconfig, context, listing))
    except ApiError as error:
        raise click.ClickException(str(error)) from None
    changed = {(item.kind, item.key) for item in change.items}
    kept = [item for item in found if (item.kind, item.key) not in changed]
    return change.with_items((*kept, *change.items))


async def _all(kubeconfig: str | None, context: str | None, listing: Callable[[str], None]) -> list[Manifest]:
    found: list[Manifest] = []
    async with Client.from_config(kubeconfig, context) as client:
        for kind in KINDS:
            listing(kind.plural)
            try:
                objects = await client.list(kind)
            except NotFound:
                # Not every cluster has every kind.
                continue
            for each in objects:
                head = {"name": each.metadata.name, "namespace": each.metadata.namespace}
                found.append(Manifest(kind, each, {"kind": kind.kind, "metadata": head}, "the cluster", 0))
    return found
