"""Where the core gets its objects: an informer for every kind of `koord.scheduler.core.inputs`.

Several cores may be connected one after the other: each first receives all existing objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from koord.api import kinds
from koord.api.kinds import Kind
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.crd.node_slo import NodeSLOSpec
from koord.kube.clock import Clock
from koord.kube.informer import Handler, Informer
from koord.kube.informers import Informers
from koord.kube.malformed import MalformedTeller
from koord.kube.store import Delta
from koord.scheduler.core.core import Core
from koord.scheduler.core.inputs import INPUTS
from koord.scheduler.core.moment import Moment
from koord.scheduler.object_faults import ANNOTATED, FAULTS

OPTIONAL: Final[tuple[Kind[Any], ...]] = tuple(
    input_.kind for input_ in INPUTS if input_.optional and not input_.named_only
)
"""Koord's own kinds, which a cluster may not serve, or not yet."""
NAMED: Final[tuple[Kind[Any], ...]] = tuple(input_.kind for input_ in INPUTS if input_.named_only)
"""Kinds where only single objects are followed. The start does not wait for these: they are missing until received."""


class Sources:
    """All informers of the scheduler."""

    def __init__(self, informers: Informers, clock: Clock) -> None:
        self._informers, self._clock = informers, clock
        self._served = [input_.kind for input_ in INPUTS if not input_.optional]
        for kind in self._served:
            informers.get(kind)
        self.pods: Informer[Pod] = informers.get(kinds.PODS)
        self._teller: MalformedTeller | None = None
        self._telling: list[Callable[[], None]] = []
        "What ends telling of malformed annotations, by kind."
        self._single: set[tuple[Kind[Any], str, str]] = set()
        "Kind, namespace and name of objects that are followed one by one."

    def add(self, kind: Kind[Any]) -> None:
        """One of `OPTIONAL` is served here: the connected core, and every later one, receives its objects too."""
        self._informers.get(kind)
        self._served.append(kind)
        if self._teller is not None:
            self._tell(kind, self._teller)

    def node_metas(self) -> Iterable[ObjectMeta]:
        return [node.metadata for node in self._informers.get(kinds.NODES).list()]

    def slo_specs(self) -> Mapping[str, NodeSLOSpec]:
        """By node, how its agent protects services, as far as that is known."""
        if kinds.NODE_SLOS not in self._served:
            return {}
        return {slo.metadata.name: slo.spec for slo in self._informers.get(kinds.NODE_SLOS).list()}

    async def tell_malformed(self, teller: MalformedTeller) -> None:
        """Of all kinds whose labels and annotations are read, until `stop_telling`. Returns when existing objects are
        told; a new leader decides in between."""
        self._teller = teller
        for single in self._single:
            self._tell_single(single, teller)
        for kind in list(self._served):
            informer = self._informers.get(kind)
            for handler in _handlers(kind, teller):
                self._telling.append(informer.add_handler(handler, replay=False))
                await informer.replay(handler)

    def stop_telling(self) -> None:
        self._teller = None
        while self._telling:
            self._telling.pop()()

    def _tell(self, kind: Kind[Any], teller: MalformedTeller) -> None:
        for handler in _handlers(kind, teller):
            self._telling.append(self._informers.get(kind).add_handler(handler))

    def _tell_single(self, single: tuple[Kind[Any], str, str], teller: MalformedTeller) -> None:
        self._telling.append(self._of_single(single).add_handler(teller.hear_faults(single[0], FAULTS[single[0]])))

    def _of_single(self, single: tuple[Kind[Any], str, str]) -> Informer[Any]:
        kind, namespace, name = single
        return self._informers.get(kind, namespace=namespace, fields=f"metadata.name={name}")

    def connect(self, core: Core) -> Callable[[], None]:
        """Feeds from now on; returns what ends it. Kinds come in the order of the table."""
        singles = [(kind, *named) for kind in NAMED for named in sorted(core.feed.named(kind))]
        for single in singles:
            if single not in self._single:
                self._single.add(single)
                if self._teller is not None:
                    self._tell_single(single, self._teller)
        return together(
            *(self._feed(single[0], self._of_single(single), core) for single in singles),
            *(self.connect_added(input_.kind, core) for input_ in INPUTS if input_.kind in self._served),
        )

    def connect_added(self, kind: Kind[Any], core: Core) -> Callable[[], None]:
        return self._feed(kind, self._informers.get(kind), core)

    def _feed(self, kind: Kind[Any], informer: Informer[Any], core: Core) -> Callable[[], None]:
        def hear(delta: Delta[Any]) -> None:
            core.at(moment(self._clock))
            if delta.new is not None:
                core.put(kind, delta.new, delta.old)
            elif delta.old is not None:
                core.removed(kind, delta.old)

        return informer.add_handler(hear)


def moment(clock: Clock) -> Moment:
    """The time, for the core."""
    return Moment(clock.now(), clock.monotonic())


def together(*ends: Callable[[], None]) -> Callable[[], None]:
    """All of it, one after the other."""

    def end() -> None:
        for end in ends:
            end()

    return end


def _handlers(kind: Kind[Any], teller: MalformedTeller) -> Iterator[Handler[Any]]:
    if kind in ANNOTATED:
        yield teller.hear(kind)
    if kind in FAULTS:
        yield teller.hear_faults(kind, FAULTS[kind])
