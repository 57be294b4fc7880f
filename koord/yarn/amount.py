"""CPU and memory together, in milli-cores and bytes; YARN counts in vcores and MiB, always rounded down."""

from __future__ import annotations

from typing import Final, NamedTuple

MILLI: Final = 1000
MIB: Final = 1 << 20
MOST_VCORES: Final = (1 << 31) - 1
MOST_MIB: Final = 1 << 42
"""More than any machine has. A NodeManager may say more still, which no quantity could hold."""


class Amount(NamedTuple):
    cpu_milli: int
    memory_bytes: int

    def plus(self, other: Amount) -> Amount:
        return Amount(self.cpu_milli + other.cpu_milli, self.memory_bytes + other.memory_bytes)

    def minus(self, other: Amount) -> Amount:
        """What is left, at least nothing."""
        return Amount(max(self.cpu_milli - other.cpu_milli, 0), max(self.memory_bytes - other.memory_bytes, 0))

    def least(self, other: Amount) -> Amount:
        return Amount(min(self.cpu_milli, other.cpu_milli), min(self.memory_bytes, other.memory_bytes))

    def most(self, other: Amount) -> Amount:
        return Amount(max(self.cpu_milli, other.cpu_milli), max(self.memory_bytes, other.memory_bytes))

    def fits(self, other: Amount) -> bool:
        """Whether neither part is above the other's."""
        return self.cpu_milli <= other.cpu_milli and self.memory_bytes <= other.memory_bytes

    def percent(self, percent: int) -> Amount:
        return Amount(self.cpu_milli * percent // 100, self.memory_bytes * percent // 100)

    @property
    def vcores(self) -> int:
        return self.cpu_milli // MILLI

    @property
    def mib(self) -> int:
        return self.memory_bytes // MIB

    @property
    def whole(self) -> Amount:
        """Whole vcores and MiB, rounded down: what YARN can be given without allocating a part twice."""
        return of_yarn(self.vcores, self.mib)

    def __str__(self) -> str:
        return f"{self.vcores} vcores and {self.mib} MiB"


NOTHING: Final = Amount(0, 0)


def of_yarn(vcores: int, mib: int) -> Amount:
    return Amount(min(max(vcores, 0), MOST_VCORES) * MILLI, min(max(mib, 0), MOST_MIB) * MIB)
