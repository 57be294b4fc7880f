"""How a node protects its services: the spec of its NodeSLO, and the patch that brings one in step.

The layers are laid by `SloConfig.for_node`. A patch replaces the parts of a spec that differ as a whole, so that a
setting which was taken out of the configuration goes; what others wrote elsewhere in the object stays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from koord.api.configuration.slo_config import NodeSettings
from koord.api.configuration.slo_config_types import (
    CPU_BURST,
    HOST_APPLICATION,
    RESOURCE_QOS,
    RESOURCE_THRESHOLD,
    SYSTEM,
)
from koord.api.protocol.crd.node_slo import NodeSLOSpec

_PARTS: Final[Mapping[str, str]] = {
    RESOURCE_THRESHOLD: "resource_used_threshold_with_be",
    RESOURCE_QOS: "resource_qos_strategy",
    CPU_BURST: "cpu_burst_strategy",
    SYSTEM: "system_strategy",
    HOST_APPLICATION: "host_applications",
}
"""The section that each part of a spec comes from."""


def wanted_spec(
    settings: NodeSettings, present: NodeSLOSpec | None = None, unusable: Collection[str] = ()
) -> NodeSLOSpec:
    """The spec of a node's NodeSLO. The parts of `unusable` sections stay as in the `present` spec."""
    if present is None or not unusable:
        return settings.node_slo
    kept = {part: getattr(present, part) for section, part in _PARTS.items() if section in unusable}
    return replace(settings.node_slo, **kept)


def spec_patch(present: msgspec.Struct, wanted: msgspec.Struct) -> Mapping[str, Any] | None:
    """The merge patch from one spec to another; None where they are the same."""
    if present == wanted:
        return None
    changes = merge_patch(msgspec.to_builtins(present), msgspec.to_builtins(wanted))
    return changes or None


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """What an object must be patched with to become another: RFC 7386 backwards."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if before == value and key in old:
            continue
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            patch[key] = merge_patch(before, value)
        else:
            patch[key] = value
    return patch
