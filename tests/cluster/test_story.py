"""From `koord install` to a cluster that works, on koord's own API server and on a real one, with the rights that were
installed and no others."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from koord.api.kinds import CONFIG_MAPS, NAMESPACES, POD_MIGRATION_JOBS
from koord.api.protocol import names
from koord.kube.client import Client
from koord.kube.locate import locate
from koord.operate.install.access import rights_of
from koord.operate.install.settings import AGENT, DESCHEDULER, MANAGER, SCHEDULER, Component, Settings
from tests.agent.live.test_daemon import FakeKubelet
from tests.agent.trees import Tree
from tests.cluster.audit import recorded, times_done
from tests.cluster.installed import AgentHost, Installed, running
from tests.cluster.servers import SERVERS, Place
from tests.cluster.story import COLOCATION, DESCHEDULER_CONFIG, EDGE, SPACE, WITHIN_S, Story, heard, nodes
from tests.crowd import crowd
from tests.docs.test_claims import UNUSED_BY_THE_DESCHEDULER, UNUSED_BY_THE_SCHEDULER
from tests.operate.install.test_rights import UNUSED_BY_THE_AGENT, UNUSED_BY_THE_MANAGER
from tests.waiting import eventually

log = logging.getLogger(__name__)

SETTINGS = Settings(image="koord:story", version="1")
NOT_IN_THE_STORY: dict[Component, frozenset[str]] = {
    # Beside what smaller stories with the same recorder do not show either: what they do show.
    MANAGER: UNUSED_BY_THE_MANAGER
    | {
        "patch nodes",
        "create events.events.k8s.io",
        "delete nodemetrics.slo.koordinator.sh",
        "delete nodeslos.slo.koordinator.sh",
    },
    SCHEDULER: UNUSED_BY_THE_SCHEDULER | {"delete pods"},
    DESCHEDULER: UNUSED_BY_THE_DESCHEDULER
    | {
        "delete pods",
        "patch deployments.apps",
        "patch pods",
        "patch pods/status",
        "read horizontalpodautoscalers.autoscaling",
    },
    AGENT: UNUSED_BY_THE_AGENT | {"create events.events.k8s.io"},
}
HAND_OVER_WITHIN_S = 20.0
VICTIMS: dict[str, tuple[Component, ...]] = {
    "lending": (MANAGER, AGENT),
    "batch": (MANAGER, SCHEDULER),
    "gang": (SCHEDULER,),
    "quota": (SCHEDULER,),
    "reservation": (SCHEDULER,),
    "devices": (SCHEDULER, AGENT),
    "churn": (MANAGER, SCHEDULER),
    "hot node": (DESCHEDULER, SCHEDULER),
    "switch": (MANAGER,),
}
"""The component that is killed in the middle of each step: the one that acts in it."""
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


@pytest.mark.timeout(600)
@ON_BOTH
async def test_an_installation_keeps_its_promises_with_the_rights_it_has_and_needs_them(
    server: str, tmp_path: Path
) -> None:
    with SERVERS[server](tmp_path) as place:
        async with installation(place, tmp_path, 1) as (story, _):
            await story.told()
        if place.audit is not None:
            rights_are_enough_and_little_more(place.audit)
            nothing_was_done_twice(place.audit)


def rights_are_enough_and_little_more(audit: Path) -> None:
    for component, record in recorded(audit).items():
        assert record.refused == [], component.name
        assert record.unused(rights_of(component, SETTINGS)) - NOT_IN_THE_STORY[component] == set(), component.name


def nothing_was_done_twice(audit: Path) -> None:
    done = times_done(audit, "pods/binding", "pods/eviction")
    assert {what: times for what, times in done.items() if times > 1} == {}
    assert len(done) > 20


@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("replicas", [1, 2])
@ON_BOTH
async def test_whoever_is_killed_in_the_middle_nothing_is_lost_and_nothing_is_done_twice(
    server: str, replicas: int, tmp_path: Path
) -> None:
    """One replica that is started again, as kubelet would; or two, and the leader is killed and the other one
    takes over."""
    took_s: list[float] = []
    with SERVERS[server](tmp_path) as place:
        async with installation(place, tmp_path, replicas) as (story, installed):

            async def kill(step: str) -> None:
                if step == "hot node":
                    await story.until("a move is under way", partial(_is_moving, story))
                for component in VICTIMS[step]:
                    took_s.append(await killed(installed, component))
                    log.info("%s killed in %r: another one leads after %.1f s", component.name, step, took_s[-1])

            story.middle = kill
            await story.told()
        if place.audit is not None:
            nothing_was_done_twice(place.audit)
            assert {record.refused == [] for record in recorded(place.audit).values()} == {True}
    if replicas > 1:
        assert max(took_s) < HAND_OVER_WITHIN_S * crowd(), took_s


async def _is_moving(story: Story) -> bool:
    return bool(await story.admin.list(POD_MIGRATION_JOBS))


async def killed(installed: Installed, component: Component) -> float:
    """Kills the leader, and starts it again when another one leads: how long that took. If there is no other one, it is
    started at once, and has to wait for its own old lease."""
    if component is AGENT:
        (agent,) = installed.of(AGENT)
        agent.kill()
        agent.start()
        return 0.0
    for replica in installed.of(component):
        await replica.until_ready()
    victim = installed.replica(await installed.leader(component))
    before = await installed.holder(component)
    alone = len(installed.of(component)) == 1
    began_s = time.monotonic()
    victim.kill()
    if alone:
        victim.start()

    async def another_leads() -> bool:
        return await installed.holder(component) not in (before, "")

    await eventually(another_leads, WITHIN_S)
    took_s = time.monotonic() - began_s
    if not alone:
        victim.start()
    return took_s
