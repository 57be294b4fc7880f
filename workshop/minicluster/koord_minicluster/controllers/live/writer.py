"""Carries actions out, and passes the results to the views.

Creating is idempotent: a name is chosen before the call and kept until the result is known, so that a create whose
answer was lost is repeated under the same name and finds the object. Many creates start slowly (1, 2, 4, ... at a
time), so that a create that a quota refuses, for example, is not sent a thousand times.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Coroutine, Iterable, Sequence
from itertools import groupby
from typing import Any, Final

from koord.api.kinds import PODS, Kind
from koord.api.kubernetes.meta import ObjectReference
from koord.api.machinery.struct import Struct
from koord.api.workloads.template_hash import safe_name
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from koord.kube.events import EventRecorder
from koord_minicluster.controllers.actions import Action, Create, Delete, Patch, Tell
from koord_minicluster.controllers.live.view import View

log = logging.getLogger(__name__)

FIELD_MANAGER: Final = "koord-controllers"
MOST_AT_ONCE: Final = 32
SUFFIX_LENGTH: Final = 5


class Writer:
    """Writes for all controllers of one process."""

    def __init__(self, client: Client, events: EventRecorder | None = None) -> None:
        self.client = client
        self._events = events
        self._views: dict[Kind[Any], View[Any]] = {}
        self._next_names: dict[str, list[str]] = {}

    def shows(self, kind: Kind[Any], view: View[Any]) -> None:
        """From here on, what is written of this kind shows in `view`."""
        self._views[kind] = view

    async def carry_out(self, actions: Iterable[Action], about: ObjectReference) -> None:
        """In order, where neighbours of one sort (say, patches of pods) are done together, as many as is polite.

        What is gone already is no failure to delete. The first other refusal ends it, after its neighbours have ended.
        """
        for sort, group in groupby(actions, key=_sort):
            together = list(group)
            if sort[0] is Create:
                await self.create_all([action for action in together if isinstance(action, Create)], about)
            elif sort[0] is Delete:
                await self.delete_all([action for action in together if isinstance(action, Delete)])
            elif sort[0] is Patch:
                await self.patch_all([action for action in together if isinstance(action, Patch)])
            else:
                for action in together:
                    if isinstance(action, Tell):
                        self.tell(about, action)

    async def create_all(self, creates: Sequence[Create], about: ObjectReference) -> None:
        """Slow start: a refusal ends it."""
        done = 0
        batch = 1
        while done < len(creates):
            part = creates[done : done + batch]
            await _all([self.create(create, about) for create in part])
            done += len(part)
            batch = min(batch * 2, MOST_AT_ONCE)

    async def delete_all(self, deletes: Sequence[Delete]) -> None:
        for start in range(0, len(deletes), MOST_AT_ONCE):
            await _all([self.delete(delete) for delete in deletes[start : start + MOST_AT_ONCE]])

    async def patch_all(self, patches: Sequence[Patch]) -> None:
        for start in range(0, len(patches), MOST_AT_ONCE):
            await _all([self.patch(patch) for patch in patches[start : start + MOST_AT_ONCE]])

    async def create(self, action: Create, about: ObjectReference) -> Any:
        """The created or existing object. Raises AlreadyExists if the body has a name that is in use: the caller checks
        whether that object is the same."""
        metadata = dict(action.body["metadata"])
        prefix = metadata.get("generateName", "")
        key = f"{action.kind.resource}/{action.namespace}/{prefix}/{about.uid}"
        fixed = str(metadata.get("name", ""))
        while True:
            name = fixed or self._take_name(key, str(prefix))
            body = {**action.body, "metadata": {**metadata, "name": name}}
            try:
                made = await self.client.create(
                    action.kind, body, namespace=action.namespace, field_manager=FIELD_MANAGER
                )
            except AlreadyExists:
                existing = await self._ours(action.kind, action.namespace, name, about.uid)
                if action.exists_ok:
                    return None
                if fixed:
                    raise
                if existing is not None:
                    return existing
            except ApiError as error:
                if not fixed and getattr(error, "maybe_done", False):
                    self._next_names.setdefault(key, []).append(name)
                raise
            else:
                self._note(action.kind, made)
                if action.kind is PODS:
                    self.tell(about, Tell("SuccessfulCreate", f"Created pod: {name}"))
                return made

    async def _ours(self, kind: Kind[Any], namespace: str, name: str, owner_uid: str) -> Any:
        """The object of this name if `owner_uid` manages it: then it is the one that we meant to create."""
        try:
            existing = await self.client.get(kind, name, namespace=namespace)
        except NotFound:
            return None
        manager = existing.metadata.controller
        if manager is None or manager.uid != owner_uid:
            return None
        self._note(kind, existing)
        return existing

    def _take_name(self, key: str, prefix: str) -> str:
        waiting = self._next_names.get(key)
        if waiting:
            name = waiting.pop()
            if not waiting:
                del self._next_names[key]
            return name
        return prefix + safe_name(uuid.uuid4().int, SUFFIX_LENGTH)

    async def patch(self, action: Patch) -> Any:
        """NotFound and Conflict come out: the object is not what the decision was about any more."""
        try:
            patched: Struct = await self.client.patch(
                action.kind,
                action.name,
                action.body,
                namespace=action.namespace,
                type=action.type,
                subresource=action.subresource,
                field_manager=FIELD_MANAGER,
            )
        except (NotFound, Conflict):
            if action.gone_ok:
                # A conflict here is another uid: the object meant is gone as well.
                return None
            raise
        self._note(action.kind, patched)
        return patched

    async def delete(self, action: Delete) -> None:
        try:
            await self.client.delete(
                action.kind,
                action.name,
                namespace=action.namespace,
                uid=action.uid,
                resource_version=action.resource_version,
                propagation=action.propagation,
                grace_s=action.grace_s,
            )
        except (NotFound, Conflict) as error:
            if isinstance(error, Conflict) and action.resource_version:
                raise
            # It is gone, or another of its name is there. A view that still has it will hear so.
            log.debug("nothing to delete: %s", error)
        view = self._views.get(action.kind)
        if view is not None:
            view.deleted(f"{action.namespace}/{action.name}" if action.namespace else action.name, action.uid)

    def tell(self, about: ObjectReference, what: Tell) -> None:
        if self._events is not None:
            self._events.record(about, what.reason, what.note, type=what.type)

    def _note(self, kind: Kind[Any], obj: Any) -> None:
        view = self._views.get(kind)
        if view is not None:
            view.written(obj)


def _sort(action: Action) -> tuple[object, ...]:
    """Neighbours with the same answer may be done together."""
    if isinstance(action, Tell):
        return (Tell,)
    return type(action), action.kind


async def _all(calls: Sequence[Coroutine[Any, Any, Any]]) -> None:
    """All at once, to their ends; then the first refusal, if there was one."""
    for result in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
