"""Resources under the names of earlier releases, given their names of today.

Done once, where objects come in (pods, nodes, devices, quotas, device allocations), so that nothing behind it knows of
old names. Where both names are present, today's counts and the old one is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from koord.api.protocol.names import OLD_RESOURCES, ResourceName

V = TypeVar("V")


def with_current_names(resources: Mapping[str, V]) -> Mapping[str, V]:
    """`resources` with old names replaced; the same object where there are none."""
    if OLD_RESOURCES.keys().isdisjoint(resources):
        return resources
    return {_current_name(name, resources): amount for name, amount in resources.items()}


def _current_name(name: str, resources: Mapping[str, V]) -> str:
    current = OLD_RESOURCES.get(ResourceName(name), name)
    return name if current in resources else current
