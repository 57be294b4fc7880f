"""SPDY frames: what kubectl sent, what both sides know beforehand, and bytes that are no frames."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord_minicluster.kubelet import spdy
from koord_minicluster.kubelet.spdy import Data, Decoder, Encoder, Frame, GoAway, Opened, Ping, Reset, SpdyError

OF_KUBECTL = bytes.fromhex(
    "80030001000000290000000100000000000078f9e3c6a7c26260606004a7b392a2d4c45c6851c29a0a0a6800000000ffff"
)
"""How kubectl 1.20 opens its error stream."""

frames = st.lists(
    st.one_of(
        st.builds(
            Opened,
            st.integers(1, 0x7FFFFFFF),
            st.dictionaries(st.sampled_from(["port", "streamtype", "x"]), st.text(max_size=10)),
            st.booleans(),
        ),
        st.builds(Data, st.integers(1, 0x7FFFFFFF), st.binary(max_size=30), st.booleans()),
        st.builds(Reset, st.integers(1, 0x7FFFFFFF)),
        st.builds(Ping, st.integers(0, 0xFFFFFFFF)),
        st.just(GoAway()),
    ),
    max_size=6,
)


def encoded(sent: list[Frame]) -> bytes:
    encoder = Encoder()
    pieces = []
    for frame in sent:
        match frame:
            case Opened(stream, headers, is_last):
                pieces.append(encoder.opened(stream, headers, is_last=is_last))
            case Data(stream, data, is_last):
                pieces.append(encoder.data(stream, data, is_last=is_last))
            case Reset(stream):
                pieces.append(encoder.reset(stream))
            case Ping(number):
                pieces.append(encoder.ping(number))
            case GoAway():
                pieces.append(encoder.go_away())
    return b"".join(pieces)


def test_the_dictionary_is_the_protocols() -> None:
    # Every stream of compressed headers begins with this checksum of it.
    assert zlib.adler32(spdy.DICTIONARY) == 0xE3C6A7C2


def test_a_frame_of_kubectls() -> None:
    assert list(Decoder().frames(OF_KUBECTL)) == [Opened(1, {"streamtype": "error"}, is_last=False)]


@given(frames, st.integers(1, 50))
def test_what_was_sent_arrives_in_whatever_pieces(sent: list[Frame], size: int) -> None:
    data, decoder = encoded(sent), Decoder()
    arrived = [frame for at in range(0, len(data), size) for frame in decoder.frames(data[at : at + size])]
    assert arrived == sent


@given(st.binary(max_size=300))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    with suppress(SpdyError):
        list(Decoder().frames(data))


@given(st.integers(0, len(OF_KUBECTL) - 1), st.integers(1, 255))
def test_no_damage_does_more_than_be_refused(at: int, change: int) -> None:
    damaged = bytearray(OF_KUBECTL)
    damaged[at] ^= change
    with suppress(SpdyError):
        list(Decoder().frames(bytes(damaged)))


def test_a_reply_is_read_over_and_the_headers_after_it_are_read() -> None:
    encoder, decoder = Encoder(), Decoder()
    sent = encoder.reply(2) + encoder.opened(1, {"port": "80"})
    assert list(decoder.frames(sent)) == [Opened(1, {"port": "80"}, is_last=False)]


def test_headers_that_are_large_once_unpacked_are_refused() -> None:
    bomb = Encoder().opened(1, {"a": "x" * (10 << 20)})
    assert len(bomb) < 20_000
    with pytest.raises(SpdyError, match="bytes of headers"):
        list(Decoder().frames(bomb))


def test_a_frame_that_announces_too_much_is_refused_before_it_arrives() -> None:
    with pytest.raises(SpdyError, match="a frame of 16777215 bytes"):
        list(Decoder().frames(struct.pack("!II", 1, 0xFFFFFF)))
