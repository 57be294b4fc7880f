"""Evictions, carried out: through the API, so that budgets and graceful endings hold.

A refusal is told on the pod and tried again next round; only what was accepted counts as released.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from koord.agent.executor.audit import Audit
from koord.agent.qos.decision import Eviction
from koord.api.meta import ObjectReference
from koord.api.timestamp import from_seconds as timestamp
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.errors import ApiError, NotFound
from koord.kube.events import EventRecorder

log = logging.getLogger(__name__)


class Evictor:
    def __init__(
        self, client: Client, events: EventRecorder, audit: Audit, clock: Clock, done: Callable[[Eviction], None]
    ) -> None:
        self._client, self._events, self._audit, self._clock, self._done = client, events, audit, clock, done

    async def evict(self, eviction: Eviction) -> None:
        pod = eviction.pod
        regarding = ObjectReference(
            kind="Pod", api_version="v1", namespace=pod.meta.namespace, name=pod.meta.name, uid=pod.uid
        )
        note = f"{eviction.by}: {eviction.why}"
        try:
            await self._client.evict(pod.meta.namespace, pod.meta.name, uid=pod.uid)
        except NotFound:
            self._done(eviction)
        except ApiError as error:
            self._audit_of("refused", eviction, f"{note}; refused: {error}")
            self._events.record(regarding, "evictPodFail", f"{note}; {error}", action="Evicting", type="Warning")
            log.warning("cannot evict %s: %s", pod.key, error)
        else:
            self._done(eviction)
            self._audit_of("evict", eviction, note)
            self._events.record(regarding, "evictPodSuccess", note, action="Evicting", type="Warning")
            log.info("evicted %s: %s", pod.key, note)

    def _audit_of(self, type: str, eviction: Eviction, message: str) -> None:
        meta = eviction.pod.meta
        self._audit.add(
            timestamp(self._clock.now()), type, eviction.by, message, namespace=meta.namespace, name=meta.name
        )
