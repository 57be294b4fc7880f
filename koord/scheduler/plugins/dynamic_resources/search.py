"""The search for devices: which devices of one node satisfy all claims of a pod. First fit, depth first.

Claims, requests and devices are tried in their order, and the first complete solution is taken. Devices of one request
are combinations, not permutations: the next one is sought behind the last one. Of alternatives (`firstAvailable`), the
first is taken that lets everything behind it succeed. The work is bounded by a number of steps: beyond it the node is
refused, and the reason says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from koord.api.kubernetes.dynamic_resources import MOST_RESULTS
from koord.api.kubernetes.taints import untolerated
from koord.scheduler.plugins.dynamic_resources.constraints import Constrained, took
from koord.scheduler.plugins.dynamic_resources.pools import DeviceId, Pool, PoolId, SlicedDevice
from koord.scheduler.plugins.dynamic_resources.quantities import consumed, exact
from koord.scheduler.plugins.dynamic_resources.requests import ClaimWanted, Wanted
from koord.scheduler.plugins.dynamic_resources.usage import Usage

MOST_STEPS: Final = 20_000
"""Devices that are looked at for one pod on one node, about 50 ms. Usual claims need tens."""
TOO_HARD: Final = f"no allocation was found within {MOST_STEPS} steps"


class Chosen(NamedTuple):
    """A device for a request."""

    wanted: Wanted
    device: SlicedDevice
    consumes: dict[str, int]
    "Of its capacity, in billionths."


@dataclass(frozen=True, slots=True)
class Solution:
    """Devices for all claims, in their order; and which alternative each request got."""

    chosen: tuple[tuple[Chosen, ...], ...]
    alternatives: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class NoSolution:
    """Why a node does not have the devices, as far as more can be said than that."""

    why: str = ""


class _TooHardError(Exception):
    pass


class _Taken(NamedTuple):
    """What taking a device has changed."""

    constraints: list[Constrained]
    charges: bool
    "Whether it consumes counters: not if another share of it does already, nor for admin access."


@dataclass(slots=True)
class _Search:
    claims: Sequence[ClaimWanted]
    pools: Sequence[Pool]
    usage: Usage
    chosen: list[list[Chosen]] = field(default_factory=list)
    alternatives: list[list[int]] = field(default_factory=list)
    taken: dict[DeviceId, list[int]] = field(default_factory=dict)
    "By device, the claims that have it in this search, by number."
    consumes: dict[DeviceId, dict[str, int]] = field(default_factory=dict)
    "What this search consumes of devices' capacity."
    counters: dict[PoolId, dict[tuple[str, str], int]] = field(default_factory=dict)
    "What is left of counters, with what this search consumes."
    charged: set[DeviceId] = field(default_factory=set)
    "Devices that consume counters by this search."
    constraints: list[list[Constrained]] = field(default_factory=list)
    candidates: dict[int, list[tuple[SlicedDevice, dict[str, int]]]] = field(default_factory=dict)
    pool_of: dict[DeviceId, Pool] = field(default_factory=dict)
    steps: int = 0
    faults: list[str] = field(default_factory=list)
    "Why devices could not be judged."

    def run(self) -> Solution | NoSolution:
        for claim in self.claims:
            self.chosen.append([])
            self.alternatives.append([0] * len(claim.requests))
            self.constraints.append([Constrained(constraint) for constraint in claim.devices.constraints])
        try:
            if self._request(0, 0):
                pairs = (tuple(map(tuple, self.chosen)), tuple(map(tuple, self.alternatives)))
                return Solution(*pairs)
        except _TooHardError:
            return NoSolution(TOO_HARD)
        return NoSolution(self.faults[0] if self.faults else "")

    def _request(self, claim: int, request: int) -> bool:
        """The requests from this one on."""
        if claim == len(self.claims):
            return True
        requests = self.claims[claim].requests
        if request == len(requests):
            return self._request(claim + 1, 0)
        for number, wanted in enumerate(requests[request]):
            self.alternatives[claim][request] = number
            candidates = self._candidates(wanted)
            if wanted.count:
                if len(candidates) >= wanted.count and self._some(claim, request, wanted, wanted.count, 0):
                    return True
            elif candidates and self._all(claim, request, wanted, 0):
                return True
        return False

    def _some(self, claim: int, request: int, wanted: Wanted, left: int, start: int) -> bool:
        """As many more devices of a request, from one on; and all that follows."""
        if not left:
            return self._request(claim, request + 1)
        if len(self.chosen[claim]) + left > MOST_RESULTS:
            return False
        candidates = self._candidates(wanted)
        for number in range(start, len(candidates) - left + 1):
            taken = self._take(claim, wanted, *candidates[number])
            if taken is not None:
                if self._some(claim, request, wanted, left - 1, number + 1):
                    return True
                self._give_back(claim, taken)
        return False

    def _all(self, claim: int, request: int, wanted: Wanted, number: int) -> bool:
        """All devices of a request, from one on; and all that follows."""
        candidates = self._candidates(wanted)
        if number == len(candidates):
            return self._request(claim, request + 1)
        if len(self.chosen[claim]) + len(candidates) - number > MOST_RESULTS:
            return False
        taken = self._take(claim, wanted, *candidates[number])
        if taken is None:
            return False
        if self._all(claim, request, wanted, number + 1):
            return True
        self._give_back(claim, taken)
        return False

    def _candidates(self, wanted: Wanted) -> list[tuple[SlicedDevice, dict[str, int]]]:
        """The devices that a request means, and what it would consume of each; taken or not."""
        candidates = self.candidates.get(id(wanted))
        if candidates is None:
            faults = len(self.faults)
            candidates = list(self._meant(wanted))
            if not wanted.count and len(self.faults) > faults:
                # It is not known which devices are all of them.
                candidates = []
            self.candidates[id(wanted)] = candidates
        return candidates

    def _meant(self, wanted: Wanted) -> Iterator[tuple[SlicedDevice, dict[str, int]]]:
        if not wanted.count and (why := changing(wanted, self.pools)):
            self.faults.append(why)
            return
        for pool in self.pools:
            for device in pool.devices if not pool.problem else ():
                answer = is_meant(wanted, device)
                if isinstance(answer, str):
                    self.faults.append(answer)
                elif answer and (consumes := consumed(device.device, wanted.capacity)) is not None:
                    if not wanted.count and not has_room(device, consumes, self.usage.consumed.get(device.id)):
                        # A shared device without enough capacity left is none of all devices.
                        continue
                    self.pool_of[device.id] = pool
                    yield device, consumes

    def _take(self, claim: int, wanted: Wanted, device: SlicedDevice, consumes: dict[str, int]) -> _Taken | None:
        """Take a device, if it may be."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise _TooHardError
        if self._is_in_use(claim, wanted, device) or not self._has_capacity(device, consumes):
            return None
        charges = self._charges(wanted, device)
        if (charges and not self._has_counters(device)) or untolerated(device.taints, wanted.tolerations) is not None:
            return None
        constraints = took(self.constraints[claim], wanted.name, device)
        if constraints is None:
            return None
        if charges:
            self.charged.add(device.id)
            self._consume_counters(device, +1)
        self.taken.setdefault(device.id, []).append(claim)
        self._consume(device, consumes, +1)
        self.chosen[claim].append(Chosen(wanted, device, consumes))
        return _Taken(constraints, charges)

    def _give_back(self, claim: int, taken: _Taken) -> None:
        """The device that was taken last is free again."""
        _, device, consumes = self.chosen[claim].pop()
        for constraint in taken.constraints:
            constraint.give_back()
        self._consume(device, consumes, -1)
        users = self.taken[device.id]
        users.pop()
        if not users:
            del self.taken[device.id]
        if taken.charges:
            self.charged.discard(device.id)
            self._consume_counters(device, -1)

    def _consume(self, device: SlicedDevice, consumes: dict[str, int], sign: int) -> None:
        if device.device.allow_multiple_allocations:
            in_search = self.consumes.setdefault(device.id, {})
            for name, amount in consumes.items():
                in_search[name] = in_search.get(name, 0) + sign * amount

    def _is_in_use(self, claim: int, wanted: Wanted, device: SlicedDevice) -> bool:
        users = self.taken.get(device.id, ())
        shares = device.device.allow_multiple_allocations
        if wanted.is_admin:
            return claim in users and not shares
        return device.id in self.usage.taken or (bool(users) and not shares)

    def _has_capacity(self, device: SlicedDevice, consumes: dict[str, int]) -> bool:
        return has_room(device, consumes, self.usage.consumed.get(device.id), self.consumes.get(device.id))

    def _charges(self, wanted: Wanted, device: SlicedDevice) -> bool:
        if not device.counters or wanted.is_admin:
            return False
        return device.id not in self.charged and device.id not in self.usage.holders

    def _has_counters(self, device: SlicedDevice) -> bool:
        """Whether counters suffice. One that is overdrawn blocks all devices that consume counters of the pool."""
        left = self._counters(device)
        return all(amount - device.counters.get(counter, 0) >= 0 for counter, amount in left.items())

    def _consume_counters(self, device: SlicedDevice, sign: int) -> None:
        left = self._counters(device)
        for counter, amount in device.counters.items():
            left[counter] -= sign * amount

    def _counters(self, device: SlicedDevice) -> dict[tuple[str, str], int]:
        pool = self.pool_of[device.id]
        left = self.counters.get(pool.id)
        if left is None:
            left = self.counters[pool.id] = self.usage.left(pool)
        return left


def is_meant(wanted: Wanted, device: SlicedDevice) -> bool | str:
    """Whether all selectors of a request mean a device; in words, why that cannot be told."""
    for number, expression in enumerate(wanted.expressions):
        answer = device.is_selected(expression)
        if answer is not True:
            return f"class {wanted.class_name}: selector #{number} on device {device.id}: {answer}" if answer else False
    return True


def has_room(device: SlicedDevice, consumes: Mapping[str, int], *taken: Mapping[str, int] | None) -> bool:
    """Whether a shared device has as much left of its capacity as would be consumed. `taken`: by several sides."""
    if not device.device.allow_multiple_allocations or not any(taken):
        return True
    return all(
        amount + sum(part.get(name, 0) for part in taken if part) <= exact(device.device.capacity[name].value)
        for name, amount in consumes.items()
    )


def changing(wanted: Wanted, pools: Sequence[Pool]) -> str:
    """Why it cannot be told which devices `All` are: a pool of their driver is being changed."""
    drivers = {device.id.driver for pool in pools for device in pool.devices if is_meant(wanted, device) is True}
    for pool in pools:
        if pool.problem and (pool.id.driver in drivers or not drivers):
            problem = "invalid" if pool.problem == "invalid" else "being updated"
            return f"request {wanted.name}: asks for all devices, but resource pool {pool.id} is currently {problem}"
    return ""


def search(claims: Sequence[ClaimWanted], pools: Sequence[Pool], usage: Usage) -> Solution | NoSolution:
    """Devices for all claims on one node. `pools`: in the order in which they are tried (`in_order`)."""
    return _Search(claims, pools, usage).run()
