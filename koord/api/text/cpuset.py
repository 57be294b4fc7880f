"""Sets of logical CPUs, and Linux' way to write them: `0-3,7`.

A `CPUSet` is one integer with a bit per CPU: unions, differences and sizes over hundreds of CPUs are single
operations, and sets are small and hashable. `parse` takes what the kernel and Kubernetes write, any order and overlaps
included; `str()` gives the canonical form: ascending, ranges as long as possible, no spaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Final

from msgspec import Meta

CPU_LIMIT: Final = 1 << 16
"""CPU numbers are below this, eight times Linux' highest NR_CPUS. It keeps "0-4000000000" from being a memory bomb."""


class CPUSet:
    """An immutable set of CPU numbers."""

    __slots__ = ("mask",)

    mask: int

    def __init__(self, cpus: Iterable[int] = ()) -> None:
        mask = 0
        for cpu in cpus:
            if not 0 <= cpu < CPU_LIMIT:
                raise ValueError(f"CPU {cpu} is not between 0 and {CPU_LIMIT - 1}")
            mask |= 1 << cpu
        object.__setattr__(self, "mask", mask)

    @classmethod
    def from_mask(cls, mask: int) -> CPUSet:
        """The set whose bit n says whether CPU n is in it."""
        if mask < 0 or mask.bit_length() > CPU_LIMIT:
            raise ValueError("a CPU mask must not be negative or have a CPU above the limit")
        made = cls.__new__(cls)
        object.__setattr__(made, "mask", mask)
        return made

    @classmethod
    def parse(cls, text: str) -> CPUSet:
        """A Linux CPU list. Space around it (a file's last newline) does not matter; empty is the empty set."""
        mask = 0
        stripped = text.strip()
        for part in stripped.split(",") if stripped else ():
            first, dash, last = part.partition("-")
            low = _number(first, part)
            high = _number(last, part) if dash else low
            if high < low:
                raise ValueError(f"CPU range {part!r} ends before it begins")
            mask |= (1 << (high + 1)) - (1 << low)
        return cls.from_mask(mask)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a CPUSet is immutable")

    def __str__(self) -> str:
        return ",".join(f"{low}-{high}" if low != high else str(low) for low, high in self.ranges())

    def __repr__(self) -> str:
        return f"CPUSet.parse({str(self)!r})"

    def ranges(self) -> Iterator[tuple[int, int]]:
        """The runs of neighbouring CPUs, ascending, each as (first, last)."""
        rest, base = self.mask, 0
        while rest:
            gap = (rest & -rest).bit_length() - 1
            rest >>= gap
            run = (~rest & (rest + 1)).bit_length() - 1
            yield base + gap, base + gap + run - 1
            rest >>= run
            base += gap + run

    def __iter__(self) -> Iterator[int]:
        for low, high in self.ranges():
            yield from range(low, high + 1)

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __bool__(self) -> bool:
        return self.mask != 0

    def __contains__(self, cpu: object) -> bool:
        return isinstance(cpu, int) and cpu >= 0 and bool(self.mask >> cpu & 1)

    def __eq__(self, other: object) -> bool:
        return self.mask == other.mask if isinstance(other, CPUSet) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.mask)

    def __or__(self, other: CPUSet) -> CPUSet:
        return CPUSet.from_mask(self.mask | other.mask)

    def __and__(self, other: CPUSet) -> CPUSet:
        return CPUSet.from_mask(self.mask & other.mask)

    def __sub__(self, other: CPUSet) -> CPUSet:
        return CPUSet.from_mask(self.mask & ~other.mask)

    def __xor__(self, other: CPUSet) -> CPUSet:
        return CPUSet.from_mask(self.mask ^ other.mask)

    def __le__(self, other: CPUSet) -> bool:
        return self.mask & ~other.mask == 0

    def __ge__(self, other: CPUSet) -> bool:
        return other <= self

    def isdisjoint(self, other: CPUSet) -> bool:
        return self.mask & other.mask == 0


NO_CPUS: Final = CPUSet()

CPUList = Annotated[str, Meta(extra={"check": CPUSet.parse})]
"""The type of a field that holds a CPU list, as text."""


def _number(text: str, part: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{part!r} is not a CPU or a range of CPUs (valid is, for example, '0-3,7')")
    # The length is looked at first: converting a million digits takes long.
    if len(text) > 20 or int(text) >= CPU_LIMIT:
        raise ValueError(f"CPU {text[:20]} is not between 0 and {CPU_LIMIT - 1}")
    return int(text)
