"""Runs the demo's story in a cluster: creates the initial objects, then submits jobs when they are due.

In a cluster that has run the demo before, the story continues: existing objects stay, and job numbers continue.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any, Final

from koord.api.kinds import CONFIG_MAPS, JOBS, NODES, Kind
from koord.api.protocol.names import CONFIGMAP_SLO_CONTROLLER, NAMESPACE_KOORDINATOR
from koord.kube.client import Client
from koord.kube.clock import Clock, SystemClock
from koord.kube.errors import AlreadyExists, Unavailable
from koord_minicluster.demo.scenario import LABEL_POOL, TENANTS, Json, Scenario
from koord_minicluster.demo.settings import colocation
from koord_minicluster.demo.story import Submission, due, numbers_after
from koord_minicluster.kubelet.live.parallel import for_each

FIELD_MANAGER: Final = "koord-demo"
LOOK_S: Final = 1.0
AT_ONCE: Final = 8


class Telling:
    def __init__(self, client: Client, scenario: Scenario, clock: Clock | None = None) -> None:
        self._client, self._scenario = client, scenario
        self._clock: Clock = clock or SystemClock()

    async def run(self) -> None:
        """Runs the story until cancelled."""
        began_s = self._clock.monotonic()
        await self._prepare()
        first = numbers_after([job.metadata.name for job in await self._client.list(JOBS)])
        submitted: Counter[Any] = Counter()
        while True:
            with suppress(Unavailable):
                active = await self._active()
                for submission in due(self._clock.monotonic() - began_s, submitted, active, first):
                    await self._submit(submission)
                    submitted[submission.shape] += 1
            await self._clock.sleep(LOOK_S)

    async def _prepare(self) -> None:
        settings = {"data": colocation().manifest_data()}
        await self._client.patch(
            CONFIG_MAPS,
            CONFIGMAP_SLO_CONTROLLER,
            settings,
            namespace=NAMESPACE_KOORDINATOR,
            field_manager=FIELD_MANAGER,
        )
        await for_each(list(self._scenario.pools().items()), self._label, at_once=AT_ONCE)
        for manifest in self._scenario.foundation():
            await self._create(*manifest)

    async def _label(self, pool: tuple[str, str]) -> None:
        name, label = pool
        await self._client.patch(
            NODES, name, {"metadata": {"labels": {LABEL_POOL: label}}}, field_manager=FIELD_MANAGER
        )

    async def _active(self) -> int:
        """Jobs of research that are not done."""
        jobs = await self._client.list(JOBS, namespace=TENANTS[0])
        return sum(job.metadata.deletion_timestamp is None and not _is_done(job.status.conditions) for job in jobs)

    async def _submit(self, submission: Submission) -> None:
        await self._create(JOBS, self._scenario.job(submission.shape, submission.number))

    async def _create(self, kind: Kind[Any], manifest: Json) -> None:
        with suppress(AlreadyExists):
            await self._client.create(kind, manifest, field_manager=FIELD_MANAGER)


def _is_done(conditions: Any) -> bool:
    return any(condition.type in ("Complete", "Failed") and condition.status == "True" for condition in conditions)
