"""A small API server that misbehaves on command: lists in pages, watches, and every way in which they break.

It serves ConfigMaps over TLS on loopback, by Kubernetes' rules for versions, continue tokens, bookmarks and WatchList.
Tests change its objects, then break watches, expire history, drop bookmarks, or take the server away and back.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import trustme
from aiohttp import web

from koord.kube.cluster_config import ClusterConfig

Object = dict[str, Any]
Refusal = tuple[int, str, str]
"""Code, reason and message."""


@dataclass
class Watcher:
    lines: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    transport: asyncio.Transport | None = None


class ScriptedServer:
    """What a test tells it to be. `requests` has every query that came in."""

    def __init__(self, *, watch_list: bool | None = True) -> None:
        self.watch_list = watch_list
        "True: has WatchList. False: refuses it, as with the feature off. None: ignores it, as servers before 1.27."
        self.objects: dict[str, Object] = {}
        self.version = 1000
        self.requests: list[dict[str, str]] = []
        self.expire_next_continue = 0
        self.refuse_with: tuple[int, str] | None = None
        self.break_initial_events_after: int | None = None
        self.cut_streamed_lists = False
        self.refuse_streamed_lists: Refusal | None = None
        "With this answer, before a stream begins."
        self.fail_streamed_lists: Refusal | None = None
        "With this as an error inside the accepted stream."
        self._history: list[tuple[int, bytes]] = []
        self._compacted = 0
        self._snapshots: dict[str, tuple[int, list[Object]]] = {}
        self._watchers: list[Watcher] = []
        self._uids = 0
        self._ca = trustme.CA()
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._ca.issue_cert("127.0.0.1").configure_cert(self._tls)
        self._runner: web.AppRunner | None = None
        self.port = 0

    @property
    def config(self) -> ClusterConfig:
        return ClusterConfig(server=f"https://127.0.0.1:{self.port}", ca_data=self._ca.cert_pem.bytes())

    async def __aenter__(self) -> ScriptedServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/api/v1/configmaps", self._get)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self._tls, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Go away. Objects and history stay for a later `start`."""
        self.break_watches()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def put(self, name: str, **data: Any) -> Object:
        """Create or change a ConfigMap. `data` may be what no ConfigMap may have."""
        key = f"default/{name}"
        old = self.objects.get(key)
        self._uids += old is None
        self.version += 1
        made: Object = {
            "metadata": {
                "namespace": "default",
                "name": name,
                "uid": old["metadata"]["uid"] if old else f"uid-{self._uids}",
                "resourceVersion": str(self.version),
            },
            "data": data,
        }
        self.objects[key] = made
        self._record("MODIFIED" if old else "ADDED", made)
        return made

    def delete(self, name: str) -> None:
        gone = self.objects.pop(f"default/{name}")
        self.version += 1
        self._record("DELETED", {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}})

    def bookmark(self, *, advance: int = 0) -> None:
        """Tell watchers the present version, after `advance` changes of other kinds."""
        self.version += advance
        self._send(self._bookmark_line())

    def send(self, line: bytes) -> None:
        """Put any bytes on all watches."""
        self._send(line)

    def compact(self) -> None:
        """Forget all history: watches from before now get 410."""
        self._compacted = self.version
        self._history.clear()

    def break_watches(self) -> None:
        """Cut the connections of all watches."""
        for watcher in self._watchers:
            if watcher.transport is not None:
                watcher.transport.abort()
            watcher.lines.put_nowait(None)

    def end_watches(self) -> None:
        """End all watches in good order, as at their timeout."""
        for watcher in self._watchers:
            watcher.lines.put_nowait(None)

    def restore(self, version: int) -> None:
        """Become another history: no objects, no watchers, an older version."""
        self.objects.clear()
        self._history.clear()
        self._compacted = 0
        self.version = version

    @property
    def watching(self) -> int:
        return len(self._watchers)

    def versions(self) -> dict[str, str]:
        return {key: obj["metadata"]["resourceVersion"] for key, obj in self.objects.items()}

    def _record(self, type_: str, obj: Object) -> None:
        line = _line(type_, obj)
        self._history.append((self.version, line))
        self._send(line)

    def _send(self, line: bytes) -> None:
        for watcher in self._watchers:
            watcher.lines.put_nowait(line)

    def _bookmark_line(self, *, end: bool = False) -> bytes:
        metadata: Object = {"resourceVersion": str(self.version)}
        if end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        return _line("BOOKMARK", {"kind": "ConfigMap", "metadata": metadata})

    async def _get(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        self.requests.append(query)
        if self.refuse_with is not None:
            return _status(*self.refuse_with)
        return await self._watch(request, query) if query.get("watch") in ("1", "true") else self._list(query)

    def _list(self, query: dict[str, str]) -> web.Response:
        token = query.get("continue", "")
        if token:
            if self.expire_next_continue > 0:
                self.expire_next_continue -= 1
                return _status(410, "Expired")
            version, rest = self._snapshots.pop(token)
        else:
            version, rest = self.version, sorted(self.objects.values(), key=lambda obj: str(obj["metadata"]["name"]))
        limit = int(query.get("limit", "0")) or len(rest)
        metadata = {"resourceVersion": str(version)}
        if len(rest) > limit:
            metadata["continue"] = f"token-{len(self.requests)}"
            self._snapshots[metadata["continue"]] = (version, rest[limit:])
        return web.json_response({"kind": "ConfigMapList", "metadata": metadata, "items": rest[:limit]})

    async def _watch(self, request: web.Request, query: dict[str, str]) -> web.StreamResponse:
        initial = query.get("sendInitialEvents") == "true"
        if initial and self.watch_list is False:
            return _status(422, "Invalid")
        if initial and self.refuse_streamed_lists is not None:
            return _status(*self.refuse_streamed_lists)
        response = web.StreamResponse()
        await response.prepare(request)
        watcher = Watcher(transport=request.transport)
        since = query.get("resourceVersion", "")
        if since and int(since) < self._compacted:
            gone = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old"}
            await response.write(_line("ERROR", gone))
            return response
        for line in list(self._first_lines(since, initial and self.watch_list is True)):
            watcher.lines.put_nowait(line)
        self._watchers.append(watcher)
        try:
            while (line := await watcher.lines.get()) is not None:
                await response.write(line)
        except ConnectionError:
            pass
        finally:
            self._watchers.remove(watcher)
        return response

    def _first_lines(self, since: str, initial: bool) -> Iterator[bytes | None]:
        if since:
            yield from (line for version, line in self._history if version > int(since))
            return
        if initial and self.fail_streamed_lists is not None:
            code, reason, message = self.fail_streamed_lists
            status = {"kind": "Status", "status": "Failure", "reason": reason, "code": code, "message": message}
            yield _line("ERROR", status)
            yield None
        for number, obj in enumerate(list(self.objects.values())):
            if initial and self.cut_streamed_lists and number == 1:
                yield None
            if initial and number == self.break_initial_events_after:
                self.break_initial_events_after = None
                yield None
            yield _line("ADDED", obj)
        if initial:
            yield self._bookmark_line(end=True)


def _line(type_: str, obj: Object) -> bytes:
    return json.dumps({"type": type_, "object": obj}, separators=(",", ":")).encode() + b"\n"


def _status(code: int, reason: str, message: str = "") -> web.Response:
    message = message or f"scripted {reason}"
    body = {"kind": "Status", "status": "Failure", "reason": reason, "code": code, "message": message}
    return web.json_response(body, status=code)
