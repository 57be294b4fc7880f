"""The state of a running cluster, as `koord plan --live` takes it: every kind that decides about pods, listed once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import click

from koord.api import kinds
from koord.api.kinds import Kind
from koord.api.protocol import names
from koord.api.text.manifest import Manifest, Manifests
from koord.kube.client import Client
from koord.kube.errors import ApiError, NotFound
from koord.offline.preview import KINDS as PREVIEW_KINDS
from koord.offline.world import KINDS


def with_live(
    change: Manifests, kubeconfig: str | None, context: str | None, listing: Callable[[str], None]
) -> Manifests:
    """A change together with all of a cluster that it does not replace. `listing` is told of each kind."""
    return merged(change, live(kubeconfig, context, listing))


def live(
    kubeconfig: str | None, context: str | None, listing: Callable[[str], None], *, configuration: bool = False
) -> list[Manifest]:
    """All of a cluster that decides about pods; with its `configuration`, and what that is for, where asked."""
    try:
        return asyncio.run(_all(kubeconfig, context, listing, configuration))
    except ApiError as error:
        raise click.ClickException(str(error)) from None


def merged(change: Manifests, found: Sequence[Manifest]) -> Manifests:
    """A change over what is there."""
    changed = {(item.kind, item.key) for item in change.items}
    kept = [item for item in found if (item.kind, item.key) not in changed]
    return change.with_items((*kept, *change.items))


async def _all(
    kubeconfig: str | None, context: str | None, listing: Callable[[str], None], configuration: bool
) -> list[Manifest]:
    found: list[Manifest] = []
    async with Client.from_config(kubeconfig, context) as client:
        for kind in (*KINDS, *(PREVIEW_KINDS if configuration else ())):
            listing(kind.plural)
            try:
                objects: Sequence[Any] = await client.list(kind)
            except NotFound:
                # Not every cluster has every kind.
                continue
            found += [_manifest(kind, each) for each in objects]
        if configuration:
            with suppress(NotFound):
                name, namespace = names.CONFIGMAP_SLO_CONTROLLER, names.NAMESPACE_KOORDINATOR
                found.append(
                    _manifest(kinds.CONFIG_MAPS, await client.get(kinds.CONFIG_MAPS, name, namespace=namespace))
                )
    return found


def _manifest(kind: Kind[Any], obj: Any) -> Manifest:
    head = {"name": obj.metadata.name, "namespace": obj.metadata.namespace}
    return Manifest(kind, obj, {"kind": kind.kind, "metadata": head}, "the cluster", 0)
