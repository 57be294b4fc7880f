"""The recommendation loop: adds what nodes report to the history of workloads, and keeps Recommendation objects.

Histories live in memory and, written hourly, in the objects' own status: the next leader continues from there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from zlib import crc32

import msgspec

from koord.api.kinds import RECOMMENDATIONS
from koord.api.kubernetes.owners import Workload
from koord.api.protocol.crd.recommendation import Recommendation, RecommendationStatus
from koord.api.protocol.recommendation_target import Target, target_of
from koord.api.protocol.report_age import report_age_s
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.controller import Controller, Requeue
from koord.kube.errors import ApiError, Conflict, NotFound
from koord.kube.events import EventRecorder, reference
from koord.kube.informer import Informer
from koord.kube.store import Delta
from koord.manager.live.metrics import ManagerMetrics
from koord.manager.live.sources import Sources
from koord.manager.recommend.history import Amounts, ContainerHistory
from koord.manager.recommend.pods import PodFacts
from koord.manager.recommend.reports import UsageReport, is_plausible
from koord.manager.recommend.status import (
    Histories,
    HistoryError,
    count_kills,
    forget_gone,
    is_due,
    is_settled,
    remembered,
    wanted_status,
)
from koord.manager.writes import FIELD_MANAGER

log = logging.getLogger(__name__)

NAME: Final = "recommendation"
K = TypeVar("K")

WORKERS: Final = 4


@dataclass(frozen=True, slots=True)
class RecommendationPace:
    look_s: float = 60.0
    "How often each object is looked at."
    stale_s: float = 900.0
    "A report that is older says nothing of the present, whenever it is heard."


@dataclass(slots=True)
class _Tracked:
    """One Recommendation."""

    uid: str
    target: Target
    histories: Histories
    status: RecommendationStatus
    "As it was last read or written."
    is_settled: bool = False


class RecommendationLoop:
    def __init__(
        self,
        client: Client,
        sources: Sources,
        events: EventRecorder,
        clock: Clock,
        metrics: ManagerMetrics,
        *,
        pace: RecommendationPace,
    ) -> None:
        self._client, self._sources, self._events, self._clock = client, sources, events, clock
        self._metrics, self._pace = metrics, pace
        self._objects: Informer[Recommendation] | None = None
        self._tracked: dict[str, _Tracked] = {}
        self._of_workload: dict[Workload, set[str]] = {}
        self._with_selector: dict[str, set[str]] = {}
        "By namespace."
        self._largest_known: Amounts | None = None
        self._largest_until_s = float("-inf")
        self._forget: list[Callable[[], None]] = []
        self.controller: Controller[str] = Controller(
            NAME,
            self._reconcile,
            workers=WORKERS,
            queue_observer=metrics.metrics.queue(NAME),
            observer=metrics.metrics.reconciler(NAME),
        )
        self.controller.watch(sources.nodes, lambda delta: ())
        sources.when_there("recommendations", self._follow)

    def stop_listening(self) -> None:
        for forget in self._forget:
            forget()
        self._forget.clear()
        self._sources.usage.wanted = lambda key: None

    def _follow(self, informer: Informer[Recommendation]) -> None:
        self._objects = informer
        self.controller.watch(informer, lambda delta: (delta.key,))

    def _listen(self) -> None:
        """From the first Recommendation on."""
        if not self._forget:
            self._sources.usage.wanted = self._wanted
            pods, reports = self._sources.usage.start()
            self._forget = [pods.add_handler(self._hear_pod), reports.add_handler(self._hear_report)]

    def _wanted(self, key: str) -> PodFacts | None:
        pods = self._sources.usage.pods
        pod = None if pods is None else pods.get(key)
        return pod if pod is not None and next(iter(self._keys(pod)), None) is not None else None

    def _keys(self, pod: PodFacts) -> Iterable[str]:
        """The Recommendations that are about a pod."""
        for workload in pod.workloads:
            yield from self._of_workload.get(workload, ())
        for key in self._with_selector.get(pod.namespace, ()):
            if pod.is_of(self._tracked[key].target):
                yield key

    def _hear_pod(self, delta: Delta[PodFacts]) -> None:
        old, new = delta.old, delta.new
        if old is not None and new is not None and _same(old, new):
            return
        for pod in (old, new):
            for key in () if pod is None else list(self._keys(pod)):
                self.controller.add(key)

    def _hear_report(self, delta: Delta[UsageReport]) -> None:
        report, old = delta.new, delta.old
        now_s = self._clock.now()
        if report is None or report_age_s(report.updated_s, now_s) > self._pace.stale_s:
            return
        if old is not None and old.updated_s == report.updated_s:
            return
        node, pods = self._sources.nodes.get(report.node), self._sources.usage.pods
        if node is None or pods is None:
            return
        capacity = node.facts.capacity
        for usage in report.usage:
            pod = pods.get(usage.pod)
            # A new pod of that name may be on another node by now.
            if pod is None or not pod.is_ready or pod.node != report.node:
                continue
            if not is_plausible(usage.used, capacity.cpu_milli, capacity.memory_bytes):
                log.warning("%s of %s reports more than %s has, which is ignored", usage.container, pod.key, pod.node)
                continue
            for key in self._keys(pod):
                tracked = self._tracked[key]
                if tracked.is_settled:
                    history = tracked.histories.setdefault(usage.container, ContainerHistory.new())
                    history.add(*usage.used, now_s)

    async def _reconcile(self, key: str) -> Requeue | None:
        recommendation = None if self._objects is None else self._objects.get(key)
        if recommendation is None:
            self._drop(key)
            return None
        self._listen()
        pods_informer, _ = self._sources.usage.start()
        await pods_informer.synced()
        tracked = self._track(key, recommendation)
        target = tracked.target
        all_pods = self._pods_of(target)
        pods = [pod for pod in all_pods if not pod.has_failed]
        tracked.is_settled = is_settled(pods)
        now_s = self._clock.now()
        count_kills(tracked.histories, all_pods, self._node_bytes, now_s)
        forget_gone(tracked.histories, pods)
        wanted = wanted_status(target, pods, tracked.histories, tracked.status, now_s, self._largest())
        if is_due(tracked.status, wanted, now_s, crc32(tracked.uid.encode()) / 2**32):
            try:
                await self._write(recommendation, wanted)
            except NotFound:
                return None
            except Conflict:
                return Requeue()
            tracked.status = wanted
        return Requeue(self._pace.look_s)

    def _pods_of(self, target: Target) -> list[PodFacts]:
        usage = self._sources.usage
        if target.workload is not None:
            return usage.of_workload(target.workload)
        return [pod for pod in usage.in_namespace(target.namespace) if pod.is_of(target)]

    def _node_bytes(self, name: str) -> int | None:
        node = self._sources.nodes.get(name)
        return None if node is None else node.facts.capacity.memory_bytes

    def _largest(self) -> Amounts | None:
        """Of each resource what the largest node can give; asked once for all objects that are looked at together."""
        now_s = self._clock.monotonic()
        if now_s >= self._largest_until_s:
            node_amounts = [node.facts.for_pods for node in self._sources.nodes.list()]
            largest = Amounts(
                max((n.cpu_milli for n in node_amounts), default=0),
                max((n.memory_bytes for n in node_amounts), default=0),
            )
            self._largest_known = largest if min(largest) > 0 else None
            self._largest_until_s = now_s + self._pace.look_s
        return self._largest_known

    def _track(self, key: str, recommendation: Recommendation) -> _Tracked:
        tracked, target = self._tracked.get(key), target_of(recommendation)
        if tracked is not None and tracked.uid == recommendation.metadata.uid:
            if tracked.target.identity != target.identity or tracked.target.fault != target.fault:
                self._unindex(key, tracked.target)
                self._index(key, target)
                # The past of other pods says nothing of these.
                tracked.target, tracked.histories = target, {}
            return tracked
        if tracked is not None:
            self._unindex(key, tracked.target)
        try:
            histories = remembered(recommendation.status, target)
        except HistoryError as error:
            text = f"{error}; the history starts again"
            self._events.record(reference(RECOMMENDATIONS, recommendation), "HistoryLost", text, type="Warning")
            histories = {}
        made = self._tracked[key] = _Tracked(recommendation.metadata.uid, target, histories, recommendation.status)
        self._index(key, target)
        return made

    def _index(self, key: str, target: Target) -> None:
        if target.workload is not None:
            self._of_workload.setdefault(target.workload, set()).add(key)
        elif target.selects is not None:
            self._with_selector.setdefault(target.namespace, set()).add(key)

    def _unindex(self, key: str, target: Target) -> None:
        if target.workload is not None:
            _discard(self._of_workload, target.workload, key)
        else:
            _discard(self._with_selector, target.namespace, key)

    def _drop(self, key: str) -> None:
        tracked = self._tracked.pop(key, None)
        if tracked is not None:
            self._unindex(key, tracked.target)

    async def _write(self, recommendation: Recommendation, wanted: RecommendationStatus) -> None:
        # A merge patch leaves alone what it does not name.
        status: dict[str, Any] = {"podStatus": None, "conditions": [], "history": ""}
        patch = {"metadata": {"uid": recommendation.metadata.uid}, "status": status | msgspec.to_builtins(wanted)}
        meta = recommendation.metadata
        try:
            await self._client.patch(
                RECOMMENDATIONS,
                meta.name,
                patch,
                namespace=meta.namespace,
                subresource="status",
                field_manager=FIELD_MANAGER,
            )
        except ApiError:
            self._metrics.wrote(NAME, "updateRecommendationStatus", ok=False)
            raise
        self._metrics.wrote(NAME, "updateRecommendationStatus")


def _discard(index: dict[K, set[str]], of: K, key: str) -> None:
    keys = index.get(of, set())
    keys.discard(key)
    if not keys:
        index.pop(of, None)


def _same(old: PodFacts, new: PodFacts) -> bool:
    return (old.revision, old.is_ready, old.kills, old.containers, old.has_failed) == (
        new.revision,
        new.is_ready,
        new.kills,
        new.containers,
        new.has_failed,
    )
