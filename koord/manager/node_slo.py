"""How a node protects its services: the spec of its NodeSLO, and the patch that brings one in step.

The layers are laid by `SloConfig.for_node`. A patch replaces the parts of a spec that differ as a whole, so that a
setting which was taken out of the configuration goes; what others wrote elsewhere in the object stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from koord.api.crd.node_slo import NodeSLOSpec
from koord.api.slo_config import NodeSettings


def wanted_spec(settings: NodeSettings) -> NodeSLOSpec:
    return settings.node_slo


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
