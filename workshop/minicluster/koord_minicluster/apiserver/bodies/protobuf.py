"""Protobuf bodies, as kubectl and client-go send them for built-in kinds; answers are JSON, which they take too.

A body is `k8s\\0` and a `runtime.Unknown` message that wraps the object. `schemas/protobuf.json` has the field numbers,
so one small reader serves all kinds: it gives the object as JSON would have had it, and decoding goes on from there.
Zero values are on the wire even where they mean "unset"; the typed reader drops those, as it does for JSON.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from koord.api.text import duration, timestamp

MAGIC: Final = b"k8s\x00"
MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
DEEPEST: Final = 100
"""Nesting that no real object reaches."""

_META: Final = "k8s.io.apimachinery.pkg.apis.meta.v1."
_UNKNOWN: Final = "k8s.io.apimachinery.pkg.runtime.Unknown"
# Go structs embedded in others: a message of their own here, but no level of their own in JSON.
_INLINE: Final = frozenset(
    {
        "volumeSource", "persistentVolumeSource", "handler", "localObjectReference", "ephemeralContainerCommon", "rule",
        "ruleWithOperations",
    }
)  # fmt: skip
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Message = dict[int, tuple[str, str, str]]
"""Field number -> (JSON name, shape: one, repeated or map, type)."""


class Malformed(ValueError):
    """The bytes are not what they claim to be."""


def decode(body: bytes) -> dict[str, Any]:
    """The object in a body, as JSON data with its apiVersion and kind."""
    if not body.startswith(MAGIC):
        raise Malformed("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    unknown = _message(memoryview(body)[len(MAGIC) :], _UNKNOWN, 0)
    head = unknown.get("typeMeta") or {}
    api_version, kind = head.get("apiVersion", ""), head.get("kind", "")
    if unknown.get("contentEncoding") or unknown.get("contentType") not in (None, "", MEDIA_TYPE):
        raise Malformed("a wrapped object in another encoding is not taken")
    name = _message_name(api_version, kind)
    if name not in _messages():
        raise Malformed(f"no kind {kind!r} is registered for version {api_version!r}")
    message = _message(memoryview(base64.b64decode(unknown.get("raw", ""))), name, 0)
    return {"apiVersion": api_version, "kind": kind, **message}


def _message_name(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    if kind in ("DeleteOptions", "CreateOptions", "UpdateOptions", "PatchOptions"):
        return _META + kind
    package = (group or "core").removesuffix(".k8s.io").removesuffix(".authorization")
    return f"k8s.io.api.{package}.{version}.{kind}"


@cache
def _messages() -> dict[str, Message]:
    table: dict[str, dict[str, str]] = msgspec.json.decode(
        files("koord_minicluster.apiserver.bodies").joinpath("protobuf.json").read_bytes()
    )
    return {name: {int(n): _field(text) for n, text in fields.items()} for name, fields in table.items()}


def _field(text: str) -> tuple[str, str, str]:
    name, _, kind = text.partition(":")
    shape = {"*": "repeated", "%": "map"}.get(kind[0], "one")
    return name, shape, kind.lstrip("*%")


def _message(data: memoryview, name: str, depth: int) -> dict[str, Any]:
    """One message as an object."""
    if depth > DEEPEST:
        raise Malformed("the message is nested too deeply")
    fields = _messages()[name]
    message: dict[str, Any] = {}
    for number, wire, raw in _parts(data):
        field = fields.get(number)
        if field is None:
            continue
        key, shape, kind = field
        if shape == "map":
            if isinstance(raw, int):
                raise Malformed("proto: a field has the wrong wire type")
            entry = _entry(raw, kind, depth)
            message.setdefault(key, {})[entry[0]] = entry[1]
            continue
        if shape == "repeated":
            listed = message.setdefault(key, [])
            if wire == _BYTES and len(kind) == 1 and kind not in "sb":
                listed.extend(_packed(raw, kind))
            else:
                listed.append(_value(raw, kind, depth))
            continue
        value = _value(raw, kind, depth)
        if key in _INLINE and isinstance(value, dict):
            message.update(value)
        else:
            message[key] = value
    return message


def _value(raw: Any, kind: str, depth: int) -> Any:
    if isinstance(raw, int) != (kind in ("o", "i")):
        raise Malformed("proto: a field has the wrong wire type")
    match kind:
        case "s":
            return _text(raw)
        case "b":
            return base64.b64encode(raw).decode()
        case "o":
            return bool(raw)
        case "i":
            return raw - (1 << 64) if raw >= 1 << 63 else raw
        case "d":
            if len(raw) != 8:
                raise Malformed("proto: a number has the wrong size")
            return float(raw.cast("d")[0])
    special = _SPECIAL.get(kind)
    message = _message(raw, kind, depth + 1)
    return special(message) if special is not None else message


def _entry(raw: memoryview, kind: str, depth: int) -> tuple[str, Any]:
    """An entry of a map: field 1 is the key, 2 the value."""
    key, value = "", _ZERO.get(kind)
    for number, _, part in _parts(raw):
        if number == 1:
            key = _text(part)
        elif number == 2:
            value = _value(part, kind, depth)
    return key, value if value is not None else {}


_ZERO: Final[dict[str, Any]] = {"s": "", "b": "", "o": False, "i": 0, "d": 0.0}


def _packed(raw: memoryview, kind: str) -> list[Any]:
    values, at = [], 0
    while at < len(raw):
        number, at = _varint(raw, at)
        values.append(_value(number, kind, 0))
    return values


def _parts(data: memoryview) -> list[tuple[int, int, Any]]:
    """The fields of a message in order: number, wire type, and the integer or the bytes."""
    parts: list[tuple[int, int, Any]] = []
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            parts.append((tag >> 3, wire, value))
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        else:
            size = {_FIXED64: 8, _FIXED32: 4}.get(wire, -1)
        if size < 0 or at + size > end:
            raise Malformed("unexpected EOF" if size >= 0 else f"proto: illegal wireType {wire}")
        parts.append((tag >> 3, wire, data[at : at + size]))
        at += size
    return parts


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    result = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7
    raise Malformed("unexpected EOF" if shift < 64 else "proto: integer overflow")


def _text(raw: Any) -> str:
    if isinstance(raw, int):
        raise Malformed("proto: a field has the wrong wire type")
    try:
        return bytes(raw).decode()
    except UnicodeDecodeError:
        raise Malformed("proto: a string is not valid UTF-8") from None


def _time(message: dict[str, Any]) -> str | None:
    seconds = message.get("seconds", 0)
    # Go's zero time, and an empty message, are no time at all.
    return None if not message or seconds == -62135596800 else _stamp(timestamp.from_seconds, seconds)


def _micro_time(message: dict[str, Any]) -> str | None:
    if not message:
        return None
    return _stamp(timestamp.micro_from_ns, message.get("seconds", 0) * 1_000_000_000 + message.get("nanos", 0))


def _stamp(render: Callable[[int], str], moment: int) -> str:
    try:
        return render(moment)
    except (ValueError, OverflowError, OSError):
        raise Malformed("a time is outside the years that can be written") from None


def _json(raw: str) -> Any:
    try:
        return msgspec.json.decode(base64.b64decode(raw)) if raw else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"a part that must be JSON is not: {error}") from None


_SPECIAL: Final[dict[str, Any]] = {
    "k8s.io.apimachinery.pkg.api.resource.Quantity": lambda m: m.get("string", "0"),
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": (
        lambda m: m.get("strVal", "") if m.get("type", 0) else m.get("intVal", 0)
    ),
    _META + "Time": _time,
    _META + "MicroTime": _micro_time,
    _META + "Duration": lambda m: duration.from_ns(m.get("duration", 0)),
    _META + "FieldsV1": lambda m: _json(m.get("Raw", "")),
    "k8s.io.apimachinery.pkg.runtime.RawExtension": lambda m: _json(m.get("raw", "")),
    "k8s.io.api.authentication.v1.ExtraValue": lambda m: m.get("items", []),
    "k8s.io.api.authorization.v1.ExtraValue": lambda m: m.get("items", []),
}
"""Messages that are something else in JSON than an object of their fields."""
