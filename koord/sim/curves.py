"""What services use on each node at a moment, from the curves of single services.

    use(t) = the curve, interpolated between the middles of its steps;  a trace that is shorter than the run repeats

Sums by node are computed once for each step of the curves and each change of places, and then interpolated: a minute
costs nothing by service.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from koord.sim.columns import ServiceCurves
from koord.sim.minutes import Flags, Floats, Ints

_KEPT = 64
"""Steps whose sums are kept: an hour and more, since an oracle looks ahead."""


@dataclass(slots=True)
class NodeSums:
    """Sums by node of the services that run there. `moved` must be called after each change of `node`."""

    curves: ServiceCurves
    nodes: int
    node: Ints
    "By service; -1: it runs nowhere."
    request_milli: Floats
    request_bytes: Floats
    version: int = 0
    _kept: dict[tuple[str, int, int], Floats] = field(default_factory=dict)

    def moved(self) -> None:
        self.version += 1
        self._kept.clear()

    @property
    def steps(self) -> int:
        return int(self.curves.cpu_milli.shape[1])

    def step_at(self, at_s: float) -> int:
        return int(at_s // self.curves.step_s) % self.steps

    def present(self, at_s: float) -> Flags:
        """Which services exist."""
        return ~np.isnan(self.curves.cpu_milli[:, self.step_at(at_s)])

    def cpu_milli(self, at_s: float) -> Floats:
        return self._between("cpu", at_s)

    def peak_milli(self, at_s: float) -> Floats:
        """The larger of what each service requests and uses."""
        return self._between("peak", at_s)

    def memory_bytes(self, at_s: float) -> Floats:
        step = self.step_at(at_s)
        return self._sum("memory", step, step)

    def peak_memory_bytes(self, at_s: float) -> Floats:
        step = self.step_at(at_s)
        return self._sum("peak memory", step, step)

    def by_service(self, at_s: float) -> tuple[Floats, Floats]:
        """CPU and memory of each service in the step of that time; 0 where it does not exist."""
        step = self.step_at(at_s)
        return np.nan_to_num(self._values("cpu", step, step)), np.nan_to_num(self._values("memory", step, step))

    def requests(self, at_s: float) -> tuple[Floats, Floats]:
        """CPU and memory that services which exist request."""
        step = self.step_at(at_s)
        return self._sum("request", step, step), self._sum("request memory", step, step)

    def mean_cpu_milli(self, at_s: float, seconds: float) -> Floats:
        """Mean over the next seconds, as if every service stayed where it is."""
        total, left, now_s = np.zeros(self.nodes), seconds, at_s
        while left > 0:
            step = self.step_at(now_s)
            span = min(left, self.curves.step_s - now_s % self.curves.step_s)
            total += self._sum("cpu", step, step) * span
            now_s, left = now_s + span, left - span
        return total / seconds

    def most_memory_bytes(self, at_s: float, seconds: float) -> Floats:
        step_s = self.curves.step_s
        first, last = int(at_s // step_s), int(np.ceil((at_s + seconds) / step_s))
        most = np.zeros(self.nodes)
        for step in {step % self.steps for step in range(first, last)}:
            np.maximum(most, self._sum("memory", step, step), out=most)
        return most

    def _between(self, what: str, at_s: float) -> Floats:
        place = at_s / self.curves.step_s - 0.5
        left = int(np.floor(place))
        share, step = place - left, self.step_at(at_s)
        return (1 - share) * self._sum(what, left % self.steps, step) + share * self._sum(
            what, (left + 1) % self.steps, step
        )

    def _sum(self, what: str, step: int, present: int) -> Floats:
        """By node, the values of one step, of services that exist in another. A value that is missing at the end of a
        service's life is that of the step in which it lives."""
        key = (what, step, present)
        total = self._kept.get(key)
        if total is None:
            if len(self._kept) >= _KEPT * 4:
                self._kept.clear()
            runs = (self.node >= 0) & ~np.isnan(self.curves.cpu_milli[:, present])
            values = self._values(what, step, present)
            summed: Floats = np.bincount(self.node[runs], weights=values[runs], minlength=self.nodes).astype(np.float64)
            self._kept[key] = total = summed
        return total

    def _values(self, what: str, step: int, present: int) -> Floats:
        if what == "request":
            return self.request_milli
        if what == "request memory":
            return self.request_bytes
        if what in ("memory", "peak memory"):
            memory = self.curves.memory_bytes
            used = self.request_bytes if memory is None else _filled(memory, step, present)
            return np.maximum(self.request_bytes, used) if what == "peak memory" else used
        use = _filled(self.curves.cpu_milli, step, present)
        return np.maximum(self.request_milli, use) if what == "peak" else use


def _filled(curves: NDArray[np.float32], step: int, present: int) -> Floats:
    values: Floats = curves[:, step].astype(np.float64)
    missing = np.isnan(values)
    if missing.any():
        values[missing] = curves[missing, present]
        values = np.nan_to_num(values, nan=0.0)
    return values
