"""Requests of a claim, resolved: with the selectors of their classes and the defaults of the API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from koord.api.kubernetes.dynamic_resources import (
    ALL_DEVICES,
    MOST_RESULTS,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from koord.api.kubernetes.pod import Toleration
from koord.api.machinery.struct import EMPTY
from koord.api.text.quantity import Number

_NOTHING: Final[Mapping[str, Number]] = EMPTY


class Unanswerable(Exception):
    """No node can satisfy a claim, whatever its devices are: the claim or its classes must change first."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request, or one of the alternatives of a request."""

    name: str
    "`request`, or `request/alternative`."
    class_name: str
    expressions: tuple[str, ...]
    "Of the class, then of the request: all must hold."
    count: int
    "0: all devices that they mean."
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] = ()
    capacity: Mapping[str, Number] = field(default_factory=lambda: _NOTHING)

    @property
    def is_admin(self) -> bool:
        return bool(self.admin_access)

    @property
    def least(self) -> int:
        return self.count or 1


@dataclass(frozen=True, slots=True)
class ClaimWanted:
    """What one claim asks for. `requests`: of each, the alternatives in their order."""

    key: str
    uid: str
    devices: DeviceClaim
    requests: tuple[tuple[Wanted, ...], ...]

    @property
    def has_alternatives(self) -> bool:
        return any(request.first_available for request in self.devices.requests)


def wanted_of(claim: ResourceClaim, classes: Mapping[str, DeviceClass]) -> ClaimWanted:
    """What a claim asks for. Raises `Unanswerable`."""
    key, devices = claim.metadata.key, claim.spec.devices
    requests = tuple(_alternatives(key, request, classes) for request in devices.requests)
    least = sum(min(wanted.least for wanted in alternatives) for alternatives in requests)
    if least > MOST_RESULTS:
        raise Unanswerable(
            f"claim {key}: number of requested devices {least} exceeds the claim limit of {MOST_RESULTS}"
        )
    return ClaimWanted(key, claim.metadata.uid, devices, requests)


def _alternatives(key: str, request: DeviceRequest, classes: Mapping[str, DeviceClass]) -> tuple[Wanted, ...]:
    if request.exactly is not None:
        exactly = request.exactly
        return (_wanted(key, request.name, request.name, exactly, exactly.admin_access, classes),)
    if not request.first_available:
        raise Unanswerable(f"claim {key}, request {request.name}: neither exactly nor firstAvailable is set")
    return tuple(
        _wanted(key, request.name, f"{request.name}/{alternative.name}", alternative, None, classes)
        for alternative in request.first_available
    )


def _wanted(
    key: str,
    request: str,
    name: str,
    asked: ExactDeviceRequest | DeviceSubRequest,
    admin_access: bool | None,
    classes: Mapping[str, DeviceClass],
) -> Wanted:
    class_ = classes.get(asked.device_class_name)
    if class_ is None:
        raise Unanswerable(f"request {request}: device class {asked.device_class_name} does not exist")
    selectors: Sequence[DeviceSelector] = (*class_.spec.selectors, *asked.selectors)
    expressions = tuple(selector.cel.expression for selector in selectors if selector.cel is not None)
    if len(expressions) != len(selectors):
        raise Unanswerable(f"claim {key}, request {name}: a selector is not a CEL expression, which is the only kind")
    if asked.allocation_mode not in (ALL_DEVICES, "ExactCount", ""):
        raise Unanswerable(f"claim {key}, request {name}: unsupported count mode {asked.allocation_mode}")
    return Wanted(
        name,
        asked.device_class_name,
        expressions,
        0 if asked.allocation_mode == ALL_DEVICES else max(1, asked.count),
        admin_access,
        asked.tolerations,
        asked.capacity.requests if asked.capacity is not None else EMPTY,
    )
