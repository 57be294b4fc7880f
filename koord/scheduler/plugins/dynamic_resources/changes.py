"""What would have to be otherwise for a node to have the devices of a claim: changes to try out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from koord.api.kubernetes.dynamic_resources import DeviceRequest, ExactDeviceRequest, ResourceClaim
from koord.api.kubernetes.pod import Toleration
from koord.api.kubernetes.taints import untolerated
from koord.api.kubernetes.words import TolerationOperator
from koord.scheduler.framework.change import Change, listed
from koord.scheduler.plugins.dynamic_resources.ledger import Ledger
from koord.scheduler.plugins.dynamic_resources.pools import SlicedDevice
from koord.scheduler.plugins.dynamic_resources.requests import Wanted
from koord.scheduler.plugins.taint_toleration import taint_text


def changes(
    claim: ResourceClaim, wanted: Wanted, meant: Sequence[SlicedDevice], free: Sequence[SlicedDevice], ledger: Ledger
) -> Iterator[Change]:
    """For one request that finds too few devices on a node. `meant`: those there that its selectors mean; `free`:
    those of them that it could have."""
    request = wanted.name.partition("/")[0]
    if free and wanted.count > 1:
        yield _fewer(claim, request, len(free), wanted.count, ledger)
    missing = wanted.least - len(free)
    yield from _released(meant, missing, ledger)
    tainted = [device for device in meant if device not in free and device.id not in ledger.usage.taken]
    yield from _tolerating(claim, request, wanted, tainted[:missing], missing, ledger)


def _fewer(claim: ResourceClaim, request: str, number: int, before: int, ledger: Ledger) -> Change:
    text = f"{number} instead of {before} devices in request {request} of the claim {claim.metadata.name}"
    less = _with_request(claim, request, lambda exactly: replace(exactly, count=number))
    return Change(text, trial=lambda: ledger.try_spec(less), whose="pod", size=2.0 - number / before)


def _released(meant: Sequence[SlicedDevice], missing: int, ledger: Ledger) -> Iterator[Change]:
    """As few claims as can be, without their devices."""
    devices_of: dict[str, int] = {}
    for device in meant:
        for holder in ledger.usage.holders.get(device.id, ()):
            devices_of[holder] = devices_of.get(holder, 0) + 1
    released: list[str] = []
    freed = 0
    for holder in sorted(devices_of, key=lambda holder: (-min(devices_of[holder], missing), holder)):
        if freed < missing:
            released.append(holder)
            freed += devices_of[holder]
    if freed < missing or not released:
        return
    text = f"the claim{'s' if len(released) > 1 else ''} {listed(released)} released"
    yield Change(text, trial=lambda: ledger.try_released(released), whose="others", size=1.0 + len(released))


def _tolerating(
    claim: ResourceClaim,
    request: str,
    wanted: Wanted,
    tainted: Sequence[SlicedDevice],
    missing: int,
    ledger: Ledger,
) -> Iterator[Change]:
    taints = {}
    for device in tainted:
        for taint in device.taints:
            if untolerated((taint,), wanted.tolerations) is not None:
                taints[taint.key, taint.value, taint.effect] = taint
    if not taints or len(tainted) < missing:
        return
    more = tuple(
        Toleration(
            taint.key,
            TolerationOperator.EQUAL if taint.value else TolerationOperator.EXISTS,
            taint.value,
            taint.effect,
        )
        for taint in taints.values()
    )
    words = listed(map(taint_text, taints.values()))
    text = f"a toleration for the device taint{'s' if len(taints) > 1 else ''} {words} in request {request}"
    tolerant = _with_request(claim, request, lambda exactly: replace(exactly, tolerations=exactly.tolerations + more))
    yield Change(text, trial=lambda: ledger.try_spec(tolerant), whose="pod", size=float(len(taints)))


def _with_request(
    claim: ResourceClaim, name: str, changed: Callable[[ExactDeviceRequest], ExactDeviceRequest]
) -> ResourceClaim:
    def request_of(request: DeviceRequest) -> DeviceRequest:
        if request.name != name or request.exactly is None:
            return request
        return replace(request, exactly=changed(request.exactly))

    devices = claim.spec.devices
    requests = tuple(map(request_of, devices.requests))
    return replace(claim, spec=replace(claim.spec, devices=replace(devices, requests=requests)))
