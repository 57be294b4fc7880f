"""The typed client: get, list, watch, create, patch, delete and the subresources of any `Kind`.

    async with Client.from_config() as client:
        pod = await client.get(PODS, "web", namespace="shop")

Objects come back decoded by their kind's type; what is sent is plain data or a struct. Everything raises the errors of
`koord.kube.errors`, or `DecodeError` for an object that cannot be read. `fenced` gives a view whose writes ask first.
"""

from __future__ import annotations

import builtins
import copy
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Final, Literal, Protocol, TypedDict, TypeVar, Unpack
from urllib.parse import quote

import msgspec

from koord.api.kinds import Kind
from koord.api.kubernetes.meta import ListMeta
from koord.api.machinery.codec import DecodeError, decode
from koord.api.machinery.struct import Struct
from koord.kube import discovery
from koord.kube.clock import Clock
from koord.kube.cluster_config import ClusterConfig
from koord.kube.discovery import Resources, ServerVersion
from koord.kube.errors import EvictionRefused, Gone, TooManyRequests
from koord.kube.pages import Page, TypedPage, raw_page, typed_page
from koord.kube.transport import Call, RequestObserver, Terms, Transport
from koord.kube.watch import Lines, WatchEvent, events

T = TypeVar("T", bound=Struct)
Query = tuple[tuple[str, str], ...]
PatchType = Literal["merge", "json", "strategic", "apply"]

PATCH_TYPES: Final[Mapping[str, str]] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}

PAGE_SIZE: Final = 500
WATCH_S: Final = 420.0
WATCH_IDLE_S: Final = 150.0
"""A server on which nothing happens sends its first bookmark after two minutes, or none at all."""
PLAIN: Final = "application/json"
# A server that cannot leave out the rest sends whole objects; only their metadata is read.
PARTIAL: Final = f"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{PLAIN}"
PARTIAL_LIST: Final = f"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{PLAIN}"


class _HasMetadata(Protocol):
    @property
    def metadata(self) -> ListMeta: ...


P = TypeVar("P", bound=_HasMetadata)


class ListOptions(TypedDict, total=False):
    """Which objects to list."""

    namespace: str
    labels: str
    fields: str
    limit: int
    "Objects per page; 0: all in one."
    resource_version: str
    resource_version_match: str


class ScaleSpec(Struct):
    replicas: int = 0


class ScaleStatus(Struct):
    replicas: int = 0
    selector: str = ""


class Scale(Struct):
    """How many copies a workload should have, and has."""

    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()


class Client:
    """One cluster, one caller. All methods may be used concurrently."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        user_agent: str = "koord",
        qps: float | None = None,
        burst: int | None = None,
        timeout_s: float = 30.0,
        clock: Clock | None = None,
    ) -> None:
        self.config = config
        self._transport = Transport(config, user_agent=user_agent, qps=qps, burst=burst, clock=clock)
        self._terms = Terms(timeout_s=timeout_s)
        self._accept, self._accept_list = PLAIN, PLAIN

    @classmethod
    def from_config(
        cls,
        path: str | None = None,
        context: str | None = None,
        *,
        user_agent: str = "koord",
        qps: float | None = None,
        burst: int | None = None,
        timeout_s: float = 30.0,
    ) -> Client:
        """A client for the cluster that kubectl would use: `path`, $KUBECONFIG, ~/.kube/config, the service account."""
        from koord.kube.locate import locate

        return cls(locate(path, context), user_agent=user_agent, qps=qps, burst=burst, timeout_s=timeout_s)

    async def __aenter__(self) -> Client:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.close()

    def observe(self, observer: RequestObserver) -> None:
        """From here on, `observer` is called for every request of this client and its views, for metrics."""
        self._transport.observer = observer

    def fenced(self, check: Callable[[], None]) -> Client:
        """A view of this client whose writes call `check` right before they are sent, on every attempt.

        What `check` raises comes out of the call, and nothing was sent.
        """
        return self._with(replace(self._terms, check=check))

    def limited(self, *, timeout_s: float | None = None, attempts: int | None = None) -> Client:
        """A view of this client that gives up sooner (or later): `limited(timeout_s=5, attempts=1)`."""
        retry = self._terms.retry if attempts is None else replace(self._terms.retry, attempts=attempts)
        return self._with(replace(self._terms, timeout_s=timeout_s or self._terms.timeout_s, retry=retry))

    def metadata_only(self) -> Client:
        """A view of this client that gets, lists and watches objects without anything but their metadata."""
        view = copy.copy(self)
        view._accept, view._accept_list = PARTIAL, PARTIAL_LIST
        return view

    def _with(self, terms: Terms) -> Client:
        view = copy.copy(self)
        view._terms = terms
        return view

    async def get(self, kind: Kind[T], name: str, *, namespace: str = "", resource_version: str = "") -> T:
        body = await self.get_bytes(kind, name, namespace=namespace, resource_version=resource_version)
        return _read(kind.type, body, _what(kind, name, namespace))

    async def get_bytes(
        self, kind: Kind[T], name: str, *, namespace: str = "", resource_version: str = "", subresource: str = ""
    ) -> bytes:
        """The object as the server sent it."""
        call = Call(
            "GET",
            kind.path(_required(kind, name, namespace, "get"), namespace=namespace, subresource=subresource),
            _query(resourceVersion=resource_version),
            accept=self._accept,
            verb=f"get {subresource} of" if subresource else "get",
            what=_what(kind, name, namespace),
        )
        return (await self._transport.call(call, self._terms)).body

    async def list(self, kind: Kind[T], **options: Unpack[ListOptions]) -> builtins.list[T]:
        """All objects, fetched in pages. An object that cannot be read fails the call with its name."""
        objects: builtins.list[T] = []
        try:
            async for page in self.typed_pages(kind, **options):
                objects += page.items
        except Gone:
            if not objects:
                raise
            # The pages expired on the way: one answer without pages is consistent, if big.
            whole: ListOptions = {**options, "limit": 0, "resource_version": "", "resource_version_match": ""}
            objects = [item async for page in self.typed_pages(kind, **whole) for item in page.items]
        return objects

    def list_pages(self, kind: Kind[T], **options: Unpack[ListOptions]) -> AsyncGenerator[Page, None]:
        """The objects page by page, each as its bytes. `Gone` when the pages expire on the way."""
        return self._pages(kind, partial(raw_page, kind), **options)

    def typed_pages(self, kind: Kind[T], **options: Unpack[ListOptions]) -> AsyncGenerator[TypedPage[T], None]:
        """As `list_pages`, decoded in one pass: cheaper than decoding raw items if all are needed typed."""
        return self._pages(kind, partial(typed_page, kind), **options)

    async def _pages(
        self,
        kind: Kind[T],
        read: Callable[[bytes], P],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        limit: int = PAGE_SIZE,
        resource_version: str = "",
        resource_version_match: str = "",
    ) -> AsyncGenerator[P, None]:
        """Pages as `read` decodes them. Only the first names a version: its token carries the version to the next."""
        scope, size = _query(labelSelector=labels, fieldSelector=fields), _query(limit=str(limit) if limit else "")
        position = _query(resourceVersion=resource_version, resourceVersionMatch=resource_version_match)
        what = f"{kind.resource} in {namespace}" if namespace else kind.resource
        while True:
            query = (*scope, *position, *size)
            call = Call("GET", kind.path(namespace=namespace), query, accept=self._accept_list, verb="list", what=what)
            page = read((await self._transport.call(call, self._terms)).body)
            yield page
            if not page.metadata.continue_:
                return
            position = _query(**{"continue": page.metadata.continue_})

    async def watch(
        self,
        kind: Kind[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        bookmarks: bool = True,
        send_initial_events: bool = False,
        timeout_s: float = WATCH_S,
        idle_s: float | None = None,
    ) -> AsyncGenerator[builtins.list[WatchEvent], None]:
        """Changes since `resource_version`, in batches, until the server ends the watch.

        The first batch is empty and says that the server has accepted, also where nothing happens for long.
        `send_initial_events` asks for existing objects first; a bookmark annotated `k8s.io/initial-events-end` ends it.
        Raises `Gone` when the version is no longer kept and `Silent` when nothing came for `idle_s`. Use it under
        `contextlib.aclosing` where it may be left early: the connection is closed with it.
        """
        query = _query(
            watch="true",
            labelSelector=labels,
            fieldSelector=fields,
            resourceVersion=resource_version,
            resourceVersionMatch="NotOlderThan" if send_initial_events else "",
            allowWatchBookmarks="true" if bookmarks else "",
            sendInitialEvents="true" if send_initial_events else "",
            timeoutSeconds=str(max(1, round(timeout_s))),
        )
        what = f"{kind.resource} in {namespace}" if namespace else kind.resource
        call = Call("GET", kind.path(namespace=namespace), query, accept=self._accept, verb="watch", what=what)
        if idle_s is None:
            idle_s = WATCH_IDLE_S if bookmarks else timeout_s + 30.0
        lines = Lines()
        async with self._transport.stream(call, self._terms, idle_s=idle_s) as response:
            yield []
            while piece := await response.content.readany():
                batch, error = events(lines.feed(piece), what)
                if batch:
                    yield batch
                if error is not None:
                    raise error

    async def create(
        self,
        kind: Kind[T],
        obj: T | Mapping[str, object],
        *,
        namespace: str = "",
        dry_run: bool = False,
        field_manager: str = "",
        subresource: str = "",
        name: str = "",
    ) -> T:
        """Creates `obj`, in `namespace` or the one that it names. `name` is needed for a subresource only."""
        body, own_name, own_namespace = _outgoing(kind, obj)
        namespace = namespace or own_namespace
        if kind.namespaced and not namespace:
            raise ValueError(f"create {kind} {own_name}: needs a namespace")
        call = Call(
            "POST",
            kind.path(name if subresource else "", namespace=namespace, subresource=subresource),
            _query(dryRun="All" if dry_run else "", fieldManager=field_manager),
            body,
            verb=f"create {subresource} of" if subresource else "create",
            what=_what(kind, own_name or name, namespace),
        )
        return await self._object(kind.type, call)

    async def update(
        self,
        kind: Kind[T],
        obj: T | Mapping[str, object],
        *,
        namespace: str = "",
        dry_run: bool = False,
        field_manager: str = "",
        subresource: str = "",
    ) -> T:
        """Replaces an object whole. With a resourceVersion in it, `Conflict` if it has changed since.

        Only for objects that koord owns entirely: a struct knows fewer fields than the server, a PUT drops the rest.
        """
        body, name, own_namespace = _outgoing(kind, obj)
        namespace = namespace or own_namespace
        call = Call(
            "PUT",
            kind.path(_required(kind, name, namespace, "update"), namespace=namespace, subresource=subresource),
            _query(dryRun="All" if dry_run else "", fieldManager=field_manager),
            body,
            verb=f"update {subresource} of" if subresource else "update",
            what=_what(kind, name, namespace),
        )
        return await self._object(kind.type, call)

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        patch: object,
        *,
        namespace: str = "",
        type: PatchType = "merge",
        field_manager: str = "",
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
    ) -> T:
        """Changes what `patch` names and nothing else. An apply gets its apiVersion, kind and name filled in."""
        if type == "apply":
            if not field_manager:
                raise ValueError("an apply needs a field_manager: the server records who owns which field")
            if not isinstance(patch, Mapping):
                raise ValueError("an apply needs the object as a map")
            metadata = patch.get("metadata")
            named = {"name": name, **(metadata if isinstance(metadata, Mapping) else {})}
            patch = {"apiVersion": kind.api_version, "kind": kind.kind, **patch, "metadata": named}
        call = Call(
            "PATCH",
            kind.path(_required(kind, name, namespace, "patch"), namespace=namespace, subresource=subresource),
            _query(
                dryRun="All" if dry_run else "",
                fieldManager=field_manager,
                force="true" if force and type == "apply" else "",
            ),
            msgspec.json.encode(patch),
            PATCH_TYPES[type],
            verb=f"patch {subresource} of" if subresource else ("apply" if type == "apply" else "patch"),
            what=_what(kind, name, namespace),
        )
        return await self._object(kind.type, call)

    async def delete(
        self,
        kind: Kind[T],
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        resource_version: str = "",
        grace_s: int | None = None,
        propagation: str = "",
        dry_run: bool = False,
        options: Mapping[str, object] | None = None,
    ) -> None:
        """Deletes one object: only the one with this `uid`, in this version, where they are given (else `Conflict`).
        `options`: further fields of the DeleteOptions."""
        options = _delete_options(uid, resource_version, grace_s, propagation, dry_run, options)
        call = Call(
            "DELETE",
            kind.path(_required(kind, name, namespace, "delete"), namespace=namespace),
            body=msgspec.json.encode(options),
            verb="delete",
            what=_what(kind, name, namespace),
        )
        await self._transport.call(call, self._terms)

    async def delete_collection(
        self,
        kind: Kind[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        grace_s: int | None = None,
        propagation: str = "",
        dry_run: bool = False,
    ) -> None:
        """Deletes all objects of a namespace that the selectors match."""
        call = Call(
            "DELETE",
            kind.path(namespace=namespace),
            _query(labelSelector=labels, fieldSelector=fields),
            msgspec.json.encode(_delete_options("", "", grace_s, propagation, dry_run)),
            verb="delete",
            what=f"{kind.resource} in {namespace}" if namespace else kind.resource,
        )
        await self._transport.call(call, self._terms)

    async def bind(
        self, namespace: str, pod: str, node: str, *, uid: str = "", annotations: Mapping[str, str] | None = None
    ) -> None:
        """Puts a pod on a node. `Conflict` when it is on one, or when it is not the pod with this `uid`."""
        metadata: dict[str, object] = {"name": pod, "namespace": namespace}
        if uid:
            metadata["uid"] = uid
        if annotations:
            metadata["annotations"] = dict(annotations)
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        await self._pod_subresource("binding", namespace, pod, body, verb=f"bind to node {node}")

    async def evict(
        self,
        namespace: str,
        pod: str,
        *,
        grace_s: int | None = None,
        uid: str = "",
        dry_run: bool = False,
        options: Mapping[str, object] | None = None,
    ) -> None:
        """Asks for a pod's end. `EvictionRefused` when a disruption budget does not allow it at this time. `options`:
        further fields of the DeleteOptions."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": _delete_options(uid, "", grace_s, "", dry_run, options),
        }
        try:
            await self._pod_subresource("eviction", namespace, pod, body, verb="evict")
        except TooManyRequests as error:
            if any(cause.reason == "DisruptionBudget" for cause in error.status.details.causes):
                raise EvictionRefused(error.status, verb=error.verb, what=error.what) from None
            raise

    async def _pod_subresource(self, subresource: str, namespace: str, pod: str, body: object, *, verb: str) -> None:
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}/{subresource}"
        call = Call("POST", path, (), msgspec.json.encode(body), verb=verb, what=f"Pod {namespace}/{pod}")
        await self._transport.call(call, self._terms)

    async def _object(self, type_: type[T], call: Call) -> T:
        return _read(type_, (await self._transport.call(call, self._terms)).body, call.what)

    async def get_scale(self, kind: Kind[T], name: str, *, namespace: str = "") -> Scale:
        body = await self.get_bytes(kind, name, namespace=namespace, subresource="scale")
        return _read(Scale, body, f"scale of {_what(kind, name, namespace)}")

    async def set_scale(
        self, kind: Kind[T], name: str, replicas: int, *, namespace: str = "", field_manager: str = ""
    ) -> Scale:
        call = Call(
            "PATCH",
            kind.path(_required(kind, name, namespace, "scale"), namespace=namespace, subresource="scale"),
            _query(fieldManager=field_manager),
            msgspec.json.encode({"spec": {"replicas": replicas}}),
            PATCH_TYPES["merge"],
            verb="scale",
            what=_what(kind, name, namespace),
        )
        return await self._object(Scale, call)

    async def raw(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Any call: status, headers and bytes of an answer below 300; the typed error of any other."""
        call = Call(
            method, path, tuple((query or {}).items()), body, content_type, accept, verb=method.lower(), what=path
        )
        answer = await self._transport.call(call, self._terms)
        return answer.status, answer.headers, answer.body

    async def server_version(self) -> ServerVersion:
        return await discovery.server_version(self._fetch)

    async def resources(self) -> Resources:
        """All kinds that the server serves. Costs two calls (many on old servers): keep the answer."""
        return await discovery.discover(self._fetch)

    async def _fetch(self, path: str, accept: str) -> bytes:
        call = Call("GET", path, accept=accept, verb="get", what=path)
        return (await self._transport.call(call, self._terms)).body

    async def stream(
        self, path: str, query: Mapping[str, str] | None = None, *, idle_s: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The bytes of a long answer as they come, for example a container's log with `follow`."""
        call = Call("GET", path, tuple((query or {}).items()), accept="*/*", verb="read", what=path)
        async with self._transport.stream(call, self._terms, idle_s=idle_s) as response:
            while piece := await response.content.readany():
                yield piece


def _read(type_: type[T], body: bytes, what: str) -> T:
    """An answer's object. Where an unreadable one does not say its name, the fault says what was asked for."""
    try:
        return decode(type_, body)
    except DecodeError as error:
        raise DecodeError(error.what if " " in error.what else what, error.path, error.fault) from None


def _query(**parameters: str) -> Query:
    """URL parameters, those that are set."""
    return tuple((key, value) for key, value in parameters.items() if value)


def _what(kind: Kind[T], name: str, namespace: str) -> str:
    who = f"{namespace}/{name}" if namespace and kind.namespaced else name
    return f"{kind.kind} {who}".rstrip()


def _required(kind: Kind[T], name: str, namespace: str, verb: str) -> str:
    """`name`, if the call says enough: without it the path would be that of the whole collection."""
    if not name:
        raise ValueError(f"{verb} {kind}: needs the object's name")
    if kind.namespaced and not namespace:
        raise ValueError(f"{verb} {kind} {name}: needs a namespace")
    return name


def _outgoing(kind: Kind[T], obj: T | Mapping[str, object]) -> tuple[bytes, str, str]:
    """An object ready to be sent, with its name and namespace."""
    if isinstance(obj, Mapping):
        data: Mapping[str, object] = {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
    else:
        data = kind.manifest(obj)
    metadata = data.get("metadata")
    if not isinstance(metadata, Mapping):
        return msgspec.json.encode(data), "", ""
    name, namespace = metadata.get("name"), metadata.get("namespace")
    return msgspec.json.encode(data), str(name or ""), str(namespace or "") if kind.namespaced else ""


def _delete_options(
    uid: str,
    resource_version: str,
    grace_s: int | None,
    propagation: str,
    dry_run: bool,
    more: Mapping[str, object] | None = None,
) -> dict[str, object]:
    options: dict[str, object] = {**(more or {}), "apiVersion": "v1", "kind": "DeleteOptions"}
    given = options.get("preconditions")
    own = {key: value for key, value in (("uid", uid), ("resourceVersion", resource_version)) if value}
    # Preconditions in `more` win: an object that their author did not mean is not deleted.
    preconditions = {**own, **(given if isinstance(given, dict) else {})}
    if preconditions:
        options["preconditions"] = preconditions
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    if propagation:
        options["propagationPolicy"] = propagation
    if dry_run:
        options["dryRun"] = ["All"]
    return options
