"""Rewrites values of a ConfigMap in koord's namespace, computed from all its values.

Every write names the version that was read, so that two users, or a user and the manager, never silently undo each
other's changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from koord.api.kinds import CONFIG_MAPS
from koord.api.kubernetes.core import ConfigMap
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists, Conflict, NotFound
from koord.operate.live.break_glass import FIELD_MANAGER

TRIES: Final = 5


class ConfigMapError(BadInput):
    """A ConfigMap cannot be written."""


async def config_map(client: Client, name: str = names.CONFIGMAP_SLO_CONTROLLER) -> ConfigMap | None:
    try:
        return await client.get(CONFIG_MAPS, name, namespace=names.NAMESPACE_KOORDINATOR)
    except NotFound:
        return None


async def rewrite(client: Client, name: str, key: str, text_of: Callable[[Mapping[str, str]], str | None]) -> None:
    """Rewrites one value of a ConfigMap, computed from all values; None removes it."""
    await rewrite_values(client, name, lambda data: {key: text_of(data)})


async def rewrite_values(
    client: Client, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str | None]]
) -> None:
    """Rewrites some values of a ConfigMap in one write, computed from all values; None removes one."""
    for _ in range(TRIES):
        stored = await config_map(client, name)
        data: Mapping[str, str] = stored.data if stored is not None else {}
        changed = {key: text for key, text in change(data).items() if text != data.get(key)}
        if not changed or await _write(client, name, stored, changed):
            return
    raise ConfigMapError(f"ConfigMap {name} changes so often that it cannot be written; try again")


async def _write(client: Client, name: str, stored: ConfigMap | None, data: Mapping[str, str | None]) -> bool:
    """Returns whether the value was written; False if another client wrote first."""
    namespace = names.NAMESPACE_KOORDINATOR
    try:
        if stored is None:
            body = {"metadata": {"name": name, "namespace": namespace}, "data": data}
            await client.create(CONFIG_MAPS, body, field_manager=FIELD_MANAGER)
        else:
            version = {"uid": stored.metadata.uid, "resourceVersion": stored.metadata.resource_version}
            patch = {"metadata": version, "data": data}
            await client.patch(CONFIG_MAPS, name, patch, namespace=namespace, field_manager=FIELD_MANAGER)
    except (Conflict, AlreadyExists):
        return False
    return True
