"""The verbs on resources: get, list, watch, create, update, patch, apply, delete, deletecollection.

Each reads its options from the query or body, calls `Objects` for writes or the store for reads, and shapes the answer.
Subresources with a behaviour of their own (binding, eviction, scale, log, token, ...) are in `subresources`, by name.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from koord_minicluster.apiserver import deletion, listing, tables, watching
from koord_minicluster.apiserver.bodies import decoding, patched
from koord_minicluster.apiserver.bodies.emptiness import as_sent
from koord_minicluster.apiserver.http import Request, details_of, json_answer, warning_headers
from koord_minicluster.apiserver.large_objects import HEAVY_BYTES
from koord_minicluster.apiserver.list_options import list_options, revision_of, watch_options
from koord_minicluster.apiserver.negotiation import Form, as_yaml
from koord_minicluster.apiserver.objects import Context, Objects, Written
from koord_minicluster.apiserver.patch import json_patch, managed_fields, merge_patch, strategic
from koord_minicluster.apiserver.patch.reach import reach_of
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.routing import Unrouted, check_route, not_allowed
from koord_minicluster.apiserver.status import StatusError, bad_request, invalid, object_not_found, unprocessable
from koord_minicluster.apiserver.wire.answers import JSON, Answer, Response, Stream
from koord_minicluster.apiserver.write_options import WriteOptions, write_options

APPLY_TYPES = ("application/apply-patch+yaml", "application/apply-patch+cbor")
PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)

T = TypeVar("T")

Subresource = Callable[[Request, Resource], Awaitable[Answer]]


class Verbs:
    """Answers resource requests. `subresources` maps (collection, subresource) to handlers of their own."""

    def __init__(self, objects: Objects, subresources: Mapping[tuple[str, str], Subresource]) -> None:
        self._objects, self._subresources = objects, subresources

    async def handle(self, request: Request, resource: Resource) -> Answer:
        info = request.info
        check_route(resource, info, request.http.method)
        # Reviews, bindings and metrics are computed, not stored: they have a handler without a subresource.
        own = self._subresources.get((resource.collection, info.subresource))
        own = own or self._subresources.get(("*", info.subresource))
        if own is not None:
            return await own(request, resource)
        match info.verb:
            case "get":
                return await self._get(request, resource)
            case "list":
                return await self._list(request, resource)
            case "watch":
                return await self._watch(request, resource)
            case "create":
                return await self._create(request, resource)
            case "update":
                return await self._update(request, resource)
            case "patch":
                return await self._patch(request, resource)
            case "delete":
                return await self._delete(request, resource)
            case "deletecollection":
                return await self._delete_collection(request, resource)
        raise not_allowed()

    async def _get(self, request: Request, resource: Resource) -> Answer:
        info = request.info
        revision_of(request.query.get("resourceVersion", ""))
        entry = self._objects.collection(resource).get(resource.key(info.namespace, info.name))
        if entry is None:
            raise object_not_found(resource.plural, resource.group, info.name)
        return self._object(request, resource, entry.value)

    async def _list(self, request: Request, resource: Resource) -> Answer:
        options = list_options(request.query)
        wanted = listing.parse_filter(resource, request.info, request.query)
        store, collection = self._objects.store, self._objects.collection(resource)
        listed = await listing.select(store, collection, resource, request.info.namespace, wanted, options)
        form = request.form
        if form.shape != "object" or form.yaml:
            return json_answer(self._shaped_list(request, resource, listed), content_type=form.content_type)
        if len(listed.entries) <= 512:
            return json_answer(b"".join(listing.encode_list(resource, listed))[:-1])
        stream = Stream(JSON)
        stream.more = _deprecations(resource)
        stream.begin(request.http)
        for piece in listing.encode_list(resource, listed):
            await stream.write(piece)
        await stream.end()
        return stream

    async def _watch(self, request: Request, resource: Resource) -> Answer:
        query, info = request.query, request.info
        options = watch_options(query)
        wanted = listing.parse_filter(resource, info, query)
        store, collection = self._objects.store, self._objects.collection(resource)
        from_rev = revision_of(options.version)
        if from_rev and options.initial:
            await listing.reach(store, from_rev)
        form = request.form
        watch = watching.Watch(
            resource,
            info.namespace,
            wanted,
            (resource.api_version, form, query.get("includeObject", "")),
            self._event_shape(request, resource),
            options.bookmarks,
            float(options.timeout_s) or watching.DEFAULT_TIMEOUT_S,
            self._columns(request, resource),
        )
        answer = Stream(form.content_type, {"Cache-Control": "no-cache, private"})
        answer.more = _deprecations(resource)
        answer.begin(request.http)
        begin = None if options.initial else from_rev or store.revision
        try:
            await watching.stream(store, collection, watch, begin, bool(options.initial), answer)
            await answer.end()
        except (ConnectionResetError, asyncio.CancelledError):
            # A client that has seen enough goes away without a word.
            if not request.http.is_gone:
                raise
        return answer

    async def _create(self, request: Request, resource: Resource) -> Answer:
        options = options_of(request)
        body = await request.body()
        context = context_of(request, options, len(body))
        try:
            if len(body) < HEAVY_BYTES:
                # The object is handed on without a name here, so that it can be let go of once its bytes are made.
                written = await self._objects.create(
                    resource, request.info.namespace, _decoded(request, resource, context, body, options), context
                )
            else:
                obj = await self._read_body(
                    resource, body, partial(_decoded, request, resource, context, body, options)
                )
                written = await self._objects.create(resource, request.info.namespace, obj, context)
        except StatusError as error:
            raise as_sent(error, lambda: decoding.decode_any(body, request.content_type)) from None
        return self._object(request, resource, written.value, status=201)

    async def _update(self, request: Request, resource: Resource) -> Answer:
        options, info = options_of(request), request.info
        body = await request.body()
        context = context_of(request, options, len(body))
        obj = await self._read_body(resource, body, partial(_decoded, request, resource, context, body, options))
        check_name(obj, info.name, info.namespace if resource.namespaced else "")
        try:
            written = await self._objects.update(
                resource,
                info.namespace,
                info.name,
                lambda _old: msgspec.json.decode(msgspec.json.encode(obj)),
                context,
                subresource=info.subresource,
                create_missing=(lambda: obj) if resource.strategy.allow_create_on_update else None,
                sent_whole=True,
            )
        except StatusError as error:
            raise as_sent(error, lambda: decoding.decode_any(body, request.content_type)) from None
        return self._written(request, resource, written)

    async def _patch(self, request: Request, resource: Resource) -> Answer:
        content_type = request.content_type.partition(";")[0].strip()
        if content_type not in PATCH_TYPES or (resource.custom and "strategic" in content_type):
            if not resource.custom:
                raise Unrouted(415, "UnsupportedMediaType", "415: Unsupported Media Type")
            served = [patch_type for patch_type in PATCH_TYPES if "strategic" not in patch_type]
            raise StatusError(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: " + ", ".join(served),
                details=False,
            )
        options, info = options_of(request), request.info
        body = await request.body()
        context = context_of(request, options, len(body))
        if content_type in APPLY_TYPES:
            return await self._apply(request, resource, body, context, options)
        patch = await self._read_body(resource, body, partial(patched.read, body, content_type))
        made: Obj = {}

        def change(old: Obj) -> Obj:
            nonlocal made
            made = _patched(resource, patch, old)
            obj, context.warnings[:] = patched.outcome(resource, made, patch, options.validation, old)
            check_name(obj, info.name, info.namespace if resource.namespaced else "")
            return obj

        try:
            written = await self._objects.update(
                resource,
                info.namespace,
                info.name,
                change,
                context,
                subresource=info.subresource,
                pure=True,
            )
        except StatusError as error:
            raise as_sent(error, lambda: made) from None
        return self._written(request, resource, written)

    async def _apply(
        self, request: Request, resource: Resource, body: bytes, context: Context, options: WriteOptions
    ) -> Answer:
        info = request.info
        obj, context.warnings[:] = await self._read_body(
            resource, body, partial(decoding.decode_applied, resource, body)
        )

        def applied(live: Obj | None) -> Obj:
            merged = managed_fields.apply(
                live,
                obj,
                manager=context.manager,
                force=options.force,
                schema=resource.schema,
                api_version=resource.api_version,
                now=self._objects.now(),
                subresource=info.subresource,
                kind=resource.kind,
                reach=reach_of(resource, info.subresource),
                versions=resource.versions,
            )
            # What it made of the stored object is read as if it had been sent whole.
            retyped, warnings = decoding.retype(resource, merged, options.validation, live)
            context.warnings.extend(warning for warning in warnings if warning not in context.warnings)
            # After the merge: a conflict with other managers is reported before a name that differs from the path's.
            check_name(retyped, info.name, info.namespace if resource.namespaced else "")
            return retyped

        written = await self._objects.update(
            resource,
            info.namespace,
            info.name,
            applied,
            context,
            subresource=info.subresource,
            create_missing=None if info.subresource else lambda: _newly(resource, applied(None)),
            tracked=True,
            pure=True,
        )
        return self._written(request, resource, written)

    async def _delete(self, request: Request, resource: Resource) -> Answer:
        context, info = context_of(request), request.info
        options = await self._delete_options(request, resource)
        _warn_of_orphans(resource, options, context)
        context = replace(context, dry_run=bool(options.get("dryRun")))
        value, gone = await self._objects.delete(resource, info.namespace, info.name, options, context)
        if not gone:
            status = 202 if options.get("orphanDependents") is False else 200
            return self._object(request, resource, value, status=status)
        if resource.strategy.returns_deleted:
            return self._object(request, resource, value)
        return json_answer(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Success",
                "details": details_of(msgspec.json.decode(value), resource),
            }
        )

    async def _delete_collection(self, request: Request, resource: Resource) -> Answer:
        context, info = context_of(request), request.info
        options, which = await self._delete_options(request, resource), list_options(request.query)
        if which.version not in ("", "0") and not which.match:
            # The real server lists what it deletes page by page, and pages show one moment.
            which = replace(which, match="Exact")
        _warn_of_orphans(resource, options, context)
        context = replace(context, dry_run=bool(options.get("dryRun")))
        wanted = listing.parse_filter(resource, request.info, request.query)
        store, collection = self._objects.store, self._objects.collection(resource)
        listed = await listing.select(store, collection, resource, info.namespace, wanted, which)
        for entry in listed.entries:
            namespace, _, name = entry.key.rpartition("/")
            try:
                await self._objects.delete(resource, namespace, name, options, context, one_of_many=True)
            except StatusError as error:
                if error.code != 404:
                    raise
        form = request.form
        if form.shape != "object" or form.yaml:
            return json_answer(self._shaped_list(request, resource, listed), content_type=form.content_type)
        return json_answer(b"".join(listing.encode_list(resource, listed))[:-1])

    async def _read_body(self, resource: Resource, body: bytes, read: Callable[[], T]) -> T:
        """Read a body; a large one in the worker thread, so that other requests do not wait."""
        return read() if len(body) < HEAVY_BYTES else await self._objects.large_object_worker.do(resource, read)

    async def _delete_options(self, request: Request, resource: Resource) -> Mapping[str, Any]:
        body = await request.body()
        if body:
            read = partial(decoding.decode_delete_options, body, request.content_type)
            options = await self._read_body(resource, body, read)
        else:
            options = deletion.options_of(request.query, request.http.query.getall("dryRun", []))
        deletion.check_options(options)
        return options

    def _written(self, request: Request, resource: Resource, written: Written) -> Answer:
        return self._object(request, resource, written.value, status=201 if written.created else 200)

    def _object(self, request: Request, resource: Resource, value: bytes, *, status: int = 200) -> Response:
        """One object in the form that was asked for."""
        value = listing.item_value(resource, value)
        form = request.form
        if form.of_list:
            text = f"PartialObjectMetadataList, but the requested object is not a list (*{_go_type(resource)})"
            raise _wrong_shape(text)
        if form.shape != "object" or form.yaml:
            value = self._shape(request, resource)(value)
        return json_answer(value, status=status, content_type=form.content_type)

    def _shape(self, request: Request, resource: Resource) -> Callable[[bytes], bytes]:
        form, include = request.form, _included(request)
        if form.shape == "partial":
            return lambda value: _yaml_if(form, tables.partial(msgspec.json.decode(value), form.meta_version))
        if form.shape == "table":
            return lambda value: _yaml_if(
                form, tables.table(resource, [msgspec.json.decode(value)], time.time(), include, form.meta_version)
            )
        return lambda value: _yaml_if(form, msgspec.json.decode(value)) if form.yaml else value

    def _event_shape(self, request: Request, resource: Resource) -> Callable[[bytes], bytes]:
        form = request.form
        if form == Form():
            return lambda value: value
        if form.shape != "table" or form.yaml:
            return self._shape(request, resource)
        include = _included(request)

        def row(value: bytes) -> bytes:
            made = tables.table(resource, [msgspec.json.decode(value)], time.time(), include, form.meta_version)
            return msgspec.json.encode({**made, "columnDefinitions": None})

        return row

    def _columns(self, request: Request, resource: Resource) -> bytes:
        """The columns of a watched table: its first event has them."""
        form = request.form
        return msgspec.json.encode(tables.column_definitions(resource)) if form.shape == "table" else b""

    def _shaped_list(self, request: Request, resource: Resource, listed: listing.Listed) -> bytes:
        form = request.form
        objects = [msgspec.json.decode(listing.item_value(resource, entry.value)) for entry in listed.entries]
        meta: dict[str, Any] = {"resourceVersion": str(listed.rev)}
        if listed.continue_:
            meta["continue"] = listed.continue_
        if listed.remaining is not None:
            meta["remainingItemCount"] = listed.remaining
        if form.shape == "table":
            include = _included(request)
            return _yaml_if(form, tables.table(resource, objects, time.time(), include, form.meta_version, meta))
        if form.shape == "partial" and not form.of_list:
            raise _wrong_shape(f"PartialObjectMetadata, but the requested object is a list (*{_go_type(resource)}List)")
        if form.shape == "partial":
            items = [tables.partial(obj, form.meta_version) for obj in objects] or None
            api_version = f"meta.k8s.io/{form.meta_version}"
            return _yaml_if(
                form,
                {
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": api_version,
                    "metadata": meta,
                    "items": items or None,
                },
            )
        if not resource.custom:
            objects = [{k: v for k, v in obj.items() if k not in ("kind", "apiVersion")} for obj in objects]
        whole = {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": meta, "items": objects}
        return _yaml_if(form, whole)


def _deprecations(resource: Resource) -> list[tuple[str, str]]:
    """The warning headers of a streamed response, which must be set before it starts."""
    return warning_headers([resource.deprecation] if resource.deprecation else [])


def _warn_of_orphans(resource: Resource, options: Mapping[str, Any], context: Context) -> None:
    said = options.get("propagationPolicy") is not None or options.get("orphanDependents") is not None
    if resource.strategy.orphaning_warning and not said:
        context.warnings.append(resource.strategy.orphaning_warning)


def _decoded(request: Request, resource: Resource, context: Context, body: bytes, options: WriteOptions) -> Obj:
    obj, warnings = decoding.decode(resource, body, request.content_type, options.validation)
    context.warnings.extend(warnings)
    return obj


def context_of(request: Request, options: WriteOptions | None = None, weight_bytes: int = 0) -> Context:
    """The user, the field manager and whether it is a dry run, from a request."""
    options = options or options_of(request)
    return Context(request.user, options.manager, options.dry_run, request.warnings, options.shown or {}, weight_bytes)


def options_of(request: Request) -> WriteOptions:
    dry_run, user_agent = request.http.query.getall("dryRun", []), request.http.headers.get("User-Agent", "")
    is_apply = request.info.verb == "patch" and request.content_type.partition(";")[0].strip() in APPLY_TYPES
    return write_options(request.info.verb, request.query, dry_run, user_agent, is_apply=is_apply)


def _included(request: Request) -> str:
    """What of the object a row of a table holds."""
    include = request.query.get("includeObject", "")
    if include not in ("", "None", "Metadata", "Object"):
        fault = f"includeObject: Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
        raise bad_request(f"Unable to convert to Table as requested: {fault}")
    return include or "Metadata"


def _wrong_shape(text: str) -> StatusError:
    return StatusError(406, "NotAcceptable", f"you requested {text}", details=False)


def _go_type(resource: Resource) -> str:
    if resource.custom:
        return "unstructured.Unstructured"
    return f"{resource.group.partition('.')[0] or 'core'}.{resource.kind}"


def _newly(resource: Resource, obj: Obj) -> Obj:
    """An applied configuration that becomes a new object. It has no version yet, and cannot have a uid."""
    meta = obj["metadata"]
    meta.pop("resourceVersion", None)
    if uid := meta.get("uid"):
        raise unprocessable(
            resource.kind, resource.group, meta["name"], [invalid("metadata.uid", uid, "field is immutable")] * 2
        )
    return obj


def _patched(resource: Resource, patch: patched.Patch, old: Obj) -> Obj:
    match patch.media_type:
        case patched.JSON_PATCH:
            return json_patch.apply(old, patch.value)
        case patched.MERGE_PATCH:
            return merge_patch.apply(old, patch.value)
    return strategic.apply(old, patch.value, resource.schema)


def _yaml_if(form: Form, value: object) -> bytes:
    return as_yaml(value) if form.yaml else msgspec.json.encode(value)


def check_name(obj: Obj, name: str, namespace: str) -> None:
    """The object must be the one that the URL names."""
    meta = obj.get("metadata") or {}
    if not meta.get("name"):
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if meta["name"] != name:
        raise bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({name})")
    if namespace and (meta.get("namespace") or namespace) != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
