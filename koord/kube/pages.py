"""One page of a list, from bytes: as pieces of JSON for who transforms them, or as typed objects in one pass."""

from __future__ import annotations

from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from koord.api.kinds import Kind
from koord.api.kubernetes.meta import ListMeta
from koord.api.machinery.codec import DecodeError, decode
from koord.api.machinery.struct import Struct
from koord.kube import collector

T = TypeVar("T", bound=Struct)


class Page(Struct):
    """The items are views into the page's bytes: decode them, do not keep them."""

    items: list[msgspec.Raw] = msgspec.field(default_factory=list)
    metadata: ListMeta = ListMeta()


class TypedPage(msgspec.Struct, Generic[T], gc=False):
    items: list[T] = msgspec.field(default_factory=list)
    metadata: ListMeta = ListMeta()


def raw_page(kind: Kind[Any], body: bytes) -> Page:
    try:
        return decode(Page, body)
    except DecodeError as error:
        raise DecodeError(f"list of {kind.resource}", error.path, error.fault) from None


def typed_page(kind: Kind[T], body: bytes) -> TypedPage[T]:
    """All items decoded. Where one cannot be, `DecodeError` names it."""
    with collector.paused():
        try:
            page: TypedPage[T] = _decoder(kind.type).decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raw = raw_page(kind, body)
            page = TypedPage([item_of(kind, item) for item in raw.items], raw.metadata)
    return page


def item_of(kind: Kind[T], item: msgspec.Raw) -> T:
    """One object of a list or a watch event. Items of a list do not say their kind, so errors name it for them."""
    try:
        return decode(kind.type, memoryview(item))
    except DecodeError as error:
        what = error.what if error.what.startswith(kind.kind) else f"{kind.kind} {error.what.partition(' ')[2]}"
        raise DecodeError(what.rstrip(), error.path, error.fault) from None


@cache
def _decoder(type_: type[Any]) -> msgspec.json.Decoder[Any]:
    page_type: Any = TypedPage
    return msgspec.json.Decoder(page_type[type_])
