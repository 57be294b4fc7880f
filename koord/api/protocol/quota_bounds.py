"""Which min and max a quota may have: the same rule where a quota is stored, used and moved from Koordinator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from koord.api.machinery.faults import Fault
from koord.api.text.quantity import render


def bound_faults(least: Mapping[str, int], most: Mapping[str, int]) -> Iterator[Fault]:
    """What is wrong with the amounts of `spec.min` and `spec.max`."""
    for word, listed in (("max", most), ("min", least)):
        yield from negative_faults(f"spec.{word}", listed)
    for key, amount in least.items():
        if key not in most:
            yield Fault(f"spec.min.{key}", "must be in spec.max too")
        elif amount > most[key]:
            limit = render(key, most[key])
            yield Fault(f"spec.min.{key}", f"must be at most spec.max.{key}, {limit}, not {render(key, amount)}")


def negative_faults(where: str, listed: Mapping[str, int]) -> Iterator[Fault]:
    for key, amount in listed.items():
        if amount < 0:
            yield Fault(f"{where}.{key}", f"must be 0 or more, not {render(key, amount)}")
