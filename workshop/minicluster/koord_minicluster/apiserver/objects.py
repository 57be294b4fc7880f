"""The life of an object on the server: created, changed, deleted; the same for all kinds.

Transport-free: dicts in, the stored bytes out. A write reads the newest version, works out the new one, and is put only
if the version is still the newest; otherwise it is worked out again, or refused if the client named a version.
What is particular to a kind is in its `Strategy`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any

import msgspec
from msgspec.structs import replace

from koord.api.text.timestamp import from_seconds
from koord.api.text.whole_number import whole_number
from koord_minicluster.apiserver import deletion, metadata, structural
from koord_minicluster.apiserver.access.authn import UserInfo
from koord_minicluster.apiserver.admission import Admission, Attributes
from koord_minicluster.apiserver.large_objects import HEAVY_BYTES, LargeObjectWorker
from koord_minicluster.apiserver.patch import managed_fields
from koord_minicluster.apiserver.patch.reach import reach_of
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.status import (
    MODIFIED,
    Cause,
    StatusError,
    already_exists,
    bad_request,
    conflict,
    internal_error,
    invalid,
    object_not_found,
    unprocessable,
)
from koord_minicluster.apiserver.store import Collection, Entry, Raced, Store, WriteFailed
from koord_minicluster.apiserver.stored import (
    collection_of,
    decode,
    encode,
    index_of,
    read_back,
    same,
    same_but_metadata,
    shares_all_but_metadata,
)

MOST_ATTEMPTS = 10
MOST_OBJECT_BYTES = 3 << 20
"""Size limit of a stored object. The real server's limit is half of this, in a denser encoding."""
MOST_INCOMPLETE = 4096


class Context(msgspec.Struct, frozen=True, eq=False):
    """The user that writes, the manager that owns the written fields, and whether it is a dry run."""

    user: UserInfo
    manager: str
    dry_run: bool = False
    warnings: list[str] = msgspec.field(default_factory=list)
    "Collected during the request; sent as Warning headers."
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    "The request's options object, for admission webhooks."
    weight_bytes: int = 0
    "Of what was sent."


class Written(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a write: the object's bytes, and whether it was newly created."""

    value: bytes
    created: bool = False


Edit = Callable[[Obj], Obj]
"""From the old object to the wanted one. May raise StatusError. Called again if the object has changed since."""


class Objects:
    """All writes to stored objects."""

    def __init__(self, store: Store, admission: Admission, now_s: Callable[[], float]) -> None:
        self.store, self.admission, self._now_s = store, admission, now_s
        self.large_object_worker = LargeObjectWorker()
        self._incomplete: dict[tuple[str, str], int] = {}
        "What the real server has stored without what reading adds: a write stores that, even if it changes nothing."

    def collection(self, resource: Resource) -> Collection:
        return collection_of(self.store, resource)

    def now(self) -> str:
        return _text_of(int(self._now_s()))

    async def create(
        self, resource: Resource, namespace: str, obj: Obj, context: Context, *, tracked: bool = False
    ) -> Written:
        """Add an object. `tracked`: its managedFields are settled already, as by server-side apply."""
        meta = obj.setdefault("metadata", {})
        if meta.get("resourceVersion"):
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created", details=False)
        if resource.namespaced and meta.get("namespace") not in (None, "", namespace):
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if context.weight_bytes < HEAVY_BYTES:
            self._complete_new(resource, namespace, obj, context, tracked)
        else:
            await self.large_object_worker.do(
                resource, partial(self._complete_new, resource, namespace, obj, context, tracked)
            )
        obj = await self._admit(_attributes("CREATE", resource, "", obj, None, context))
        generated = not obj["metadata"].get("name") and bool(obj["metadata"].get("generateName"))
        metadata.fill_on_create(obj, resource, namespace, self.now())
        end, uid = resource.strategy.end, obj["metadata"]["uid"]
        try:
            writing = await self._add(resource, namespace, obj, context, generated=generated)
            # Its bytes are enough: objects that wait for the disk would crowd each other out of the caches.
            del obj, meta
            return await writing
        finally:
            if end is not None:
                end(uid)

    def _complete_new(self, resource: Resource, namespace: str, obj: Obj, context: Context, tracked: bool) -> None:
        self._default(resource, obj)
        metadata.clear_on_create(obj, resource, namespace)
        if not tracked:
            self._track(resource, None, obj, context)

    async def _add(
        self, resource: Resource, namespace: str, obj: Obj, context: Context, *, generated: bool
    ) -> Awaitable[Written]:
        """Check a new object that is admitted and has its metadata, and begin to store it."""
        self._refuse_if_invalid(resource, obj, [*resource.strategy.begin(obj, None, context.dry_run)])
        resource.strategy.prepare_create(obj)
        key = resource.key(namespace, obj["metadata"].get("name", ""))
        if context.weight_bytes < HEAVY_BYTES:
            faults = [*self._faults(resource, obj), *resource.strategy.validate_create(obj)]
        else:
            faults = await self.large_object_worker.do(
                resource, lambda: [*self._faults(resource, obj), *resource.strategy.validate_create(obj)]
            )
        if not faults and not resource.strategy.metadata_checks.of_new:
            faults = metadata.faults_of_any_object(obj, resource)
        self._refuse_if_invalid(resource, obj, faults)
        await self.admission.validate(_attributes("CREATE", resource, "", obj, None, context))
        context.warnings.extend(resource.strategy.warnings(obj))
        collection = self.collection(resource)
        added = read_back(resource, obj)
        for _ in range(8 if generated else 1):
            if collection.head(key) is None:
                if context.dry_run:
                    return _done(Written(encode(resource, obj), created=True))
                with contextlib.suppress(Raced):
                    return self._added(self._put(collection, resource, key, 0, obj), resource if added else None)
            if generated:
                obj["metadata"]["name"] = metadata.generate_name(obj["metadata"]["generateName"])
                key = resource.key(namespace, obj["metadata"]["name"])
        existing = collection.head(key)
        if existing is not None:
            await self._settled(collection, existing)
        deleting = existing is not None and existing.index.deleting
        raise already_exists(resource.plural, resource.group, obj["metadata"]["name"], deleting=deleting)

    async def _added(self, writing: Awaitable[Entry], incomplete: Resource | None) -> Written:
        entry = await self._stored(writing)
        if incomplete is not None:
            self._incomplete[incomplete.collection, entry.key] = entry.rev
            if len(self._incomplete) > MOST_INCOMPLETE:
                del self._incomplete[next(iter(self._incomplete))]
        return Written(entry.value, created=True)

    async def update(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        change: Edit,
        context: Context,
        *,
        subresource: str = "",
        create_missing: Callable[[], Obj] | None = None,
        tracked: bool = False,
        sent_whole: bool = False,
        pure: bool = False,
    ) -> Written:
        """Change an object. The result of `change` may name the version that it applies to; an outdated one is refused.

        `tracked`: the change has set managedFields itself, as server-side apply does. `sent_whole`: the client sent the
        whole object, not a patch, so its uid must match. `pure`: the change does not modify its argument and may return
        parts of it; comparing these parts then costs nothing.
        """
        end = resource.strategy.end
        head = self.collection(resource).head(resource.key(namespace, name)) if end is not None else None
        # What a custom kind's schema prunes, and what allocates, is changed in place.
        pure = pure and not resource.custom and end is None
        try:
            return await self._update(
                resource, namespace, name, change, context, subresource, create_missing, tracked, sent_whole, pure
            )
        finally:
            if end is not None and head is not None:
                end(head.index.uid)

    async def _update(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        change: Edit,
        context: Context,
        subresource: str,
        create_missing: Callable[[], Obj] | None,
        tracked: bool,
        sent_whole: bool,
        pure: bool,
    ) -> Written:
        collection = self.collection(resource)
        key = resource.key(namespace, name)
        for _ in range(MOST_ATTEMPTS):
            head = collection.head(key)
            if head is None:
                if create_missing is not None:
                    return await self.create(resource, namespace, create_missing(), context, tracked=tracked)
                raise await self._absent(collection, resource, key, name)
            heavy = max(context.weight_bytes, len(head.value)) >= HEAVY_BYTES
            worked_out = partial(_worked_out, resource, head.value, change, pure)
            old, new = await self.large_object_worker.do(resource, worked_out) if heavy else worked_out()
            self._check_version(resource, new, old, head, sent_whole)
            new = await self._changed(resource, subresource, new, old, context, tracked, heavy)
            read_back(resource, new, old)
            if same(new, old) and self._incomplete.get((resource.collection, key)) != head.rev:
                # Also for a rehearsal: nothing to write, and the version stays.
                await self._settled(collection, head)
                return Written(head.value)
            if context.dry_run:
                return Written(encode(resource, new, head.rev))
            try:
                writing = self._put_or_remove(collection, resource, key, head, new, old)
            except Raced:
                # Worked out again on the newer version: a change that named the older one is refused there.
                continue
            del new, old
            return await writing
        raise conflict(resource.plural, resource.group, name, MODIFIED)

    async def rewrite(self, resource: Resource, namespace: str, name: str, change: Edit, context: Context) -> Written:
        """Store the result of `change` without checks: for the server's own subresources, which follow the rules."""
        collection = self.collection(resource)
        key = resource.key(namespace, name)
        for _ in range(MOST_ATTEMPTS):
            head = collection.head(key)
            if head is None:
                raise await self._absent(collection, resource, key, name)
            old = decode(resource, head.value)
            new = change(decode(resource, head.value))
            if context.dry_run:
                return Written(encode(resource, new, head.rev))
            try:
                return await self._put_or_remove(collection, resource, key, head, new, old)
            except Raced:
                continue
        raise conflict(resource.plural, resource.group, name, MODIFIED)

    async def _changed(
        self, resource: Resource, subresource: str, new: Obj, old: Obj, context: Context, tracked: bool, heavy: bool
    ) -> Obj:
        """The object to be stored: completed, admitted, checked. `heavy`: large enough for the worker thread."""
        strategy = resource.strategy
        complete = partial(self._complete, resource, subresource, new, old, context, tracked)
        if heavy:
            await self.large_object_worker.do(resource, complete)
        else:
            complete()
        attributes = _attributes("UPDATE", resource, subresource, new, old, context)
        admitted = await self._admit(attributes)
        if admitted is not new:
            # Webhooks reach no further than the request that they are asked about.
            self._prepare(resource, subresource, admitted, old)
            attributes = replace(attributes, obj=admitted)
        new = admitted
        if subresource != "status":
            metadata.bump_generation(new, old, resource)
        if subresource == "":
            self._refuse_if_invalid(resource, new, [*strategy.begin(new, old, context.dry_run)])
        judge = partial(self._faults_of_change, resource, subresource, new, old, context)
        self._refuse_if_invalid(resource, new, await self.large_object_worker.do(resource, judge) if heavy else judge())
        await self.admission.validate(attributes)
        if subresource == "" and strategy.warns_again(new, old):
            context.warnings.extend(strategy.warnings(new))
        return new

    def _complete(
        self, resource: Resource, subresource: str, new: Obj, old: Obj, context: Context, tracked: bool
    ) -> None:
        strategy = resource.strategy
        if strategy.validate_metadata is None or not shares_all_but_metadata(new, old):
            # Stored parts that the change does not touch already have their defaults.
            self._default(resource, new)
        if not tracked:
            # Before the rest is carried over: the sender of a field owns it, even where this write cannot reach it.
            self._track(resource, old, new, context, subresource)
        self._prepare(resource, subresource, new, old)

    def _faults_of_change(
        self, resource: Resource, subresource: str, new: Obj, old: Obj, context: Context
    ) -> list[Cause]:
        strategy = resource.strategy
        causes = metadata.faults_of_any_change(new, old, resource)
        of_change = metadata.faults_of_change(new, old, resource, of_status=subresource == "status")
        if subresource == "status":
            causes += of_change
            if strategy.metadata_checks.of_status:
                causes += metadata.faults_of_object(new, resource)
            if resource.custom:
                causes += _of_status(structural.validate(resource.schema, new, old, context.warnings))
            causes += strategy.validate_status(new, old)
        else:
            partial_update = strategy.partial_updates.get(subresource)
            change = [*(partial_update.validate if partial_update else strategy.validate_update)(new, old)]
            whole = self._faults(resource, new, old, context.warnings)
            if strategy.metadata_checks.of_object_first:
                causes += [*whole, *of_change, *change]
            else:
                causes += of_change
                causes += [*change, *whole] if strategy.judges_change_first else [*whole, *change]
        return causes

    def _prepare(self, resource: Resource, subresource: str, new: Obj, old: Obj) -> None:
        """Carry over what this kind of write cannot change."""
        strategy = resource.strategy
        metadata.carry_over(new, old, resource)
        if subresource == "status":
            for part in [part for part in {*new, *old} if part not in ("metadata", "status")]:
                _take(new, old, part)
            strategy.prepare_status(new, old)
        elif partial_update := strategy.partial_updates.get(subresource):
            partial_update.prepare(new, old)
        else:
            if strategy.has_status:
                _take(new, old, "status")
            strategy.prepare_update(new, old)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        options: Mapping[str, Any],
        context: Context,
        *,
        one_of_many: bool = False,
    ) -> tuple[bytes, bool]:
        """Delete, or mark as being deleted where grace or finalizers ask for it.

        Gives the last state, and whether the object is gone. `one_of_many`: the request named no object.
        """
        collection = self.collection(resource)
        key = resource.key(namespace, name)
        for _ in range(MOST_ATTEMPTS):
            head = collection.head(key)
            if head is None:
                raise await self._absent(collection, resource, key, name)
            old = decode(resource, head.value)
            deletion.check_preconditions(resource, options, old)
            attributes = _attributes("DELETE", resource, "", None, old, replace(context, options=options))
            await self.admission.validate(replace(attributes, name="") if one_of_many else attributes)
            outcome = deletion.outcome(resource.strategy, old, options, self._now_s())
            mark = outcome.mark if outcome.mark is None or not same(outcome.mark, old) else None
            try:
                if context.dry_run or (mark is None and not outcome.gone):
                    await self._settled(collection, head)
                    return encode(resource, mark or old, head.rev), outcome.gone
                if mark is None:
                    writing = self._remove(collection, resource, key, head.rev, old)
                else:
                    writing = self._put(collection, resource, key, head.rev, mark)
                    if outcome.gone:
                        # Begun in one step, both are one commit: whatever ends the server, no mark is left alone.
                        staged = collection.head(key) or head
                        writing = self._remove(collection, resource, key, staged.rev, mark)
                return (await self._stored(writing)).value, outcome.gone
            except Raced:
                continue
        raise conflict(resource.plural, resource.group, name, MODIFIED)

    def _check_version(self, resource: Resource, new: Obj, old: Obj, head: Entry, sent_whole: bool) -> None:
        """A conflict if the change was meant for another object of this name, or for an older version."""
        meta = new.setdefault("metadata", {})
        name = old["metadata"]["name"]
        if sent_whole and (uid := meta.get("uid")) and uid != old["metadata"]["uid"]:
            detail = (
                f"StorageError: invalid object, Code: 4, Key: /registry/{_registry_path(resource, old)}, "
                f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, "
                f"UID in object meta: {old['metadata']['uid']}"
            )
            raise conflict(resource.plural, resource.group, name, detail)
        version = meta.get("resourceVersion") or ""
        if version and not (version.isascii() and version.isdigit()):
            raise StatusError(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax', details=False)
        if whole_number(version or "0") == 0:
            if not resource.strategy.unconditional_update:
                cause = invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise unprocessable(resource.plural, resource.group, name, [cause])
        elif version != str(head.rev):
            raise conflict(resource.plural, resource.group, name, MODIFIED)

    def _default(self, resource: Resource, obj: Obj) -> None:
        structural.default(resource.schema, obj)
        resource.strategy.default(obj)

    def _faults(
        self, resource: Resource, obj: Obj, old: Obj | None = None, warnings: list[str] | None = None
    ) -> list[Cause]:
        strategy = resource.strategy
        of_kind = strategy.metadata_checks.of_new if old is None else strategy.metadata_checks.of_changed
        causes = metadata.faults_of_object(obj, resource) if of_kind else []
        if resource.custom:
            causes += structural.validate(resource.schema, obj, old, warnings)
        validate, of_metadata = strategy.validate, strategy.validate_metadata
        if old is not None and of_metadata is not None and same_but_metadata(obj, old):
            validate = of_metadata
        causes += validate(obj)
        return causes * 2 if old is not None and strategy.judges_twice else causes

    def _refuse_if_invalid(self, resource: Resource, obj: Obj, causes: list[Cause]) -> None:
        if causes:
            name = obj["metadata"].get("name") or obj["metadata"].get("generateName", "")
            raise unprocessable(resource.kind, resource.kind_group, name, causes)

    def _track(self, resource: Resource, old: Obj | None, new: Obj, context: Context, subresource: str = "") -> None:
        managed_fields.track(
            old,
            new,
            manager=context.manager,
            operation_api_version=resource.api_version,
            schema=resource.schema,
            now=self.now(),
            subresource=subresource,
            reach=reach_of(resource, subresource),
            versions=resource.versions,
        )

    async def _admit(self, attributes: Attributes) -> Obj:
        admitted = await self.admission.mutate(attributes)
        if admitted is not attributes.obj:
            self._default(attributes.resource, admitted)
        return admitted

    async def _absent(self, collection: Collection, resource: Resource, key: str, name: str) -> StatusError:
        """404, once readers would get it too."""
        try:
            await collection.absent(key)
        except WriteFailed as error:
            return internal_error(str(error))
        return object_not_found(resource.plural, resource.group, name)

    async def _settled(self, collection: Collection, head: Entry) -> None:
        """Wait until what is about to be shown is on disk."""
        try:
            await collection.settled(head)
        except WriteFailed as error:
            raise internal_error(str(error)) from error

    def _put_or_remove(
        self, collection: Collection, resource: Resource, key: str, head: Entry, new: Obj, old: Obj
    ) -> Awaitable[Written]:
        """Begin to store a changed object, or to remove it if its deletion is finished. Raises Raced."""
        if deletion.is_finished(resource.strategy, new, old):
            # Watchers see the stored object in the deletion event; the writer gets the changed object.
            shown = encode(resource, new, head.rev)
            return self._written(self._remove(collection, resource, key, head.rev, old), shown)
        return self._written(self._put(collection, resource, key, head.rev, new))

    def _put(self, collection: Collection, resource: Resource, key: str, expect_rev: int, obj: Obj) -> Awaitable[Entry]:
        index = index_of(resource, obj)
        return collection.put(key, expect_rev, lambda rev: _bounded(encode(resource, obj, rev)), index)

    def _remove(
        self, collection: Collection, resource: Resource, key: str, expect_rev: int, obj: Obj
    ) -> Awaitable[Entry]:
        return collection.delete(key, expect_rev, lambda rev: encode(resource, obj, rev))

    async def _written(self, writing: Awaitable[Entry], shown: bytes = b"") -> Written:
        entry = await self._stored(writing)
        return Written(shown or entry.value)

    async def _stored(self, writing: Awaitable[Entry]) -> Entry:
        """Wait until a write is on disk."""
        try:
            return await writing
        except WriteFailed as error:
            raise internal_error(str(error)) from error


def _worked_out(resource: Resource, value: bytes, change: Edit, pure: bool) -> tuple[Obj, Obj]:
    """The stored object, and what a change makes of it."""
    old = decode(resource, value)
    return old, _own(change(old)) if pure else change(decode(resource, value))


def _bounded(value: bytes) -> bytes:
    """Patches can make more of an object than one body can bring."""
    if len(value) > MOST_OBJECT_BYTES:
        raise StatusError(500, "", "etcdserver: request is too large", details=False)
    return value


def _registry_path(resource: Resource, obj: Obj) -> str:
    """Where the real server would keep an object, as some of its messages tell."""
    meta = obj["metadata"]
    place = f"{resource.group}/{resource.plural}" if resource.custom else resource.plural
    return "/".join(filter(None, (place, meta.get("namespace", ""), meta["name"])))


def _attributes(
    operation: str, resource: Resource, subresource: str, obj: Obj | None, old: Obj | None, context: Context
) -> Attributes:
    meta = (obj or old or {}).get("metadata", {})
    return Attributes(
        operation=operation,
        resource=resource,
        subresource=subresource,
        namespace=meta.get("namespace", "") if resource.namespaced else "",
        name=meta.get("name", ""),
        obj=obj,
        old=old,
        user=context.user,
        dry_run=context.dry_run,
        options=context.options,
        warnings=context.warnings,
    )


def subresource_attributes(
    resource: Resource, subresource: str, kind: tuple[str, str, str], obj: Obj, context: Context
) -> Attributes:
    """Of an object of another kind that is posted to a subresource, as admission sees it."""
    made = _attributes("CREATE", resource, subresource, obj, None, context)
    return replace(made, kind=kind)


def _of_status(causes: Iterable[Cause]) -> list[Cause]:
    """Faults of a status that is judged by itself: their texts name fields from there on."""
    return [
        dataclasses.replace(
            cause,
            message=cause.message.replace(f"{cause.field} in body", f"{cause.field.removeprefix('status.')} in body"),
        )
        for cause in causes
    ]


@lru_cache(4)
def _text_of(now_s: int) -> str:
    return from_seconds(now_s)


def _own(made: Obj) -> Obj:
    """With metadata that can be written to. What lies deeper in the other parts is filled in, never changed."""
    meta = {
        key: value.copy() if isinstance(value, dict | list) else value
        for key, value in (made.get("metadata") or {}).items()
    }
    return {**made, "metadata": meta}


async def _done(written: Written) -> Written:
    return written


def _take(new: Obj, old: Obj, part: str) -> None:
    if part in old:
        new[part] = old[part]
    else:
        new.pop(part, None)
