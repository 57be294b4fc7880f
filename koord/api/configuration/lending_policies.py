"""The words of colocation-config that choose how much a node lends, by the field that takes them.

`slo_config_check` refuses any other word; `koord.manager.lending` has the formula behind each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

USAGE: Final = "usage"
"""The default."""
ADAPTIVE: Final = "adaptive"
"""koord's own: by what nodes have learned from their minutes. For CPU, it also says how far agents hold batch back."""

PEERS: Final = ("caster", "lar", "crane", "katalyst")
"""Of other systems: by what nodes work out with those systems' formulas, which also say how far agents hold batch back.
Each is for CPU and memory together, or for CPU alone."""

CALCULATE_POLICIES: Final[Mapping[str, tuple[str, ...]]] = {
    USAGE: ("cpu", "memory"),
    "request": ("memory",),
    "maxUsageRequest": ("cpu", "memory"),
    ADAPTIVE: ("cpu", "memory"),
    **dict.fromkeys(PEERS, ("cpu", "memory")),
}
"""Policy of batch resources -> the resources that it may be chosen for."""

MID_MODES: Final = ("", "static")
"""Ways to work out mid resources. The empty one is the default: it follows usage."""


def policies_of(resource: str) -> tuple[str, ...]:
    """The policies that may be chosen for `cpu` or `memory`."""
    return tuple(name for name, resources in CALCULATE_POLICIES.items() if resource in resources)
