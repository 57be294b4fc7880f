"""One client's requests, one after the other, over one connection.

A request is handled by one task, which reads the body when it wants it: a client whose request is refused by its head
alone makes the server keep nothing. What is not read by then is dropped, or the connection goes. A client that takes
no answers is not read from either; one that sends no whole head within the idle time is cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast

from koord_minicluster.apiserver.wire import head
from koord_minicluster.apiserver.wire.answers import TEXT, Answer, Response

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

log = logging.getLogger(__name__)

LINGER_S: Final = 2.0
"How long a client that was refused in the middle of its request may take to notice."
_MOST_AHEAD_BYTES: Final = 256 << 10
"What may arrive before anyone asked for it."

_ARRIVING: Final = memoryview(bytearray(64 << 10))
"Where the loop puts what arrives. One for all: it is taken from there before anything else can happen."

Handler = Callable[["HttpRequest"], Awaitable[Answer]]


class TooLarge(Exception):
    """The body is larger than its reader wants it."""


class HttpRequest:
    """A request whose head has arrived."""

    __slots__ = (
        "_chunks", "_closes", "_connection", "_continues", "_head", "_left", "method", "path", "query", "streams",
    )  # fmt: skip

    def __init__(self, connection: Connection, parsed: head.Head) -> None:
        self._connection, self._head = connection, parsed
        self.method, self.path, self.query = parsed.method, parsed.path, parsed.query
        self._left = parsed.fields.length
        self._chunks = head.Chunks() if parsed.fields.chunked else None
        self._closes = not parsed.keeps_alive
        self._continues = not parsed.fields.expects_continue
        "Whether the client sends the body without waiting for 100 Continue, or was sent one."
        self.streams = False
        "Whether the response is a stream that has started."

    @property
    def headers(self) -> CIMultiDictProxy[str]:
        return self._head.fields.headers

    @property
    def modern(self) -> bool:
        return self._head.modern

    @property
    def transport(self) -> asyncio.Transport | None:
        return self._connection.transport

    @property
    def is_gone(self) -> bool:
        """Whether the client has left."""
        transport = self._connection.transport
        return transport is None or transport.is_closing()

    @property
    def closes(self) -> bool:
        """Whether the connection ends with the answer."""
        return self._closes or self._connection.stopping

    def close_after(self) -> None:
        self._closes = True

    def connection_line(self) -> str:
        if self.closes:
            return "Connection: close\r\n"
        return "" if self.modern else "Connection: keep-alive\r\n"

    async def body(self, most: int) -> bytes:
        """All of it. Raises TooLarge, BadHead where it is malformed, ConnectionResetError where the client is gone."""
        try:
            if self._left > most:
                raise TooLarge
            while (whole := self.arrived(most)) is None:
                if not self._continues:
                    self._continues = True
                    self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
                await self._connection.more()
        except (TooLarge, head.BadHead):
            self._closes = True
            raise
        return whole

    @property
    def is_read(self) -> bool:
        """Whether the body was taken, or there is none."""
        return not self._left and self._chunks is None

    async def drop_rest(self, most: int) -> bool:
        """Wait for an unread body and discard it; whether another request can follow."""
        if self._continues:
            with contextlib.suppress(TooLarge, head.BadHead, TimeoutError):
                if self.arrived(most) is None:
                    async with asyncio.timeout(LINGER_S):
                        await self.body(most)
                return True
        return self._left == 0 and self._chunks is None

    def look_at_chunks(self) -> None:
        """Raises BadHead where what has arrived of them is malformed."""
        if self._chunks is not None:
            self._chunks.take(self._connection.buffer)

    def arrived(self, most: int) -> bytes | None:
        """The body, if all of it is there; then it is taken."""
        buffer = self._connection.buffer
        if self._chunks is not None:
            self.look_at_chunks()
            if len(self._chunks.data) > most:
                raise TooLarge
            return bytes(self._chunks.data) if self._chunks.done else None
        if len(buffer) < self._left:
            return None
        if not self._left:
            return b""
        body = bytes(buffer[: self._left])
        del buffer[: self._left]
        self._left = 0
        return body

    def send(self, data: bytes) -> None:
        transport = self._connection.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        transport.write(data)

    async def drained(self) -> None:
        await self._connection.drained()

    def wait_for_reader(self) -> None:
        """A client that takes nothing of this answer for a while is not cut off: a person may look at it."""
        own = self.transport.get_extra_info("socket") if self.transport is not None else None
        if own is not None:
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0)
            own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def become_a_tunnel(self) -> None:
        """What follows in both directions is not HTTP. The connection ends with it."""
        self.streams = True
        self._closes = True
        self.wait_for_reader()

    async def received(self) -> bytes:
        """What has come through a tunnel. Raises ConnectionResetError once the client is gone."""
        buffer = self._connection.buffer
        while not buffer:
            await self._connection.more()
        piece = bytes(buffer)
        buffer.clear()
        return piece


class Connection(asyncio.BufferedProtocol):
    """The server's end of a connection. `connections` has all that are open.

    Buffered: where the loop itself makes the bytes that it hands on, it asks for much more room than they need.
    """

    def __init__(self, handle: Handler, connections: set[Connection], idle_s: float) -> None:
        self._handle, self._connections, self._idle_s = handle, connections, idle_s
        self.transport: asyncio.Transport | None = None
        self.buffer = bytearray()
        "Bytes received and not yet consumed."
        self.stopping = False
        self.ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._request: HttpRequest | None = None
        self._task: asyncio.Task[None] | None = None
        self._searched = 0
        self._more: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._is_reading = True
        self._drops = False
        self._idle_since_s = self._loop.time()
        self._idle_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports derive from nothing.
        self.transport = cast(asyncio.Transport, transport)
        self._connections.add(self)
        self._idle_timer = self._loop.call_later(self._idle_s, self._when_idle)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self._connections.discard(self)
        self.ended.set()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        lost = ConnectionResetError("the client is gone")
        for waiter in (self._more, self._writable):
            if waiter is not None and not waiter.done():
                waiter.set_exception(lost)
                # If no task waits, the exception is never retrieved; that is not a defect.
                waiter.exception()
        if self._task is not None and self._request is not None and self._request.streams:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    async def drained(self) -> None:
        """Wait until the client has taken enough of what was sent."""
        if self._writable is not None:
            await self._writable

    def get_buffer(self, sizehint: int) -> memoryview:
        return _ARRIVING

    def buffer_updated(self, nbytes: int) -> None:
        if self._drops:
            return
        self.buffer += _ARRIVING[:nbytes]
        if self._request is None:
            self._next()
        elif self._more is not None:
            if not self._more.done():
                self._more.set_result(None)
        elif len(self.buffer) > _MOST_AHEAD_BYTES and self._is_reading and self.transport is not None:
            self._is_reading = False
            self.transport.pause_reading()

    async def more(self) -> None:
        """Wait until more has arrived."""
        if self.transport is None:
            raise ConnectionResetError("the client is gone")
        self._read_on()
        self._more = self._loop.create_future()
        try:
            await self._more
        finally:
            self._more = None

    def stop(self) -> None:
        """Answer what is asked, and nothing more."""
        self.stopping = True
        if self._request is None and self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self.transport is not None:
            self.transport.abort()

    def _read_on(self) -> None:
        if not self._is_reading and self.transport is not None:
            self._is_reading = True
            self.transport.resume_reading()

    def _next(self) -> None:
        """Begin with the next request, if its head is there."""
        if self.transport is None or self._request is not None or self.transport.is_closing():
            return
        buffer = self.buffer
        if buffer.startswith(b"\r\n"):
            # Some clients end a body with a line break that does not belong to it.
            buffer[:] = buffer.lstrip(b"\r\n")
            self._searched = 0
        end = buffer.find(b"\r\n\r\n", max(0, self._searched - 3))
        if end > head.MOST_BYTES or (end < 0 and len(buffer) > head.MOST_BYTES):
            self._refuse(431)
            return
        if end < 0:
            self._searched = len(buffer)
            self._read_on()
            return
        text = bytes(buffer[:end])
        del buffer[: end + 4]
        self._searched = 0
        try:
            request = HttpRequest(self, head.parse(text))
            # Chunks that are none are refused whether or not anyone would have read them.
            request.look_at_chunks()
        except head.BadHead as bad:
            self._refuse(bad.status)
            return
        self._request = request
        task = _started(self._serve(request), self._loop)
        if not task.done():
            self._task = task

    async def _serve(self, request: HttpRequest) -> None:
        follows = False
        try:
            answer = await self._handle(request)
            if isinstance(answer, Response):
                if request.streams:
                    raise ConnectionResetError("a stream has failed")
                request.send(answer.encoded(request))
            if self._writable is not None:
                await self.drained()
            follows = request.is_read or await request.drop_rest(_MOST_AHEAD_BYTES)
            if follows and request.closes and self.transport is not None:
                self.transport.close()
        except ConnectionError:
            pass
        except Exception:
            log.exception("an answer could not be sent", extra={"method": request.method, "path": request.path})
        finally:
            self._request = self._task = None
            self._idle_since_s = self._loop.time()
            if not follows:
                self._linger()
        if self.buffer:
            self._loop.call_soon(self._next)
        else:
            self._read_on()

    def _refuse(self, status: int) -> None:
        """Answer an invalid request, and close the connection."""
        refused = Response(status, f"{status} {HTTPStatus(status).phrase}".encode(), TEXT, {"Connection": "close"})
        assert self.transport is not None
        self.transport.write(refused.encoded())
        self._linger()

    def _linger(self) -> None:
        """Close so that the client can read the answer: data it still sends must not meet a closed socket."""
        transport = self.transport
        if transport is None or transport.is_closing() or self._drops:
            return
        self._drops = True
        self.buffer.clear()
        self._read_on()
        self._loop.call_later(LINGER_S, transport.close)

    def _when_idle(self) -> None:
        now_s = self._loop.time()
        due_s = now_s + self._idle_s if self._request is not None else self._idle_since_s + self._idle_s
        if now_s < due_s:
            self._idle_timer = self._loop.call_at(due_s, self._when_idle)
        elif self.transport is not None:
            self.transport.abort()


def _started(work: Coroutine[None, None, None], loop: asyncio.AbstractEventLoop) -> asyncio.Task[None]:
    """A task that runs at once as far as it can, where the interpreter knows how."""
    if sys.version_info >= (3, 12):
        return asyncio.Task(work, loop=loop, eager_start=True)
    return loop.create_task(work)
