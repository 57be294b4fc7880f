"""Constraints of a claim: what its devices must have in common, or must not.

A device must have the attribute that a constraint names. `matchAttribute`: its type and value are those of the other
devices; `distinctAttribute`: no other device has the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from koord.api.kubernetes.dynamic_resources import DeviceAttribute, DeviceConstraint
from koord.scheduler.plugins.dynamic_resources.pools import SlicedDevice


class Constrained:
    """One constraint, while devices are chosen."""

    def __init__(self, constraint: DeviceConstraint) -> None:
        self._requests = frozenset(constraint.requests)
        self._attribute = constraint.match_attribute or constraint.distinct_attribute or ""
        self._matches = constraint.match_attribute is not None
        self._values: list[DeviceAttribute] = []

    def concerns(self, request: str) -> bool:
        """Whether it is about a request, by its name; `request/alternative` is a part of `request`."""
        return not self._requests or request in self._requests or request.partition("/")[0] in self._requests

    def take(self, device: SlicedDevice) -> bool:
        """Take a device in, if it may be."""
        value = attribute_of(device, self._attribute)
        if value is None or (self._values and (value in self._values) is not self._matches):
            return False
        self._values.append(value)
        return True

    def give_back(self) -> None:
        """The device that was taken in last is out again."""
        self._values.pop()


def attribute_of(device: SlicedDevice, name: str) -> DeviceAttribute | None:
    """An attribute by its full name. One that a device names without a domain is in its driver's domain."""
    attributes: Mapping[str, DeviceAttribute] = device.device.attributes
    value = attributes.get(name)
    if value is None:
        domain, _, key = name.rpartition("/")
        value = attributes.get(key) if domain == device.id.driver else None
    return None if value == DeviceAttribute() else value


def took(constraints: Sequence[Constrained], request: str, device: SlicedDevice) -> list[Constrained] | None:
    """The constraints that took a device in; None: one of them forbids it, and none has it."""
    taken: list[Constrained] = []
    for constraint in constraints:
        if not constraint.concerns(request):
            continue
        if not constraint.take(device):
            for earlier in taken:
                earlier.give_back()
            return None
        taken.append(constraint)
    return taken
