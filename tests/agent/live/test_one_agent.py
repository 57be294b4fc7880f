"""A daemon is alone on its node, and says it where the node is not there."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from koord.agent.live.holding import HeldError
from koord.agent.live.run import AgentOptions, Daemon, run
from koord.api.kinds import EVENTS, NODES
from koord.kube.background_task import background_task
from tests.agent.live.test_daemon import DRIVER, NODE, FakeKubelet, ready_node, working
from tests.agent.trees import Tree
from tests.scheduler.live.embedded import node_manifest, serving
from tests.waiting import eventually


def options_for(tree: Tree, state: Path, address: str) -> AgentOptions:
    return AgentOptions(NODE, str(tree.root), "", state, address, kubelet_s=0.2, round_s=0.2)


async def test_a_second_daemon_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "host", driver=DRIVER)
    tree.cgroup("kubepods")
    kubelet = FakeKubelet([])
    async with serving(tmp_path / "api") as client, kubelet.serving() as address:
        await ready_node(client)
        options = options_for(tree, tmp_path / "state", address)

        async def is_asked_again(before: int) -> bool:
            return kubelet.asked > before

        async with working(client, options):
            for again in (options, replace(options, state_dir=tmp_path / "another")):
                with pytest.raises(HeldError, match="only one agent may act on a node"):
                    await run(client, again)
            await eventually(partial(is_asked_again, kubelet.asked))
        async with working(client, options):
            await eventually(partial(is_asked_again, kubelet.asked))


async def test_a_node_that_is_not_there_is_told_in_log_event_and_readiness_until_it_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tree = Tree(tmp_path / "host", driver=DRIVER)
    tree.cgroup("kubepods")
    daemons: list[Daemon] = []
    async with serving(tmp_path / "api") as client, FakeKubelet([]).serving() as address:
        await ready_node(client)
        options = replace(options_for(tree, tmp_path / "state", address), node="typo")

        async def is_told() -> bool:
            return any(event.reason == "NoSuchNode" for event in await client.list(EVENTS))

        async with working(client, options, daemons.append):
            await eventually(is_told)
            (daemon,) = daemons
            assert daemon.missing_node() == (
                "there is no Node typo: --node-name or $NODE_NAME must be the name of this host's Node"
            )
            assert "there is no Node typo" in caplog.text
            await client.create(NODES, node_manifest("typo"))
            await eventually(partial(_is_there, daemon))


async def _is_there(daemon: Daemon) -> bool:
    return daemon.missing_node() is None


async def test_a_daemon_waits_for_the_cgroup_that_is_its_node(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tree = Tree(tmp_path / "host", driver=DRIVER)

    async def is_told() -> bool:
        return "waiting for cgroup" in caplog.text

    async def make() -> None:
        await eventually(is_told)
        (tree.root / "sys/fs/cgroup/late").mkdir(parents=True)

    async with serving(tmp_path / "api") as client, FakeKubelet([]).serving() as address:
        await ready_node(client)
        options = replace(options_for(tree, tmp_path / "state", address), cgroup_root="late")
        async with background_task(make(), name="kubelet"), working(client, options):
            assert "--cgroup-root" in caplog.text
