"""Heads of requests: what is taken, what is refused, and where bodies end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord_minicluster.apiserver.wire import head
from koord_minicluster.apiserver.wire.head import BadHead, Chunks


def parsed(*lines: str) -> head.Head:
    return head.parse("\r\n".join(lines).encode("latin-1"))


def test_a_head_is_a_method_a_path_a_query_and_fields() -> None:
    found = parsed("GET /api/v1/pods?limit=5&a=&dryRun=All&dryRun=x HTTP/1.1", "Host: a", "accept:  text/x \t")
    assert (found.method, found.path, found.modern) == ("GET", "/api/v1/pods", True)
    assert found.query.getall("dryRun") == ["All", "x"]
    assert found.query["a"] == ""
    assert found.fields.headers["Accept"] == "text/x"
    assert (found.fields.length, found.fields.chunked) == (0, False)


def test_escapes_stay_in_the_path_and_not_in_the_query() -> None:
    found = parsed("GET /a%2fb%20c?labelSelector=a%3Db+c HTTP/1.1", "Host: a")
    assert found.path == "/a%2fb%20c"
    assert found.query["labelSelector"] == "a=b c"


@pytest.mark.parametrize(
    ("target", "path"),
    [("/", "/"), ("http://a.example/x?y", "/x"), ("https://a.example:1", "/"), ("http://a?b=c", "/"), ("//x", "//x")],
)
def test_a_target_may_name_its_server(target: str, path: str) -> None:
    assert parsed(f"GET {target} HTTP/1.1", "Host: a").path == path


@pytest.mark.parametrize(
    ("lines", "alive"),
    [
        (("GET / HTTP/1.1", "Host: a"), True),
        (("GET / HTTP/1.1", "Host: a", "Connection: Close"), False),
        (("GET / HTTP/1.1", "Host: a", "Connection: x, close"), False),
        (("GET / HTTP/1.1", "Host: a", "Connection: upgrade"), True),
        (("GET / HTTP/1.0",), False),
        (("GET / HTTP/1.0", "Connection: keep-alive"), True),
    ],
)
def test_connections_stay_open_unless_said_or_old(lines: tuple[str, ...], alive: bool) -> None:
    assert parsed(*lines).keeps_alive is alive


@pytest.mark.parametrize(
    "lines",
    [
        ("",),
        ("hello",),
        ("GET /",),
        ("GET  / HTTP/1.1", "Host: a"),
        ("GET / HTTP/1.1", "Host: a", "host: a"),
        ("GET / HTTP/1.1 ", "Host: a"),
        ("GET / HTTP/2.0", "Host: a"),
        ("GET / http/1.1", "Host: a"),
        ("GE T / HTTP/1.1", "Host: a"),
        ("GET /a b HTTP/1.1", "Host: a"),
        ("GET /\x00 HTTP/1.1", "Host: a"),
        ("GET /\xff HTTP/1.1", "Host: a"),
        ("GET * HTTP/1.1", "Host: a"),
        ("CONNECT a:80 HTTP/1.1", "Host: a"),
        ("GET / HTTP/1.1",),
        ("GET / HTTP/1.1", "Host a"),
        ("GET / HTTP/1.1", "Host : a"),
        ("GET / HTTP/1.1", ": a", "Host: a"),
        ("GET / HTTP/1.1", "Host: a", "X: b\x00"),
        ("GET / HTTP/1.1", "Host: a", "X: b\nY: c"),
        ("GET / HTTP/1.1", "Host: a", "X: b\rY: c"),
        ("GET / HTTP/1.1", "Host: a", "X: b", " folded"),
        ("GET / HTTP/1.1", "Host: a", "X: b", "\tfolded"),
        ("GET / HTTP/1.1", "Host: a", "", "X: b"),
        ("POST / HTTP/1.1", "Host: a", "Content-Length: -1"),
        ("POST / HTTP/1.1", "Host: a", "Content-Length: +1"),
        ("POST / HTTP/1.1", "Host: a", "Content-Length: 1 1"),
        ("POST / HTTP/1.1", "Host: a", "Content-Length: 0x1"),
        ("POST / HTTP/1.1", "Host: a", "Content-Length: 1_0"),
        ("POST / HTTP/1.1", "Host: a", "Content-Length:"),
        ("POST / HTTP/1.1", "Host: a", "Content-Length: " + "9" * 19),
        ("POST / HTTP/1.1", "Host: a", "Content-Length: 1", "Content-Length: 1"),
        ("POST / HTTP/1.1", "Host: a", "Content-Length: 1", "Transfer-Encoding: chunked"),
        ("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: gzip, chunked"),
        ("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        ("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: xchunked"),
        ("POST / HTTP/1.0", "Transfer-Encoding: chunked"),
        ("POST / HTTP/1.1", "Host: a", "Expect: 200-ok"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(lines: tuple[str, ...]) -> None:
    with pytest.raises(BadHead) as refused:
        parsed(*lines)
    assert refused.value.status in (400, 417, 501)


@given(st.binary(max_size=200))
def test_anything_is_a_head_or_refused(text: bytes) -> None:
    for candidate in (text, b"GET / HTTP/1.1\r\nHost: a\r\n" + text):
        try:
            found = head.parse(candidate)
        except BadHead:
            continue
        assert found.fields.length >= 0
        assert not any("\n" in value or "\r" in value or "\0" in value for value in found.fields.headers.values())


CHUNKED = b"4\r\nWiki\r\n6;name=value\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nTrailer: x\r\n\r\nGET"


@given(st.lists(st.integers(1, 20), min_size=1, max_size=30))
def test_chunks_may_arrive_in_any_pieces(sizes: list[int]) -> None:
    chunks, buffer, rest, at = Chunks(), bytearray(), CHUNKED, 0
    while rest:
        size = sizes[at % len(sizes)]
        buffer += rest[:size]
        rest, at = rest[size:], at + 1
        chunks.take(buffer)
    assert chunks.done
    assert bytes(chunks.data) == b"Wikipedia in \r\n\r\nchunks."
    assert bytes(buffer) == b"GET"


@pytest.mark.parametrize(
    "text", [b"zz\r\n", b"-1\r\n", b"\r\n", b"0x4\r\n", b"1\r\nab\r\n", b"123456789\r\n", b"4" * 2000, b" 4\r\n"]
)
def test_what_is_no_chunk_is_refused(text: bytes) -> None:
    with pytest.raises(BadHead):
        Chunks().take(bytearray(text))
