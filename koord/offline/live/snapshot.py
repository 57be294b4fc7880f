"""The state of a running cluster, as `koord plan --live` takes it: every kind that decides about pods, listed once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from koord.api import kinds
from koord.api.configuration.descheduler_config import DeschedulerConfiguration
from koord.api.kinds import Kind
from koord.api.kubernetes.coordination import Lease
from koord.api.kubernetes.pod import Pod
from koord.api.protocol import names
from koord.api.protocol.announcements import Schedulers
from koord.api.text.manifest import Manifest, Manifests
from koord.descheduler.live.scales import Scales
from koord.descheduler.settings_in_force import settings_of
from koord.kube.announced import announced
from koord.kube.client import Client
from koord.kube.clock import SystemClock
from koord.kube.errors import Forbidden, NotFound
from koord.offline.preview import KINDS as PREVIEW_KINDS
from koord.offline.world import KINDS


def live(
    kubeconfig: str | None,
    context: str | None,
    listing: Callable[[str], None],
    *,
    configuration: bool = False,
    more: Sequence[Kind[Any]] = (),
) -> list[Manifest]:
    """All of a cluster that decides about pods; with its `configuration`, and what that is for, where asked; and `more`
    kinds."""
    listed = dict.fromkeys((*KINDS, *(PREVIEW_KINDS if configuration else ()), *more))
    return asyncio.run(_all(kubeconfig, context, listing, tuple(listed), configuration))


def lending(kubeconfig: str | None, context: str | None, listing: Callable[[str], None]) -> list[Manifest]:
    """All of a cluster that decides about what nodes lend, with its configuration."""
    return asyncio.run(_all(kubeconfig, context, listing, PREVIEW_KINDS, True))


def listed(
    kubeconfig: str | None, context: str | None, wanted: Sequence[Kind[Any]], namespace: str = ""
) -> list[Manifest]:
    """All objects of these kinds, in one namespace or everywhere."""

    async def look() -> list[Manifest]:
        async with Client.from_config(kubeconfig, context) as client:
            return [
                manifest_of(kind, stored) for kind in wanted for stored in await client.list(kind, namespace=namespace)
            ]

    return asyncio.run(look())


def unanswered(
    kubeconfig: str | None, context: str | None, now_s: float, note: Callable[[str], None]
) -> Callable[[str], str]:
    """Why no scheduler serves a scheduler name; empty if one does, or if the leases cannot be read."""
    try:
        return asyncio.run(_schedulers(kubeconfig, context, now_s)).nobody
    except Forbidden as error:
        note(f"cannot tell which schedulers run: {error}")
        return lambda scheduler_name: ""


async def _schedulers(kubeconfig: str | None, context: str | None, now_s: float) -> Schedulers:
    async with Client.from_config(kubeconfig, context) as client:
        return await announced(client, now_s)


def scales(kubeconfig: str | None, context: str | None, manifests: Manifests) -> dict[str, int]:
    """Replicas of workloads of kinds that koord does not know, by uid, as the scale subresource says."""
    return asyncio.run(_scales(kubeconfig, context, manifests.of(kinds.PODS)))


async def _scales(kubeconfig: str | None, context: str | None, pods: Sequence[Pod]) -> dict[str, int]:
    async with Client.from_config(kubeconfig, context) as client:
        return await Scales(client, SystemClock()).of(pods)


def descheduler_settings(
    kubeconfig: str | None, context: str | None, now_s: float, note: Callable[[str], None]
) -> DeschedulerConfiguration | None:
    """The settings of the running descheduler; None if none runs, or if its lease cannot be read."""
    try:
        lease = asyncio.run(_lease(kubeconfig, context))
    except NotFound:
        return None
    except Forbidden as error:
        note(f"cannot tell with which settings a descheduler runs: {error}")
        return None
    return settings_of(lease, now_s)


async def _lease(kubeconfig: str | None, context: str | None) -> Lease:
    async with Client.from_config(kubeconfig, context) as client:
        return await client.get(kinds.LEASES, names.LEASE_DESCHEDULER, namespace=names.NAMESPACE_KOORDINATOR)


def merged(change: Manifests, current: Sequence[Manifest]) -> Manifests:
    """The existing objects with the change applied."""
    changed = {(item.kind, item.key) for item in change.items}
    kept = [item for item in current if (item.kind, item.key) not in changed]
    return change.with_items((*kept, *change.items))


async def _all(
    kubeconfig: str | None,
    context: str | None,
    listing: Callable[[str], None],
    listed: Sequence[Kind[Any]],
    configuration: bool,
) -> list[Manifest]:
    manifests: list[Manifest] = []
    async with Client.from_config(kubeconfig, context) as client:
        for kind in listed:
            listing(kind.plural)
            try:
                objects: Sequence[Any] = await client.list(kind)
            except NotFound:
                # Not every cluster has every kind.
                continue
            manifests += [manifest_of(kind, stored) for stored in objects]
        if configuration:
            for name in (names.CONFIGMAP_SLO_CONTROLLER, names.CONFIGMAP_SLO_IN_FORCE):
                manifests += await _config_map(client, name)
        # A user without access to it has no pods that depend on it, or gets the answer that it is missing.
        with suppress(Forbidden):
            manifests += await _config_map(client, names.CONFIGMAP_GPU_SHARED_RESOURCE_TEMPLATES)
    return manifests


async def _config_map(client: Client, name: str) -> list[Manifest]:
    with suppress(NotFound):
        return [
            manifest_of(
                kinds.CONFIG_MAPS, await client.get(kinds.CONFIG_MAPS, name, namespace=names.NAMESPACE_KOORDINATOR)
            )
        ]
    return []


def manifest_of(kind: Kind[Any], obj: Any) -> Manifest:
    """An object of the cluster as a manifest."""
    head = {"name": obj.metadata.name, "namespace": obj.metadata.namespace}
    return Manifest(kind, obj, {"kind": kind.kind, "metadata": head}, "the cluster", 0)
