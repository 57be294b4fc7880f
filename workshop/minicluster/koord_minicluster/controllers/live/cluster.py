"""What all loops share: the views of the cluster, the writer, the clock.

A view is asked for by kind; all loops that ask for a kind get the same one. Pods and ReplicaSets are indexed by who
manages them, orphans by their namespace, so that no loop ever looks through all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from koord.api.kinds import PODS, Kind
from koord.api.kubernetes.core import Pod
from koord.api.kubernetes.meta import ObjectReference
from koord.api.text.selector import LabelMatcher
from koord.api.workloads.new_pods import managing
from koord.kube.client import Client
from koord.kube.clock import Clock, SystemClock
from koord.kube.controller import Controller
from koord.kube.errors import ApiError, Conflict, Invalid, NotFound
from koord.kube.events import EventRecorder
from koord.kube.informers import Informers
from koord.kube.store import Delta
from koord_minicluster.controllers.actions import Patch
from koord_minicluster.controllers.live.view import View
from koord_minicluster.controllers.live.writer import Writer
from koord_minicluster.controllers.ownership import HasMetadata, adopt, claims, release

T = TypeVar("T", bound=HasMetadata)

MANAGER = "manager"
ORPHANS = "orphans"
NAMESPACE = "namespace"
NODE = "node"
CROWD_S = 0.025


def by_manager(obj: HasMetadata) -> tuple[str, ...]:
    manager = obj.metadata.controller
    return (manager.uid,) if manager is not None else ()


def orphans_by_namespace(obj: HasMetadata) -> tuple[str, ...]:
    return () if obj.metadata.controller is not None else (obj.metadata.namespace,)


def by_namespace(obj: HasMetadata) -> tuple[str, ...]:
    return (obj.metadata.namespace,)


def by_node(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


class Cluster:
    """One API server as the loops see it."""

    def __init__(
        self, client: Client, informers: Informers, events: EventRecorder | None = None, clock: Clock | None = None
    ) -> None:
        self.client = client
        self.informers = informers
        self.clock: Clock = clock or SystemClock()
        self.writer = Writer(client, events)
        self._views: dict[Kind[Any], View[Any]] = {}

    def view(self, kind: Kind[T]) -> View[T]:  # type: ignore[type-var]  # every kind's type has metadata
        view = self._views.get(kind)
        if view is None:
            view = View(self.informers.get(kind))
            view.add_index(MANAGER, by_manager)
            view.add_index(ORPHANS, orphans_by_namespace)
            view.add_index(NAMESPACE, by_namespace)
            self._views[kind] = view
            self.writer.shows(kind, view)
        return view

    def pods_by_node(self) -> View[Pod]:
        """The view of pods, with an index of what is on each node."""
        view = self.view(PODS)
        view.add_index(NODE, by_node)
        return view

    def followed(self, group: str, plural: str) -> View[Any] | None:
        """The view of a resource, if some loop has asked for it."""
        views = (view for kind, view in self._views.items() if (kind.group, kind.plural) == (group, plural))
        return next(views, None)

    async def claim(
        self,
        owner_kind: Kind[Any],
        owner: HasMetadata,
        selector: LabelMatcher,
        kind: Kind[T],  # type: ignore[type-var]
        finalizers: tuple[str, ...] = (),
        keep: Callable[[T], bool] = lambda _: True,
    ) -> list[T]:
        """All objects that `owner` manages, after it has taken in orphans and let go what it no longer selects.

        What `keep` refuses is neither taken in nor counted, whatever its labels are.
        """
        view = self.view(kind)
        meta = owner.metadata
        candidates = [*view.by_index(MANAGER, meta.uid), *view.by_index(ORPHANS, meta.namespace)]
        candidates = [candidate for candidate in candidates if keep(candidate)]
        sorted_out = claims(meta, selector, candidates)
        owned = list(sorted_out.owned)
        for lost in sorted_out.release:
            await self._tried(release(kind, lost.metadata, meta.uid, finalizers))
        if sorted_out.adopt and await self._may_adopt(owner_kind, owner):
            reference = managing(owner_kind, meta)
            for orphan in sorted_out.adopt:
                adopted = await self._tried(adopt(kind, orphan.metadata, reference, finalizers))
                if adopted is not None:
                    owned.append(adopted)
        return owned

    async def _may_adopt(self, kind: Kind[Any], owner: HasMetadata) -> bool:
        """Whether the owner still exists on the server: adopting from a stale view would undo an orphaning deletion."""
        meta = owner.metadata
        try:
            fresh = await self.client.get(kind, meta.name, namespace=meta.namespace)
        except NotFound:
            return False
        return bool(fresh.metadata.uid == meta.uid and fresh.metadata.deletion_timestamp is None)

    async def _tried(self, patch: Patch) -> Any:
        """The patched object; None if it is gone or now has another managing owner, so that it is not ours."""
        try:
            return await self.writer.patch(patch)
        except (NotFound, Conflict, Invalid):
            return None

    def selecting(self, kind: Kind[Any], orphan: HasMetadata, selector_of: Any) -> Iterable[str]:
        """Keys of the objects of `kind` in an orphan's namespace that would adopt it."""
        labels = orphan.metadata.labels
        if not labels:
            return
        for candidate in self.view(kind).by_index(NAMESPACE, orphan.metadata.namespace):
            if selector_of(candidate).matches(labels):
                yield candidate.metadata.key

    def managers(self, kind: Kind[Any], delta: Delta[Any], selector_of: Any) -> Iterable[str]:
        """Keys of the objects of `kind` that a change of something they may manage concerns."""
        for state in (delta.old, delta.new):
            if state is None:
                continue
            manager = state.metadata.controller
            if manager is not None and (manager.api_version, manager.kind) == (kind.api_version, kind.kind):
                yield f"{state.metadata.namespace}/{manager.name}"
        if delta.new is not None and delta.new.metadata.controller is None:
            yield from self.selecting(kind, delta.new, selector_of)


def soon(controller: Controller[str], keys: Iterable[str]) -> tuple[str, ...]:
    """Asks for `keys` in a moment, for changes that come in crowds: a hundred pods that start are one cause to look."""
    for key in keys:
        controller.add_after(key, CROWD_S)
    return ()


def about(kind: Kind[Any], obj: HasMetadata) -> ObjectReference:
    meta = obj.metadata
    return ObjectReference(kind.api_version, kind.kind, meta.namespace, meta.name, meta.uid)


def refused(error: ApiError) -> bool:
    """Whether a namespace that is going away is the reason: then there is nothing to retry, and nothing to tell."""
    return any(cause.reason == "NamespaceTerminating" for cause in error.status.details.causes)
