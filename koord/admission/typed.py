"""Plain objects as koord's types, for rules that reckon. What cannot be read is refused, with field and fault."""

from __future__ import annotations

from typing import TypeVar, cast

import msgspec

from koord.admission.request import BAD_REQUEST, Json, refused
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import DecodeError, convert, without_nulls
from koord.api.machinery.struct import Struct

T = TypeVar("T", bound=Struct)


def pod(obj: Json) -> Pod:
    return typed(Pod, obj)


def typed(type_: type[T], obj: Json, code: int = BAD_REQUEST) -> T:
    """The object as a `type_`, nulls taken as absent."""
    try:
        return msgspec.convert(obj, type_)
    except msgspec.ValidationError:
        # Nulls are rare; looking for them first would cost more than all the rest.
        try:
            return convert(type_, obj)
        except DecodeError as error:
            raise refused(error.path, error.fault, code) from None


def in_shape(type_: type[Struct], obj: Json) -> Json:
    """The object, checked to decode as a `type_`; without its nulls, if it has some that matter."""
    try:
        msgspec.convert(obj, type_)
    except msgspec.ValidationError:
        typed(type_, obj)
        return cast("Json", without_nulls(obj))
    return obj
