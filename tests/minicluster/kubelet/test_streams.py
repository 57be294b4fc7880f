"""What a streaming request asks for, and how an end is told."""

from __future__ import annotations

import msgspec
import pytest

from koord_minicluster.kubelet.streams import (
    BadStreamRequest,
    CommandOptions,
    WindowSize,
    command_options,
    ended,
    ports,
    window_sizes,
)


def test_a_terminal_has_one_output() -> None:
    options = command_options({"input": "1", "output": "1", "error": "1", "tty": "1"})
    assert options == CommandOptions(stdin=True, stdout=True, stderr=False, tty=True)
    assert options.channels == {"stdin", "stdout", "error", "resize"}


@pytest.mark.parametrize("query", [{}, {"tty": "1"}, {"error": "1", "tty": "1"}, {"output": "true"}])
def test_a_command_without_streams_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(BadStreamRequest, match="at least one of input, output and error"):
        command_options(query)


def test_ports_come_in_one_parameter_or_several() -> None:
    assert ports(["80,443", "8080"]) == [80, 443, 8080]


@pytest.mark.parametrize("text", ["0", "65536", "-1", "http", "", "80,", "٣"])
def test_what_is_no_port_is_named(text: str) -> None:
    with pytest.raises(BadStreamRequest, match="it must be a number from 1 to 65535"):
        ports([text])


def test_window_sizes_come_whole_or_in_pieces() -> None:
    sizes, left = window_sizes(b'{"Width":80,"Height":24}\n{"Width":81,"Hei')
    assert sizes == [WindowSize(80, 24)]
    assert window_sizes(left + b'ght":25}') == ([WindowSize(81, 25)], b"")


@pytest.mark.parametrize(
    "text", [b"}", b'{"Width":"x"}', b'{"Width":0,"Height":1}', b'{"Width":70000,"Height":1}', b"\0"]
)
def test_a_size_that_is_none_changes_nothing(text: bytes) -> None:
    assert window_sizes(text)[0] == []


def test_what_is_left_of_a_size_is_bounded() -> None:
    assert len(window_sizes(b"x" * 100_000)[1]) <= 1000


def test_the_code_is_told_where_clients_look() -> None:
    status = msgspec.json.decode(ended(7))
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]
    assert msgspec.json.decode(ended(0))["status"] == "Success"
