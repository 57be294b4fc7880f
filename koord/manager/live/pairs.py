"""The pairs loop: keeps an InterferencePair for each two workloads that agents found to disturb each other.

All that nodes tell is looked at each time, together with what is stored: a report that was missed while another
manager led is heard with the next look.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Iterator
from typing import Any, Final

import msgspec

from koord.api.kinds import INTERFERENCE_PAIRS
from koord.api.protocol.crd.interference_pair import InterferencePair, InterferencePairStatus
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.controller import Controller, Requeue
from koord.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from koord.kube.informer import Informer
from koord.kube.store import Delta
from koord.manager.live.metrics import ManagerMetrics
from koord.manager.live.records import MetricRecord
from koord.manager.live.sources import Sources
from koord.manager.pairs.learning import Heard, known_of, learn, object_of
from koord.manager.writes import FIELD_MANAGER

NAME: Final = "interferencepair"
ALL: Final = "pairs"
"""The only key: what is kept of one pair depends on all others."""
LOOK_S: Final = 600.0
"""How often weights are looked at that only fade."""


class PairsLoop:
    def __init__(self, client: Client, sources: Sources, clock: Clock, metrics: ManagerMetrics) -> None:
        self._client, self._sources, self._clock, self._metrics = client, sources, clock, metrics
        self._objects: Informer[InterferencePair] | None = None
        self.controller: Controller[str] = Controller(
            NAME,
            self._reconcile,
            workers=1,
            queue_observer=metrics.metrics.queue(NAME),
            observer=metrics.metrics.reconciler(NAME),
        )
        self.controller.watch(sources.metrics, _news)
        sources.when_there("pairs", self._follow)

    def stop_listening(self) -> None:
        """Nothing but what the controller watches."""

    def _follow(self, informer: Informer[InterferencePair]) -> None:
        self._objects = informer
        self.controller.watch(informer, lambda delta: (ALL,))

    async def _reconcile(self, key: str) -> Requeue | None:
        if self._objects is None:
            return None
        objects = known_of(self._objects.list())
        stored = {pair: status for pair, (_, status) in objects.items()}
        learnt = learn(stored, self._heard(), self._clock.now())
        is_late, failed = False, list[ApiError]()
        for pair, status in learnt.put.items():
            try:
                if pair in objects:
                    await self._counted("update", self._patch(objects[pair][0], status))
                else:
                    body = INTERFERENCE_PAIRS.manifest(object_of(pair, status))
                    create = self._client.create(INTERFERENCE_PAIRS, body, field_manager=FIELD_MANAGER)
                    await self._counted("create", create)
            except (AlreadyExists, Conflict, NotFound):
                # The informer is about to tell.
                is_late = True
            except ApiError as error:
                failed.append(error)
        for pair in learnt.gone:
            meta = objects[pair][0].metadata
            try:
                await self._counted("delete", self._client.delete(INTERFERENCE_PAIRS, meta.name, uid=meta.uid))
            except NotFound:
                continue
            except ApiError as error:
                failed.append(error)
        if failed:
            # After all others: a pair that the API does not take is no other pair's business.
            raise failed[0]
        if is_late:
            return Requeue()
        return Requeue(LOOK_S) if stored or learnt.put else None

    def _heard(self) -> Iterator[Heard]:
        for record in self._sources.metrics.list():
            for blame in record.blames:
                yield Heard(record.row.name, blame)

    async def _patch(self, pair: InterferencePair, status: InterferencePairStatus) -> None:
        meta = pair.metadata
        patch = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": {"weight": 0, "weightWhenSeen": 0, **msgspec.to_builtins(status)},
        }
        await self._client.patch(INTERFERENCE_PAIRS, meta.name, patch, field_manager=FIELD_MANAGER)

    async def _counted(self, verb: str, call: Coroutine[Any, Any, Any]) -> None:
        reason = f"{verb}InterferencePair"
        try:
            await call
        except (AlreadyExists, NotFound, Conflict):
            raise
        except ApiError:
            self._metrics.wrote(NAME, reason, ok=False)
            raise
        self._metrics.wrote(NAME, reason)


def _news(delta: Delta[MetricRecord]) -> Iterable[str]:
    """Most reports have no blame."""
    new = delta.new
    if new is None or not new.blames or (delta.old is not None and delta.old.blames == new.blames):
        return ()
    return (ALL,)
