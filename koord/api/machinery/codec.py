"""Bytes to typed objects and back.

Kubernetes sends `null` where a Go server had an empty list or an unset time, and readers must take it as absent.
That is rare, so `decode` first decodes strictly, and only where that fails looks again without the nulls. What is
then still wrong is a `DecodeError` that names the object, the field and the fault.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from koord.api.machinery.faults import BadInput, msgspec_fault

T = TypeVar("T")

_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}
"One decoder per type: making one costs more than using it."


class DecodeError(BadInput):
    """An object that could not be read. Report and skip it; others go on."""

    def __init__(self, what: str, path: str, fault: str) -> None:
        self.what, self.path, self.fault = what, path, fault
        super().__init__(what, path, fault)

    def __str__(self) -> str:
        return f"{self.what}: {self.path}: {self.fault}" if self.path else f"{self.what}: {self.fault}"


UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What is raised for bytes that are no JSON of a type. Whoever reads a file that may be damaged means all of these."""


def decode(type_: type[T], data: bytes | bytearray | memoryview | str) -> T:
    """One JSON object as a `type_`."""
    try:
        return _decoder(type_).decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return convert(type_, _parse(type_, data))


def convert(type_: type[T], data: object) -> T:
    """Plain data (from YAML, or decoded JSON) as a `type_`, nulls taken as absent."""
    try:
        return msgspec.convert(without_nulls(data), type_)
    except msgspec.ValidationError as error:
        fault = msgspec_fault(error)
        raise DecodeError(describe(data, type_.__name__), fault.path, fault.message) from None
    except RecursionError:
        raise DecodeError(describe(data, type_.__name__), "", "is nested too deeply") from None


def encode(value: object) -> bytes:
    """Compact JSON."""
    return msgspec.json.encode(value)


def without_nulls(data: object) -> object:
    """`data` with every null dropped from maps. A null in a list stays: there it has a position."""
    if isinstance(data, dict):
        return {key: without_nulls(item) for key, item in data.items() if item is not None}
    if isinstance(data, list | tuple):
        return [without_nulls(item) for item in data]
    return data


def describe(data: object, fallback: str) -> str:
    """`Pod default/web` for an object, as far as it says who it is."""
    if not isinstance(data, dict):
        return fallback
    kind = data.get("kind")
    metadata = data.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    who = "/".join(part for part in (namespace, name) if isinstance(part, str) and part)
    return " ".join(part for part in (kind if isinstance(kind, str) and kind else fallback, who) if part)


def _decoder(type_: type[T]) -> msgspec.json.Decoder[T]:
    decoder = _DECODERS.get(type_)
    if decoder is None:
        decoder = _DECODERS[type_] = msgspec.json.Decoder(type_)
    return decoder


def _parse(type_: type[Any], data: bytes | bytearray | memoryview | str) -> object:
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise DecodeError(type_.__name__, "", "is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DecodeError(type_.__name__, "", f"is not JSON: {error}") from None
