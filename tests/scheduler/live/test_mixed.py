"""A random story with all that the scheduler has, on an API server, judged by its objects alone.

The same script and checker as in memory (`koord_chaos.stories`). KOORD_STORIES=100 plays N; the usual number is
small.
"""

from __future__ import annotations

import os
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from koord.api.kinds import NAMESPACES, PODS, PRIORITY_CLASSES, Kind
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists, NotFound
from koord.kube.locate import locate
from koord.scheduler.core.entity import Where
from koord.scheduler.live.run import Runner
from koord_chaos.invariants.invariant import violations
from koord_chaos.invariants.moment import Witness
from koord_chaos.invariants.placing import PARENT_QUOTAS, PLACING
from koord_chaos.invariants.resting import RESTING
from koord_chaos.invariants.resting import Rest as AtRest
from koord_chaos.stories.actions import KINDS, Action, Change, Drop, Has, Put, Rest, Restart
from koord_chaos.stories.dice import Dice
from koord_chaos.stories.features import ALL
from koord_chaos.stories.memory import World, in_full, in_words
from koord_chaos.stories.script import NAMESPACE, OTHER_NAMESPACE, Script, priority_classes
from koord_minicluster.up.bootstrap import bootstrap
from tests.control_plane import ControlPlane
from tests.scheduler.live.embedded import serving
from tests.scheduler.live.witness import following
from tests.waiting import eventually

STORIES = int(os.environ.get("KOORD_STORIES", "1"))
ACTIONS = 30
FEATURES = tuple(feature for feature in ALL if feature.name != "overhead")
"""A server takes overhead only with a RuntimeClass."""
QUIET = (Where.UNSCHEDULABLE, Where.GATED)


class Story:
    """One story: what the API server has, and the scheduler that is running."""

    def __init__(self, client: Client, seed: int) -> None:
        self.client, self.seed = client, seed
        self.script, self.witness = Script(Dice(seed), FEATURES), Witness()
        self.lines: list[str] = []
        self._running = AsyncExitStack()
        self._runner: Runner | None = None

    async def play(self) -> None:
        try:
            for each in priority_classes():
                await self.client.create(PRIORITY_CLASSES, each)
            for action in self.script.begin():
                await self._act(action)
            await self._start()
            for _ in range(ACTIONS):
                for action in self.script.next(_manifests(await self._things())):
                    await self._act(action)
            await self._act(Rest())
        finally:
            await self._running.aclose()

    async def _start(self) -> None:
        await self._running.aclose()
        self._runner = await self._running.enter_async_context(following(self.client))

    async def _things(self) -> dict[Kind[Any], list[Any]]:
        return {kind: list(await self.client.list(kind)) for kind in KINDS}

    async def _act(self, action: Action) -> None:
        if isinstance(action, Put | Change | Drop) and action.lessens:
            await self._rest()
        self.lines.append(in_words(action))
        match action:
            case Put(kind, manifest):
                with suppress(AlreadyExists):
                    await self.client.create(kind, manifest)
            case Change(kind, key, body, subresource):
                namespace, _, name = key.rpartition("/")
                way: Any = {"type": "strategic"} if kind is PODS else {}
                with suppress(NotFound):
                    await self.client.patch(kind, name, body, namespace=namespace, subresource=subresource, **way)
            case Drop(kind, key):
                namespace, _, name = key.rpartition("/")
                with suppress(NotFound):
                    await self.client.delete(kind, name, namespace=namespace)
            case Restart():
                await self._start()
            case Rest():
                await self._rest()

    async def _rest(self) -> None:
        """Until the scheduler has nothing to do, and whatever is found then is as it should be."""
        if self._runner is None:
            return
        await eventually(self._is_quiet)
        faults: list[str] = []

        async def is_well() -> bool:
            faults[:] = await self._faults() if await self._is_quiet() else ["the scheduler does not come to rest"]
            return not faults

        try:
            # A change may not have arrived yet. A pod that waits in vain would do so for minutes.
            await eventually(is_well)
        except TimeoutError:
            raise AssertionError(f"seed {self.seed}:\n{in_full(faults)}\n\n{in_full(self.lines)}") from None

    async def _is_quiet(self) -> bool:
        """Whether nothing is under way and no pod is ready, with all pods received."""
        assert self._runner is not None
        core = self._runner.core
        assert core is not None
        if core.assumed or core.waiting() or any(attempt.where not in QUIET for attempt in core.queue):
            return False
        pods = await self.client.list(PODS)
        bound = {pod.metadata.key for pod in pods if pod.spec.node_name and not pod.is_finished}
        waiting = {pod.metadata.key for pod in pods if not pod.spec.node_name and not pod.is_finished}
        queued = {ask.key for attempt in core.queue for ask in attempt.entity.pods}
        nodes = core.cluster.table.row_of
        there = {pod.metadata.key for pod in pods if pod.spec.node_name in nodes and pod.metadata.key in bound}
        return there <= core.cluster.pods.keys() and waiting <= queued

    async def _faults(self) -> list[str]:
        things = await self._things()
        objects = {kind.kind: list(all_.values()) for kind, all_ in _manifests(things).items()}
        world = World(Dice(self.seed))
        world.now_s = time.time()
        for kind, all_ in things.items():
            world.things[kind] = {thing.metadata.key: thing for thing in all_}
        binds = world.would_bind()
        if binds:
            return [f"a fresh scheduler would bind {pod}" for pod in binds]
        moment = self.witness.look(objects)
        placing = [invariant for invariant in PLACING if invariant is not PARENT_QUOTAS]
        return [*violations(placing, moment), *violations(RESTING, AtRest(moment))]


def _manifests(things: dict[Kind[Any], list[Any]]) -> Has:
    return {kind: {thing.metadata.key: kind.manifest(thing) for thing in all_} for kind, all_ in things.items()}


@pytest.mark.parametrize("seed", range(STORIES))
async def test_whatever_happens_on_a_server_everybody_gets_what_is_theirs(seed: int, tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        await _play_on(client, seed)


@pytest.mark.cluster
@pytest.mark.parametrize("seed", range(STORIES))
async def test_whatever_happens_on_a_real_control_plane_everybody_gets_what_is_theirs(seed: int) -> None:
    flags = ("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",)
    with ControlPlane(*flags) as plane:
        async with Client(locate(str(plane.kubeconfig))) as client:
            await _play_on(client, seed)


async def _play_on(client: Client, seed: int) -> None:
    await bootstrap(client)
    for namespace in (NAMESPACE, OTHER_NAMESPACE):
        with suppress(AlreadyExists):
            await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    await Story(client, seed).play()
