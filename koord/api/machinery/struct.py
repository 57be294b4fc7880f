"""What every typed object shares: JSON names, immutability, little memory.

Every object of the protocol derives from `Struct`. Python names are snake_case; the JSON name follows from
them:  json_name("mid_cpu_threshold_percent") == "midCPUThresholdPercent". The few names that do not follow
are given with `field(name=...)`.

Objects are trees decoded from JSON, hence never cyclic: they stay out of the garbage collector (`gc=False`),
whose passes would otherwise cost more than the decoding. They are frozen, because caches share them.
Lists are tuples and absent maps are one shared empty map, for the same reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, dataclass_transform

import msgspec
from msgspec import field as field

ACRONYMS: Final = frozenset(
    {"api", "be", "bps", "ca", "cidr", "cpu", "dns", "fs", "id", "io", "iops", "ip", "ips", "ipc", "iscsi", "l3", "llc"}
    | {"numa", "os", "pcpus", "pid", "pvc", "qos", "qps", "rdma", "slo", "tls", "ttl", "uid", "uri", "url"}
)

EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})
"""The value of every absent map. Immutable, so that all objects can share it."""


def json_name(field_name: str) -> str:
    """The JSON name of a Python field: camelCase, with Kubernetes' capital acronyms after the first word."""
    head, *rest = field_name.rstrip("_").split("_")
    return head + "".join(word.upper() if word in ACRONYMS else word.capitalize() for word in rest)


# Type checkers do not see that `frozen` is inherited.
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Struct(msgspec.Struct, rename=json_name, omit_defaults=True, frozen=True, gc=False):
    """Base of all typed objects. A subclass lists its fields; a string below a field describes it to users."""
