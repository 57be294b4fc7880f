"""What a streaming request to a kubelet asks for, and how a command's end is told: exec, attach, port-forward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from koord.api.text.whole_number import natural_number

ERROR, STDIN, STDOUT, STDERR, RESIZE = "error", "stdin", "stdout", "stderr", "resize"
CHANNELS: Final = (STDIN, STDOUT, STDERR, ERROR, RESIZE)
"""By their number in a WebSocket's messages."""
CLOSE_CHANNEL: Final = 255
"""The message with this number closes the channel that its second byte names (v5)."""

V5: Final = "v5.channel.k8s.io"
V4: Final = "v4.channel.k8s.io"
COMMAND_PROTOCOLS: Final = (V5, V4)
FORWARD: Final = "portforward.k8s.io"
TUNNEL: Final = f"SPDY/3.1+{FORWARD}"
"""SPDY inside of a WebSocket, as kubectl forwards ports since 1.31."""
FORWARD_PROTOCOLS: Final = (TUNNEL, V4)
MOST_PORTS: Final = 64
LARGEST_PORT: Final = 65535


class BadStreamRequest(ValueError):
    """The message names the parameter."""


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """Which of its streams the client wants, and whether the command gets a terminal."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool

    @property
    def channels(self) -> frozenset[str]:
        """The channels that the client opens."""
        wanted = {STDIN: self.stdin, STDOUT: self.stdout, STDERR: self.stderr, ERROR: True, RESIZE: self.tty}
        return frozenset(name for name, is_wanted in wanted.items() if is_wanted)


def command_options(query: Mapping[str, str]) -> CommandOptions:
    """Raises BadStreamRequest. A terminal has one output."""
    tty = query.get("tty") == "1"
    stdin, stdout, stderr = (query.get(name) == "1" for name in ("input", "output", "error"))
    options = CommandOptions(stdin, stdout, stderr and not tty, tty)
    if not (options.stdin or options.stdout or options.stderr):
        raise BadStreamRequest("at least one of input, output and error must be 1")
    return options


def ports(texts: Sequence[str]) -> list[int]:
    """The ports of a request by WebSocket, which names them beforehand. Raises BadStreamRequest."""
    numbers = [port_number(text) for listed in texts for text in listed.split(",")]
    if not numbers or len(numbers) > MOST_PORTS:
        raise BadStreamRequest(f"port names {len(numbers)} ports; between 1 and {MOST_PORTS} are forwarded")
    return numbers


def port_number(text: str) -> int:
    number = natural_number(text)
    if number is None or not 0 < number <= LARGEST_PORT:
        raise BadStreamRequest(f"port is {text[:20]!r}; it must be a number from 1 to {LARGEST_PORT}")
    return number


@dataclass(frozen=True, slots=True)
class WindowSize:
    columns: int
    rows: int


class _Size(msgspec.Struct, rename="pascal"):
    width: int = 0
    height: int = 0


def window_sizes(text: bytes) -> tuple[list[WindowSize], bytes]:
    """The sizes in what has arrived, one JSON object after the other, and what is left of it."""
    *whole, rest = text.replace(b"}", b"}\0").split(b"\0")
    sizes = []
    for one in whole:
        try:
            size = msgspec.json.decode(one, type=_Size)
        except msgspec.DecodeError:
            continue
        if 0 < size.width < 1 << 16 and 0 < size.height < 1 << 16:
            sizes.append(WindowSize(size.width, size.height))
    return sizes, rest[:1000].strip()


def ended(code: int) -> bytes:
    """The last word on the error channel, for a command that ran."""
    if code == 0:
        return msgspec.json.encode({"metadata": {}, "status": "Success"})
    message = f"command terminated with non-zero exit code: exit status {code}"
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return _failure(message, "NonZeroExitCode", details={"causes": causes})


def failed(message: str) -> bytes:
    """The last word on the error channel, for one that could not."""
    message = f"Internal error occurred: {message}"
    return _failure(message, "InternalError", code=500, details={"causes": [{"message": message}]})


def _failure(message: str, reason: str, **more: object) -> bytes:
    return msgspec.json.encode({"metadata": {}, "status": "Failure", "message": message, "reason": reason, **more})
