"""Somebody uninstalls by deleting koord's namespace, as many do: it goes, and nothing waits for koord afterwards."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from koord.api.kinds import (
    ELASTIC_QUOTAS,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    NAMESPACES,
    PODS,
    SERVICE_ACCOUNTS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
)
from koord.api.protocol import names
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists, ApiError, NotFound
from koord.kube.locate import locate
from koord.operate.install.settings import MANAGER
from tests.cluster.installed import running
from tests.cluster.servers import SERVERS
from tests.cluster.story import Pods, Story
from tests.cluster.test_story import ON_BOTH

OWN = names.NAMESPACE_KOORDINATOR
CONFIGURATIONS: tuple[tuple[Any, str], ...] = (
    (MUTATING_WEBHOOK_CONFIGURATIONS, names.WEBHOOK_MUTATING_CONFIGURATION),
    (VALIDATING_WEBHOOK_CONFIGURATIONS, names.WEBHOOK_VALIDATING_CONFIGURATION),
)


async def undisturbed(step: str) -> None: ...


@ON_BOTH
@pytest.mark.parametrize("manager", ["runs", "is down"])
async def test_the_namespace_goes_and_pods_that_use_koord_are_accepted(
    server: str, manager: str, tmp_path: Path
) -> None:
    with SERVERS[server](tmp_path) as place:
        async with Client(locate(str(place.kubeconfig))) as admin:
            story = Story(admin, place.kubeconfig, Pods(), undisturbed)
            story.koord("install", "--image", "koord:story", "--components", "manager", "--replicas", "1")
            with suppress(AlreadyExists):
                await admin.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, namespace="default")
            async with running(admin, tmp_path, 1, components=(MANAGER,)) as installed:
                await story.until("webhooks are registered", lambda: are_registered(admin))
                for name in (names.QUOTA_ROOT, names.QUOTA_DEFAULT):
                    await admin.create(ELASTIC_QUOTAS, {"metadata": {"name": name, "namespace": OWN}})
                with pytest.raises(ApiError, match="belongs to koord"):
                    await admin.delete(ELASTIC_QUOTAS, names.QUOTA_ROOT, namespace=OWN)
                if manager == "is down":
                    installed.of(MANAGER)[0].kill()
                    assert not await is_accepted(admin)
                await admin.delete(NAMESPACES, OWN)
                await story.until("the namespace is gone", lambda: is_gone(admin))
                await story.until("pods that use koord are accepted", lambda: is_accepted(admin))
            # Its process has ended with its pod. What it left must not hold anything up.
            await story.until("nothing is registered", lambda: is_nothing_registered(admin))
            assert await is_accepted(admin)


async def are_registered(admin: Client) -> bool:
    found = [(await admin.get(kind, name)).webhooks for kind, name in CONFIGURATIONS]
    return all(found)


async def is_nothing_registered(admin: Client) -> bool:
    left: list[Any] = []
    for kind, name in CONFIGURATIONS:
        with suppress(NotFound):
            left += (await admin.get(kind, name)).webhooks
    return not left


async def is_gone(admin: Client) -> bool:
    with suppress(NotFound):
        await admin.get(NAMESPACES, OWN)
        return False
    return True


async def is_accepted(admin: Client) -> bool:
    labels = {str(names.LABEL_QOS_CLASS): "LS"}
    pod = {"metadata": {"name": "probe", "labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    try:
        async with asyncio.timeout(60):
            await admin.limited(attempts=1).create(PODS, pod, namespace="default", dry_run=True)
    except ApiError:
        return False
    return True
