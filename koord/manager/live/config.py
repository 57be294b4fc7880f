"""The slo-controller-config in force: the last good value of every section.

An unusable section is reported in an event and in a condition on the ConfigMap, and changes nothing; the configuration
in force is published in a ConfigMap of the manager's own. Deleting the ConfigMap keeps the configuration in force:
taking back all lent resources is a decision with its own switch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from koord.api.configuration.slo_config import Problem, SloConfig, reload
from koord.api.kinds import CONFIG_MAPS
from koord.api.kubernetes.core import ConfigMap
from koord.api.protocol import names
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.controller import Controller, Requeue
from koord.kube.errors import AlreadyExists, NotFound
from koord.kube.events import EventRecorder, reference
from koord.kube.informer import Informer
from koord.kube.informers import Informers
from koord.kube.store import Delta
from koord.manager.config_condition import wanted
from koord.manager.config_in_force import PUBLISHED, STORED, InForce, in_force, last_valid, to_publish
from koord.manager.writes import FIELD_MANAGER

log = logging.getLogger(__name__)


class Configuration:
    """The configuration in force. Every replica follows it; handlers are called when it changes."""

    def __init__(self, informers: Informers) -> None:
        self.current = SloConfig(colocation_state="unavailable")
        self.problems: tuple[Problem, ...] = ()
        self.unusable: frozenset[str] = frozenset()
        "Sections that cannot be read and have no last good value."
        self.to_publish: dict[str, str] | None = None
        "What is in force, for others; None where that is what is stored."
        self.informer = _follow(informers, names.CONFIGMAP_SLO_CONTROLLER)
        self.published = _follow(informers, names.CONFIGMAP_SLO_IN_FORCE)
        self._seen = False
        self._good: set[str] = set()
        self._handlers: list[Callable[[], None]] = []
        self.informer.add_handler(self._hear)

    @property
    def faults(self) -> int:
        """The number of stored sections that cannot be used."""
        return len({problem.key for problem in self.problems if problem.keeps_old})

    async def synced(self) -> None:
        """Returns when it is known what is in force."""
        await self.informer.synced()
        await self.published.synced()
        stored, published = self.informer.get(STORED), self.published.get(PUBLISHED)
        if stored is None:
            # Without the map, the defaults apply.
            self.current, _ = reload(None, None)
        elif published is not None and self.to_publish is not None:
            # An earlier manager knew a valid value of a section that is stored invalid.
            self._take(stored, in_force(last_valid(published.data), stored.data))
            self._good |= set(published.data)
            self.unusable -= set(published.data)

    def add_handler(self, handler: Callable[[], None]) -> Callable[[], None]:
        """`handler` is called after every change of what is in force. Returns what takes it away again."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    def _hear(self, delta: Delta[ConfigMap]) -> None:
        config_map = delta.new
        if config_map is None:
            log.warning("%s is gone: what was in force stays", STORED)
            return
        before = self.current, self.unusable
        self._take(config_map, in_force(self.current if self._seen else None, config_map.data))
        if (self.current, self.unusable) != before:
            log.info("the configuration has changed", extra={"version": config_map.metadata.resource_version})
            for handler in list(self._handlers):
                handler()

    def _take(self, config_map: ConfigMap, now: InForce) -> None:
        self.current, self.problems = now.config, now.problems
        self.to_publish = to_publish(now)
        self._seen = True
        bad = {problem.key for problem in self.problems if problem.keeps_old}
        self._good |= set(config_map.data) - bad
        self.unusable = frozenset(bad - self._good)
        for problem in self.problems:
            log.warning("%s: %s", STORED, problem)
        for correction in now.mended:
            log.warning("%s: %s", STORED, correction)


def _follow(informers: Informers, name: str) -> Informer[ConfigMap]:
    return informers.get(CONFIG_MAPS, namespace=names.NAMESPACE_KOORDINATOR, fields=f"metadata.name={name}")


class ConfigurationTeller:
    """Tells on the ConfigMap what is wrong with it, and elsewhere what is in force instead. The leader's work."""

    def __init__(self, client: Client, configuration: Configuration, events: EventRecorder, clock: Clock) -> None:
        self._client, self._configuration, self._events, self._clock = client, configuration, events, clock
        self._told: tuple[str, tuple[Problem, ...]] | None = None
        self.controller: Controller[str] = Controller("slo-config", self._reconcile)
        self.controller.watch(configuration.informer, lambda delta: (STORED,))
        self.controller.watch(configuration.published, lambda delta: (STORED,))

    async def _reconcile(self, _key: str) -> Requeue | None:
        config_map = self._configuration.informer.get(STORED)
        if config_map is None:
            return None
        await self._publish()
        problems = self._configuration.problems
        said = (config_map.metadata.uid, problems)
        if problems and said != self._told:
            for problem in problems:
                self._events.record(
                    reference(CONFIG_MAPS, config_map), problem.event_reason, str(problem), type="Warning"
                )
        self._told = said
        annotations = wanted(config_map, problems, self._clock.now())
        if annotations is None:
            return None
        patch = {"metadata": {"uid": config_map.metadata.uid, "annotations": dict(annotations)}}
        meta = config_map.metadata
        try:
            await self._client.patch(
                CONFIG_MAPS, meta.name, patch, namespace=meta.namespace, field_manager=FIELD_MANAGER
            )
        except NotFound:
            return None
        return None

    async def _publish(self) -> None:
        """Says what is in force while that is not what is stored."""
        wanted, present = self._configuration.to_publish, self._configuration.published.get(PUBLISHED)
        name, namespace = names.CONFIGMAP_SLO_IN_FORCE, names.NAMESPACE_KOORDINATOR
        try:
            if wanted is None and present is not None:
                await self._client.delete(CONFIG_MAPS, name, namespace=namespace, uid=present.metadata.uid)
            elif wanted is not None and present is None:
                body = {"metadata": {"name": name, "namespace": namespace}, "data": wanted}
                await self._client.create(CONFIG_MAPS, body, field_manager=FIELD_MANAGER)
            elif wanted is not None and present is not None and present.data != wanted:
                gone = dict.fromkeys(present.data.keys() - wanted.keys())
                patch = {"metadata": {"uid": present.metadata.uid}, "data": {**gone, **wanted}}
                await self._client.patch(CONFIG_MAPS, name, patch, namespace=namespace, field_manager=FIELD_MANAGER)
        except (AlreadyExists, NotFound):
            # Created or deleted concurrently: the informer will report it.
            return
