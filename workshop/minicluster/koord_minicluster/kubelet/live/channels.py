"""The channels of a streaming connection: stdin, stdout and the like, over a WebSocket or SPDY, on the kubelet's side.

A channel takes no more than its reader: what a client sends ahead waits in the connection, and then in the client. A
writer waits while the client is slow. `receive` of a connection runs as long as the client is there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

from aiohttp import WSMsgType, web
from aiohttp.http_websocket import WSMessage

from koord_minicluster.kubelet import spdy
from koord_minicluster.kubelet.streams import CLOSE_CHANNEL, V5

MOST_UNREAD_BYTES: Final = 64 << 10
"""Of a channel. Then the connection is not read either."""
MOST_STREAMS: Final = 1000
"""Open at a time over one SPDY connection."""
CLOSE_WITHIN_S: Final = 2.0
UPGRADE: Final = "SPDY/3.1"
STREAM_PROTOCOL: Final = "X-Stream-Protocol-Version"


class Channel:
    """The bytes of one stream, in both directions."""

    def __init__(self, send: Callable[[bytes], Awaitable[None]], close: Callable[[], Awaitable[None]]) -> None:
        self._send, self._close = send, close
        self._unread: deque[bytes] = deque()
        self._size = 0
        self._has_ended = self._is_closed = False
        self._changed = asyncio.Event()

    async def read(self) -> bytes:
        """The next bytes; none at the end."""
        while not self._unread:
            if self._has_ended:
                return b""
            await self._wait()
        piece = self._unread.popleft()
        self._size -= len(piece)
        self._changed.set()
        return piece

    async def write(self, piece: bytes) -> None:
        if piece and not self._is_closed:
            await self._send(piece)

    async def close(self) -> None:
        """Nothing more is written."""
        if not self._is_closed:
            self._is_closed = True
            await self._close()

    async def feed(self, piece: bytes) -> None:
        """Waits until there is room."""
        while self._size > MOST_UNREAD_BYTES and not self._has_ended:
            await self._wait()
        if piece and not self._has_ended:
            self._unread.append(piece)
            self._size += len(piece)
            self._changed.set()

    def end(self) -> None:
        """The client sends nothing more, or is not listened to."""
        self._has_ended = True
        self._changed.set()

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()


class Connection(Protocol):
    @property
    def response(self) -> web.StreamResponse: ...

    async def receive(self) -> None:
        """Fills the channels until the client is gone."""
        ...

    async def ping(self) -> None: ...

    async def close(self) -> None: ...


class WebSocketChannels:
    """Channels by their numbers: each message begins with one."""

    def __init__(self, ws: web.WebSocketResponse, count: int) -> None:
        self._ws = ws
        self.channels = [self._channel(number) for number in range(count)]
        self._tells_ends = ws.ws_protocol == V5

    @property
    def response(self) -> web.StreamResponse:
        return self._ws

    async def ping(self) -> None:
        await self._ws.ping()

    async def receive(self) -> None:
        while (message := await received(self._ws)) is not None:
            number, piece = message[0] if message else 0, message[1:]
            if self._tells_ends and number == CLOSE_CHANNEL:
                for closed in piece:
                    if closed < len(self.channels):
                        self.channels[closed].end()
            elif number < len(self.channels):
                await self.channels[number].feed(piece)

    async def close(self) -> None:
        await self._ws.close()

    def _channel(self, number: int) -> Channel:
        head = bytes([number])

        async def send(piece: bytes) -> None:
            await self._ws.send_bytes(head + piece)

        async def close() -> None:
            # Only clients tell the end of a channel; for them it is the end of the connection.
            pass

        return Channel(send, close)


class Pipe(Protocol):
    """Bytes to and from a client, whatever carries them."""

    @property
    def response(self) -> web.StreamResponse: ...

    async def receive(self) -> bytes | None:
        """None at the end."""
        ...

    async def send(self, piece: bytes) -> None: ...

    async def close(self) -> None: ...


class Tunnel:
    """A WebSocket whose messages are SPDY."""

    def __init__(self, ws: web.WebSocketResponse) -> None:
        self._ws = ws

    @property
    def response(self) -> web.StreamResponse:
        return self._ws

    async def receive(self) -> bytes | None:
        return await received(self._ws)

    async def send(self, piece: bytes) -> None:
        await self._ws.send_bytes(piece)

    async def close(self) -> None:
        await self._ws.close()


class Upgraded:
    """The connection itself, once HTTP has ended on it."""

    def __init__(self, request: web.Request, protocol: str) -> None:
        headers = {"Upgrade": UPGRADE, "Connection": "Upgrade", STREAM_PROTOCOL: protocol}
        self._response = web.StreamResponse(status=101, headers=headers)
        self._request = request
        self._unread: deque[bytes] = deque()
        self._has_ended = self._is_paused = False
        self._changed = asyncio.Event()

    @property
    def response(self) -> web.StreamResponse:
        return self._response

    async def open(self) -> None:
        self._response.force_close()
        self._request.protocol.set_parser(self)  # type: ignore[arg-type]  # anything that is fed
        await self._response.prepare(self._request)

    # These three make it a parser of aiohttp's.

    def feed_data(self, piece: bytes) -> tuple[bool, bytes]:
        self._unread.append(bytes(piece))
        self._changed.set()
        if not self._is_paused and sum(map(len, self._unread)) > MOST_UNREAD_BYTES:
            self._pause(True)
        return False, b""

    def feed_eof(self) -> None:
        self._has_ended = True
        self._changed.set()

    def set_exception(self, error: type[BaseException] | BaseException, cause: BaseException | None = None) -> None:
        self.feed_eof()

    async def receive(self) -> bytes | None:
        while not self._unread:
            if self._has_ended:
                return None
            if self._is_paused:
                self._pause(False)
            self._changed.clear()
            await self._changed.wait()
        piece = b"".join(self._unread)
        self._unread.clear()
        return piece

    def _pause(self, is_paused: bool) -> None:
        self._is_paused = is_paused
        transport = self._request.transport
        if transport is not None and not transport.is_closing():
            (transport.pause_reading if is_paused else transport.resume_reading)()

    async def send(self, piece: bytes) -> None:
        await self._response.write(piece)

    async def close(self) -> None:
        if self._request.transport is not None:
            self._request.transport.close()


class SpdyChannels:
    """Streams that the client opens, each given to `on_open` with its number and headers."""

    def __init__(self, pipe: Pipe, on_open: Callable[[int, Mapping[str, str], Channel], Awaitable[None]]) -> None:
        self._pipe, self._on_open = pipe, on_open
        self._encoder = spdy.Encoder()
        self._channels: dict[int, Channel] = {}

    @property
    def response(self) -> web.StreamResponse:
        return self._pipe.response

    async def receive(self) -> None:
        decoder = spdy.Decoder()
        try:
            while (piece := await self._pipe.receive()) is not None:
                for frame in decoder.frames(piece):
                    if isinstance(frame, spdy.GoAway):
                        return
                    await self._take(frame)
        except spdy.SpdyError:
            return

    async def ping(self) -> None:
        await self._pipe.send(self._encoder.ping(2))

    async def close(self) -> None:
        await self._pipe.close()

    async def _take(self, frame: spdy.Frame) -> None:
        match frame:
            case spdy.Opened(stream, headers, is_last):
                if stream in self._channels or len(self._channels) >= MOST_STREAMS:
                    await self._pipe.send(self._encoder.reset(stream))
                    return
                channel = self._channels[stream] = self._channel(stream)
                if is_last:
                    channel.end()
                await self._pipe.send(self._encoder.reply(stream))
                await self._on_open(stream, headers, channel)
            case spdy.Data(stream, data, is_last):
                opened = self._channels.get(stream)
                if opened is not None:
                    await opened.feed(data)
                    if is_last:
                        opened.end()
            case spdy.Reset(stream):
                opened = self._channels.pop(stream, None)
                if opened is not None:
                    opened.end()
            case spdy.Ping(number):
                if number % 2:
                    await self._pipe.send(self._encoder.ping(number))

    def _channel(self, stream: int) -> Channel:
        async def send(piece: bytes) -> None:
            # A stream that the client has reset takes nothing more.
            if stream in self._channels:
                await self._pipe.send(self._encoder.data(stream, piece))

        async def close() -> None:
            if self._channels.pop(stream, None) is not None:
                await self._pipe.send(self._encoder.data(stream, b"", is_last=True))

        return Channel(send, close)


async def accepted(request: web.Request, protocols: Sequence[str]) -> web.WebSocketResponse:
    """The WebSocket, if the client speaks one of the protocols."""
    ws = web.WebSocketResponse(protocols=protocols, timeout=CLOSE_WITHIN_S, compress=False, max_msg_size=1 << 20)
    offered = ws.can_prepare(request)
    if not offered.ok:
        raise web.HTTPBadRequest(text="malformed WebSocket request\n")
    if offered.protocol is None:
        asked = request.headers.get("Sec-WebSocket-Protocol", "none")
        taken = ", ".join(protocols)
        raise web.HTTPBadRequest(text=f"the WebSocket's protocols are {asked[:200]}; one of {taken} is needed\n")
    await ws.prepare(request)
    return ws


async def received(ws: web.WebSocketResponse) -> bytes | None:
    """The next message; None once the client is gone."""
    message: WSMessage = await ws.receive()
    match message.type:
        case WSMsgType.BINARY:
            return bytes(message.data)
        case WSMsgType.TEXT:
            return str(message.data).encode()
    return None


def is_websocket(request: web.Request) -> bool:
    return request.headers.get("Upgrade", "").lower() == "websocket"


def is_spdy(request: web.Request) -> bool:
    return request.headers.get("Upgrade", "").lower() == UPGRADE.lower()


async def upgraded(request: web.Request, protocol: str) -> Upgraded:
    """The connection as SPDY, if the client offers the protocol."""
    offered = [name.strip() for line in request.headers.getall(STREAM_PROTOCOL, ()) for name in line.split(",")]
    if protocol not in offered:
        asked = ", ".join(offered) or "none"
        raise web.HTTPForbidden(text=f"the stream protocols are {asked[:200]}; {protocol} is needed\n")
    pipe = Upgraded(request, protocol)
    await pipe.open()
    return pipe
