"""Protobuf bodies mean what the same object in JSON means, as the real server wrote both."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api import builtin_schemas as schemas
from koord_minicluster.apiserver.bodies import protobuf, typed
from koord_minicluster.apiserver.bodies.protobuf import MAGIC, Malformed

RECORDED: list[dict[str, Any]] = json.loads((Path(__file__).parent.parent / "data" / "protobuf.json").read_text())[
    "objects"
]


@pytest.mark.parametrize("pair", RECORDED, ids=lambda pair: pair["json"]["kind"])
def test_a_protobuf_body_is_the_object_that_its_json_is(pair: dict[str, Any]) -> None:
    wanted = pair["json"]
    group, _, version = wanted["apiVersion"].rpartition("/")
    schema = schemas.schema_for(group, version, wanted["kind"])
    found = protobuf.decode(base64.b64decode(pair["protobuf"]))
    read, unknown = typed.read(schema, json.loads(msgspec.json.encode(found)))
    expected, _ = typed.read(schema, wanted)
    assert not unknown
    assert read == expected


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        MAGIC,
        MAGIC + b"\xff\xff",
        MAGIC + b"\x0a\xff\xff\xff\xff\x0f",
        MAGIC + b"\x0b",
        MAGIC + b"\x0a\x0f\x0a\x02v1\x12\x09Gibberish",
    ],
)
def test_a_malformed_body_is_refused(body: bytes) -> None:
    with pytest.raises(Malformed):
        protobuf.decode(body)


@settings(max_examples=600)
@given(st.sampled_from(RECORDED), st.integers(0), st.binary(max_size=8), st.integers(0, 8))
def test_any_damage_gives_an_object_or_a_refusal(pair: dict[str, Any], at: int, inserted: bytes, dropped: int) -> None:
    body = base64.b64decode(pair["protobuf"])
    at %= len(body)
    try:
        found = protobuf.decode(body[:at] + inserted + body[at + dropped :])
    except Malformed:
        return
    assert found["kind"]
