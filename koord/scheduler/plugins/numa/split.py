"""How a pod's amounts are shared out among the NUMA nodes that it uses: evenly, as far as each has enough.

Nodes are visited from the one with the least to the one with the most, and each gives its share of what is still to be
given: thousandths of shared CPUs, whole CPUs of bound ones, whole cores where these are required.
"""

from __future__ import annotations

from collections.abc import Mapping

from koord.scheduler.framework.exact_check import Objection
from koord.scheduler.plugins.numa.facts import CPU


def split(
    requests: Mapping[str, int], left: Mapping[int, Mapping[str, int]], cpu_step: int = 1
) -> dict[int, dict[str, int]] | Objection:
    """By NUMA node, what it gives. `left`: what each of them has, of the resources that NUMA nodes report at all;
    `cpu_step`: thousandths of CPUs that stay together."""
    reported = {name for has in left.values() for name in has}
    given_by_zone: dict[int, dict[str, int]] = {}
    short = []
    for name, number in sorted(requests.items()):
        if name not in reported:
            continue
        step = cpu_step if name == CPU else 1
        nodes = sorted(left, key=lambda zone: (left[zone].get(name, 0), zone))
        for i, zone in enumerate(nodes):
            share = number // step // (len(nodes) - i) * step
            given = min(left[zone].get(name, 0), share)
            if given > 0:
                given_by_zone.setdefault(zone, {})[name] = given
                number -= given
        if number:
            short.append(f"Insufficient NUMA {name}")
    return Objection(", ".join(short)) if short else given_by_zone
