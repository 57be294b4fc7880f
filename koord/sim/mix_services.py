"""Services of a cluster: drawn from curves until nodes are full, or those of a recording where they ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from koord.api.machinery.faults import BadInput
from koord.sim.chance import between, between_by_ratio, chance, choice, two_digits
from koord.sim.cluster import UNPLACED
from koord.sim.columns import ServiceCurves
from koord.sim.minutes import NodeColumns
from koord.sim.scenario import ClusterSource, Scenario

DAY_S: Final = 86_400
MIB: Final = 1 << 20
MOST_ABSENT: Final = 0.1
"Share of a curve that may be gaps, for it to be drawn."
MOST_CELLS: Final = 500_000_000
"Services times steps of their curves: two GB."
DRAWS: Final = 50
"Services that may not fit before a node counts as full."
MEMORY_OF_SHARE: Final = (0.5, 1.0)
"A service's share of the node's memory, by its share of CPU."
MEMORY_USED: Final = (0.5, 0.9)
"Of what a service requests. It does not change over time."


@dataclass(frozen=True, slots=True)
class PlacedServices:
    services: ServiceCurves
    node: NDArray[np.int64]


def placed_services(
    scenario: Scenario, services: ServiceCurves, nodes: NodeColumns, length_s: float, seed: int
) -> PlacedServices:
    """Services of a recording on their nodes; a longer run repeats the recording."""
    rows = _half(services, np.arange(len(services.ids)), scenario.services.machines)
    row_of = {name: row for row, name in enumerate(nodes.names)}
    recorded = services.node or ("",) * len(services.ids)
    node = np.array([row_of.get(recorded[row], UNPLACED) for row in rows], np.int64)
    if scenario.services.placed_by_scheduler:
        node[:] = UNPLACED
    steps = _steps(services, length_s)
    _check_cells(len(rows), steps)
    columns = np.arange(steps) % services.cpu_milli.shape[1]
    cpu, memory = services.cpu_milli[rows][:, columns], services.memory_bytes
    requests = services.request_cpu_milli
    if requests is None:
        requests = _requests(scenario.cluster, services, seed)
    memory_requests = services.request_memory_bytes
    return PlacedServices(
        ServiceCurves(
            ids=tuple(services.ids[row] for row in rows),
            step_s=services.step_s,
            cpu_milli=cpu * np.float32(scenario.services.use_percent / 100),
            memory_bytes=None if memory is None else memory[rows][:, columns],
            request_cpu_milli=requests[rows],
            request_memory_bytes=None if memory_requests is None else memory_requests[rows],
            node=tuple(recorded[row] for row in rows),
        ),
        node,
    )


def _requests(source: ClusterSource, services: ServiceCurves, seed: int) -> NDArray[np.int64]:
    bounds = source.request_over_peak
    factors = [between(bounds.least, bounds.most, chance(seed, "request", name)) for name in services.ids]
    return np.ceil(_peaks(services) * factors).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Curves:
    """Curves of one trace that services may have."""

    services: ServiceCurves
    peaks: NDArray[np.float64]
    rows: NDArray[np.int64]
    shares: NDArray[np.float64]
    "Sum of the peaks up to each of `rows`, as a share of all."

    def row(self, share: float) -> int:
        return int(self.rows[np.searchsorted(self.shares, share, side="right")])


@dataclass(frozen=True, slots=True)
class _Draw:
    """A service before it has its curve."""

    name: str
    node: int
    curves: _Curves
    row: int
    peak_milli: float
    request_milli: int
    request_memory_bytes: int


def drawn_services(
    scenario: Scenario, traces: Sequence[ServiceCurves], nodes: NodeColumns, length_s: float, seed: int
) -> PlacedServices:
    """Services for all nodes, each trace as often as the others."""
    finest = min(traces, key=lambda services: services.step_s)
    curves = [_drawable(_finer(services, finest.step_s), scenario.services.machines) for services in traces]
    steps, use = _steps(finest, length_s), scenario.services.use_percent / 100
    draws: list[_Draw] = []
    for number in range(len(nodes)):
        for draw in _services_of_node(scenario.cluster, nodes, number, curves, seed):
            draws.append(draw)
            _check_cells(len(draws), steps)
    node = np.array([draw.node for draw in draws], np.int64)
    if scenario.services.placed_by_scheduler:
        node[:] = UNPLACED
    return PlacedServices(_curves(draws, finest.step_s, steps, use, seed), node)


def _check_cells(services: int, steps: int) -> None:
    """Before the curves fill memory."""
    if services * steps > MOST_CELLS:
        raise BadInput(
            f"{services} services and more with {steps} steps each are too many: services times steps may be"
            f" {MOST_CELLS // 1_000_000} million; use fewer nodes or a shorter duration"
        )


def _services_of_node(
    source: ClusterSource, nodes: NodeColumns, node: int, curves: Sequence[_Curves], seed: int
) -> Iterator[_Draw]:
    """Services until the node's share is used up, or many did not fit."""
    requested, size, over_peak = source.requested_percent, source.service_cores, source.request_over_peak
    share = between(requested.least, requested.most, chance(seed, "requested", node)) / 100
    free_milli = nodes.cpu_milli[node] * share
    memory_per_milli = nodes.memory_bytes[node] / nodes.cpu_milli[node]
    misses = number = 0
    while misses < DRAWS:
        peak = 1000 * between_by_ratio(size.least, size.most, chance(seed, "peak", node, number))
        factor = between(over_peak.least, over_peak.most, chance(seed, "request", node, number))
        request = two_digits(peak * factor)
        if request <= free_milli:
            free_milli -= request
            memory = request * memory_per_milli * between(*MEMORY_OF_SHARE, chance(seed, "memory", node, number))
            of_trace = choice(curves, chance(seed, "trace", node, number))
            row = of_trace.row(chance(seed, "curve", node, number))
            yield _Draw(
                f"service-{node:05}-{number}", node, of_trace, row, peak, request, two_digits(memory / MIB) * MIB
            )
        else:
            misses += 1
        number += 1


def _curves(draws: Sequence[_Draw], step_s: float, steps: int, use: float, seed: int) -> ServiceCurves:
    """The curve of each service. Services keep the time of day, so that their busy hours meet."""
    steps_a_day = max(1, round(DAY_S / step_s))
    cpu = np.empty((len(draws), steps), np.float32)
    memory = np.empty(len(draws), np.float32)
    columns = np.arange(steps)
    for number, draw in enumerate(draws):
        of_trace = draw.curves.services.cpu_milli
        width = of_trace.shape[1]
        begin = steps_a_day * int(max(1, width // steps_a_day) * chance(seed, "day", draw.name))
        scale = np.float32(use * draw.peak_milli / draw.curves.peaks[draw.row])
        cpu[number] = of_trace[draw.row, (begin + columns) % width] * scale
        memory[number] = draw.request_memory_bytes * between(*MEMORY_USED, chance(seed, "memory use", draw.name))
    return ServiceCurves(
        ids=tuple(draw.name for draw in draws),
        step_s=step_s,
        cpu_milli=cpu,
        memory_bytes=np.broadcast_to(memory[:, None], cpu.shape),
        request_cpu_milli=np.array([draw.request_milli for draw in draws], np.int64),
        request_memory_bytes=np.array([draw.request_memory_bytes for draw in draws], np.int64),
    )


def _drawable(services: ServiceCurves, half: Literal["all", "first", "second"]) -> _Curves:
    peaks = _peaks(services)
    absent = np.isnan(services.cpu_milli).mean(1)
    rows = _half(services, np.flatnonzero((absent <= MOST_ABSENT) & (peaks > 0)), half)
    if not rows.size:
        raise BadInput("services.trace: it has no curve with use and at most 10% of gaps")
    total = np.cumsum(peaks[rows])
    return _Curves(services, peaks, rows, total / total[-1])


def _half(
    services: ServiceCurves, rows: NDArray[np.int64], half: Literal["all", "first", "second"]
) -> NDArray[np.int64]:
    """Every second row by mean use, so that halves are alike. The seed does not matter: constants that were chosen on
    one half have never seen the other."""
    if half == "all":
        return rows
    means = np.nan_to_num(services.cpu_milli[rows]).mean(1)
    by_use = rows[np.argsort(means, kind="stable")]
    return np.sort(by_use[0 if half == "first" else 1 :: 2])


def _peaks(services: ServiceCurves) -> NDArray[np.float64]:
    return np.asarray(np.nan_to_num(services.cpu_milli).max(1, initial=0), np.float64)


def _steps(services: ServiceCurves, length_s: float) -> int:
    return int(np.ceil(length_s / services.step_s))


def _finer(services: ServiceCurves, step_s: float) -> ServiceCurves:
    """The same curves in shorter steps."""
    times = services.step_s / step_s
    if times == 1:
        return services
    if times != round(times):
        raise BadInput(f"services.trace: steps of {services.step_s:g} s and {step_s:g} s do not fit together")
    return replace(services, step_s=step_s, cpu_milli=np.repeat(services.cpu_milli, round(times), axis=1))
