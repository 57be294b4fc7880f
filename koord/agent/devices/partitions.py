"""Which GPUs may be given out together, and how well they are linked: the table that the scheduler chooses from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations
from typing import Final, TypeAlias

from koord.agent.devices.inventory import Gpu, VendorDevice
from koord.api.protocol.annotations.device import GPUPartition

NVLINK: Final = "NVLink"
Pair: TypeAlias = tuple[int, int]
Kind: TypeAlias = Callable[[Pair], str]

MOST_GPUS: Final = 16
"""More in one machine are not put into sets: there would be too many of them."""


def of_gpus(gpus: Iterable[Gpu]) -> Mapping[int, tuple[GPUPartition, ...]]:
    """By their straight links. Behind a switch every set is as good as any other, and there is nothing to tell."""
    whole = [gpu for gpu in gpus if not gpu.is_split]
    links = {
        (one.minor, other.minor): one.links[other.bus_id]
        for one, other in combinations(whole, 2)
        if other.bus_id in one.links
    }
    return _table([gpu.minor for gpu in whole], links, lambda pair: NVLINK)


def of_others(devices: Iterable[VendorDevice]) -> Mapping[int, tuple[GPUPartition, ...]]:
    by_minor = {device.minor: device for device in devices}
    kinds = {
        (one, other): device.links[other] or NVLINK
        for one, device in by_minor.items()
        for other in device.links
        if one < other and other in by_minor
    }
    return _table(sorted(by_minor), dict.fromkeys(kinds, 1), lambda pair: kinds[pair])


def _table(minors: list[int], links: Mapping[Pair, int], kind: Kind) -> Mapping[int, tuple[GPUPartition, ...]]:
    if not links or len(minors) > MOST_GPUS:
        return {}
    table = {1: tuple(GPUPartition((minor,)) for minor in minors)}
    size = 2
    while size <= len(minors):
        sets = tuple(_linked(minors, size, links, kind))
        if sets:
            table[size] = sets
        size *= 2
    return table


def _linked(minors: list[int], size: int, links: Mapping[Pair, int], kind: Kind) -> Iterator[GPUPartition]:
    """Sets in which everybody is linked with everybody. One is worth as much as its thinnest link."""
    for chosen in combinations(minors, size):
        pairs = list(combinations(chosen, 2))
        if all(pair in links for pair in pairs):
            thinnest = min(pairs, key=lambda pair: links[pair])
            yield GPUPartition(chosen, gpu_link_type=kind(thinnest), allocation_score=links[thinnest])
