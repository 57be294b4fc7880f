"""Plain objects as koord's types, for rules that reckon. What cannot be read is refused, with field and fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar, cast

import msgspec

from koord.admission.request import BAD_REQUEST, Json, refused
from koord.api.kubernetes.core import ConfigMap
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod, PodTemplateSpec
from koord.api.machinery.codec import DecodeError, convert, without_nulls
from koord.api.machinery.struct import Struct
from koord.api.protocol.crd.elastic_quota import ElasticQuota

T = TypeVar("T", bound=Struct)


class _ReservedSpec(Struct):
    template: PodTemplateSpec | None = None


class _Reserved(Struct):
    """A Reservation, as far as rules look into it: what else is wrong with one is for its schema to say."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _ReservedSpec = _ReservedSpec()


TYPES: Final[Mapping[str, type[Struct]]] = {
    "pods": Pod,
    "nodes": Node,
    "reservations": _Reserved,
    "configmaps": ConfigMap,
    "elasticquotas": ElasticQuota,
}
"""What objects that rules look into must be, by resource."""


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


def in_shape(resource: str, obj: Json) -> Json:
    """The object, which has the shape that rules rely on; without its nulls, if it has some that matter."""
    type_ = TYPES.get(resource)
    if type_ is None:
        return obj
    try:
        msgspec.convert(obj, type_)
    except msgspec.ValidationError:
        typed(type_, obj)
        return cast("Json", without_nulls(obj))
    return obj
