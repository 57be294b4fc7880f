"""slo-controller-config as it is in force: the last good value of every section.

What cannot be used is told in an event and in a condition on the ConfigMap, and changes nothing. Deleting the ConfigMap
leaves in force what was: taking back everything that is lent is a decision, and has its own switch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from koord.api.configuration.slo_config import Problem, SloConfig, reload
from koord.api.configuration.threshold_order import usable
from koord.api.kinds import CONFIG_MAPS
from koord.api.kubernetes.core import ConfigMap
from koord.api.protocol import names
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.controller import Controller, Requeue
from koord.kube.errors import NotFound
from koord.kube.events import EventRecorder, reference
from koord.kube.informer import Informer
from koord.kube.informers import Informers
from koord.kube.store import Delta
from koord.manager.config_condition import wanted
from koord.manager.writes import FIELD_MANAGER

log = logging.getLogger(__name__)

KEY: Final = f"{names.NAMESPACE_KOORDINATOR}/{names.CONFIGMAP_SLO_CONTROLLER}"


class Configuration:
    """What is in force. Every replica follows it; handlers hear when it has changed."""

    def __init__(self, informers: Informers) -> None:
        self.current = SloConfig(colocation_state="unavailable")
        self.problems: tuple[Problem, ...] = ()
        self.unusable: frozenset[str] = frozenset()
        "Sections that cannot be read, and of which there is no last good value."
        self.informer: Informer[ConfigMap] = informers.get(
            CONFIG_MAPS,
            namespace=names.NAMESPACE_KOORDINATOR,
            fields=f"metadata.name={names.CONFIGMAP_SLO_CONTROLLER}",
        )
        self._seen = False
        self._good: set[str] = set()
        self._handlers: list[Callable[[], None]] = []
        self.informer.add_handler(self._hear)

    async def synced(self) -> None:
        """Returns when it is known what is in force."""
        await self.informer.synced()
        if not self._seen:
            # There is no such map: the defaults hold.
            self.current, _ = reload(None, None)

    def add_handler(self, handler: Callable[[], None]) -> Callable[[], None]:
        """`handler` is called after every change of what is in force. Returns what takes it away again."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    def _hear(self, delta: Delta[ConfigMap]) -> None:
        found = delta.new
        if found is None:
            log.warning("%s is gone: what was in force stays", KEY)
            return
        before = self.current, self.unusable
        old = self.current if self._seen else None
        read, problems = reload(old, found.data)
        self.current, disorder, mended = usable(old, read)
        self.problems = (*problems, *disorder)
        self._seen = True
        bad = {each.key for each in self.problems if each.keeps_old}
        self._good |= set(found.data) - bad
        self.unusable = frozenset(bad - self._good)
        for problem in self.problems:
            log.warning("%s: %s", KEY, problem)
        for each in mended:
            log.warning("%s: %s", KEY, each)
        if (self.current, self.unusable) != before:
            log.info("the configuration has changed", extra={"version": found.metadata.resource_version})
            for handler in list(self._handlers):
                handler()


class ConfigurationTeller:
    """Tells on the ConfigMap what is wrong with it. The leader's work."""

    def __init__(self, client: Client, configuration: Configuration, events: EventRecorder, clock: Clock) -> None:
        self._client, self._configuration, self._events, self._clock = client, configuration, events, clock
        self._told: tuple[str, tuple[Problem, ...]] | None = None
        self.controller: Controller[str] = Controller("slo-config", self._reconcile)
        self.controller.watch(configuration.informer, lambda delta: (delta.key,))

    async def _reconcile(self, key: str) -> Requeue | None:
        found = self._configuration.informer.get(key)
        if found is None:
            return None
        problems = self._configuration.problems
        said = (found.metadata.uid, problems)
        if problems and said != self._told:
            for each in problems:
                self._events.record(reference(CONFIG_MAPS, found), each.event_reason, str(each), type="Warning")
        self._told = said
        annotations = wanted(found, problems, self._clock.now())
        if annotations is None:
            return None
        patch = {"metadata": {"uid": found.metadata.uid, "annotations": dict(annotations)}}
        meta = found.metadata
        try:
            await self._client.patch(
                CONFIG_MAPS, meta.name, patch, namespace=meta.namespace, field_manager=FIELD_MANAGER
            )
        except NotFound:
            return None
        return None
