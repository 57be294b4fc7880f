"""How much of the last-level cache and of memory bandwidth a group may use, from percentages to the kernel's words.

A cache of W ways, from `start` to `end` percent: ways ceil(W * start / 100) up to ceil(W * end / 100), and at least as
many as the machine demands. Bandwidth is a percentage on Intel, in the machine's steps; on AMD it is eighths of GB/s;
a group of cores has 160 of them. 100 percent is no limit on either.
"""

from __future__ import annotations

from typing import Final

from koord.agent.host.resctrl import Bandwidth, Cache, Resctrl, Schemata, Unit
from koord.api.machinery.faults import BadInput
from koord.api.protocol.annotations.pod_qos import CacheSchemata, PodResctrl, ResctrlShare
from koord.api.protocol.annotations.pod_qos import Schemata as Share
from koord.api.protocol.crd.resource_qos import ResctrlQOS

AMD_EIGHTHS: Final = 160
"""Eighths of GB/s that a group of cores reaches: four fifths of 25 GB/s."""
_WHOLE: Final = 100


class ShareError(BadInput):
    """A share that this machine cannot give."""


def mask(cache: Cache, start_percent: int, end_percent: int) -> int | None:
    """None for an invalid range."""
    if not 0 <= start_percent < end_percent <= _WHOLE:
        return None
    ways = cache.full.bit_length()
    low, high = _part(ways, start_percent), _part(ways, end_percent)
    low = max(min(low, high - cache.least_bits), 0)
    high = min(max(high, low + cache.least_bits), ways)
    return (1 << high) - (1 << low)


def amount(bandwidth: Bandwidth, percent: int) -> int | None:
    """None for an invalid share, and for MB/s, whose total is unknown."""
    if not 1 <= percent <= _WHOLE or bandwidth.unit is Unit.MBPS:
        return None
    if percent == _WHOLE:
        return bandwidth.most
    if bandwidth.unit is Unit.EIGHTH_GBPS:
        return max(AMD_EIGHTHS * percent // _WHOLE, bandwidth.least)
    return min(max(-(-percent // bandwidth.step) * bandwidth.step, bandwidth.least), bandwidth.most)


def _part(ways: int, percent: int) -> int:
    return -(-ways * percent // _WHOLE)


def of_class(machine: Resctrl, settings: ResctrlQOS) -> Schemata:
    """What is not said, or cannot be, stays as a new group has it."""
    shares: dict[str, dict[int, int]] = {}
    start, end = settings.cat_range_start_percent, settings.cat_range_end_percent
    if machine.cache is not None and start is not None and end is not None:
        ways = mask(machine.cache, start, end)
        if ways is not None:
            shares |= {line: dict.fromkeys(machine.cache.ids, ways) for line in machine.cache.lines}
    if machine.bandwidth is not None and settings.mba_percent is not None:
        share = amount(machine.bandwidth, settings.mba_percent)
        if share is not None:
            shares["MB"] = dict.fromkeys(machine.bandwidth.ids, share)
    return shares


def of_pod(machine: Resctrl, settings: PodResctrl) -> Schemata:
    """Of what the annotation does not name the pod may use all. Raises ShareError."""
    shares_of_line: dict[str, dict[int, int]] = {}
    cache, bandwidth = machine.cache, machine.bandwidth
    if cache is not None:
        own = {cache_id: _ways(cache, share) for cache_id, share in _by_cache(settings.llc, cache.ids, "llc").items()}
        shares_of_line |= dict.fromkeys(cache.lines, own)
    if bandwidth is not None:
        shares = _by_cache(settings.mb, bandwidth.ids, "mb")
        amounts = {cache_id: _bandwidth(bandwidth, share) for cache_id, share in shares.items()}
        if bandwidth.unit is not Unit.MBPS:
            shares_of_line["MB"] = amounts
    return shares_of_line


def _by_cache(share: ResctrlShare, ids: tuple[int, ...], name: str) -> dict[int, Share | CacheSchemata]:
    share_of_cache: dict[int, Share | CacheSchemata] = dict.fromkeys(ids, share.schemata)
    for schemata in share.schemata_per_cache:
        if schemata.cache_id not in share_of_cache:
            valid = ", ".join(map(str, ids))
            raise ShareError(
                f"{name}.schemataPerCache: this machine has no cache {schemata.cache_id}: valid is {valid}"
            )
        share_of_cache[schemata.cache_id] = schemata
    return share_of_cache


def _ways(cache: Cache, share: Share | CacheSchemata) -> int:
    start, end = share.range if share.range else (0, share.percent or _WHOLE)
    ways = mask(cache, start, end)
    if ways is None:
        raise ShareError(f"llc: from {start} to {end} percent is not a part of a cache")
    return ways


def not_had(machine: Resctrl, settings: PodResctrl) -> tuple[str, ...]:
    """What a pod asks for that this machine does not divide."""
    asked = (
        ("llc", machine.cache is None, settings.llc, "the last-level cache"),
        ("mb", machine.bandwidth is None, settings.mb, "memory bandwidth"),
    )
    return tuple(
        f"{name}: this machine does not divide {what}" for name, lacks, own, what in asked if lacks and _says(own)
    )


def _says(share: ResctrlShare) -> bool:
    return share != ResctrlShare()


def _bandwidth(bandwidth: Bandwidth, share: Share | CacheSchemata) -> int:
    if share.range:
        raise ShareError("mb: a range says nothing of bandwidth; valid is percent")
    value = amount(bandwidth, share.percent or _WHOLE)
    if value is None and share.percent:
        raise ShareError(f"mb: {share.percent} percent says nothing where resctrl counts {bandwidth.unit.value}")
    return bandwidth.most if value is None else value
