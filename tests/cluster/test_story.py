"""From `koord install` to a cluster that works, on koord's own API server and on a real one, with the rights that were
installed and no others."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from koord.api.kinds import CONFIG_MAPS, NAMESPACES
from koord.api.protocol import names
from koord.kube.client import Client
from koord.kube.locate import locate
from tests.agent.live.test_daemon import FakeKubelet
from tests.agent.trees import Tree
from tests.cluster.installed import AgentHost, Installed, running
from tests.cluster.servers import SERVERS, Place
from tests.cluster.story import COLOCATION, DESCHEDULER_CONFIG, EDGE, SPACE, Story, heard, nodes

ON_BOTH = pytest.mark.parametrize("server", ["embedded", pytest.param("real", marks=pytest.mark.cluster)])


@asynccontextmanager
async def installation(place: Place, folder: Path, replicas: int) -> AsyncIterator[tuple[Story, Installed]]:
    """koord installed and running on a cluster with nodes."""

    async def undisturbed(step: str) -> None: ...

    config = folder / "descheduler.yaml"
    config.write_text(DESCHEDULER_CONFIG)
    host = Tree(folder / "host")
    async with (
        Client(locate(str(place.kubeconfig))) as admin,
        heard(admin) as pods,
        FakeKubelet([]).serving() as kubelet,
    ):
        story = Story(admin, place.kubeconfig, pods, undisturbed)
        options = ("--replicas", str(replicas), "--descheduler-config", str(config))
        said = story.koord("install", "--image", "koord:story", *options)
        assert "is installed in namespace koordinator-system" in said
        where = names.NAMESPACE_KOORDINATOR
        soon = {"data": {"colocation-config": json.dumps({"enable": False, **COLOCATION})}}
        await admin.patch(CONFIG_MAPS, names.CONFIGMAP_SLO_CONTROLLER, soon, namespace=where)
        await admin.create(NAMESPACES, {"metadata": {"name": SPACE}})
        agent = AgentHost(EDGE, host.root, kubelet)
        async with (
            nodes(admin, place.kubeconfig, folder),
            running(admin, folder, replicas, agent) as installed,
        ):
            yield story, installed


@pytest.mark.timeout(240)
@ON_BOTH
async def test_an_installation_keeps_its_promises(server: str, tmp_path: Path) -> None:
    with SERVERS[server](tmp_path) as place:
        async with installation(place, tmp_path, 1) as (story, _):
            await story.told()
