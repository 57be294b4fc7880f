"""Field types that several custom resources share, and how a field speaks to its schema.

A range or an enumeration in a type is at once a check on reading and a rule in the schema. What only the schema says
(a default that the API server fills in, a null that it keeps) stands in `Meta(extra_json_schema=...)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from msgspec import Meta

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1

INT32_FORMAT = {"format": "int32"}

Int32: TypeAlias = Annotated[int, Meta(ge=INT32_MIN, le=INT32_MAX, extra_json_schema=INT32_FORMAT)]
"""A whole number of 32 bits, all that other readers of the protocol can hold. API servers do not check the format."""

Percent: TypeAlias = Annotated[int, Meta(ge=0, le=100)]

Switch: TypeAlias = Annotated[int, Meta(ge=0, le=1)]
"""Off (0) or on (1), where the kernel file behind the field takes a number."""

IntOrString: TypeAlias = Annotated[int | str, Meta(extra={"schema": "int-or-string"})]

FreeForm: TypeAlias = Annotated[Mapping[str, Any], Meta(extra={"schema": "free-form"})]
"""An object that the schema does not describe and the API server keeps as it came: templates, patches, extensions."""


def served_default(value: bool | int | str) -> Meta:
    """The API server stores this value where a user gave none. Elsewhere an absent field stays absent."""
    return Meta(extra_json_schema={"default": value})


KEEPS_NULL = Meta(extra_json_schema={"nullable": True})
"""For times that other writers send as null when unset: the API server accepts and keeps the null."""
