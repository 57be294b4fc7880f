"""The constants of the latency model from a recording: fitted on one half of its points, judged by the other.

Neighbouring loads are in different halves, for each neighbour in turn, so that the judged points lie between fitted
ones and at the ends. The fit minimises the squares of the logarithms of predicted / measured, far points weighted down
(Levenberg and Marquardt's method on the logarithms of the constants, which keeps them positive).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import numpy as np

from koord.api.machinery.faults import BadInput
from koord.sim.latency import (
    MIXED,
    P50,
    P99,
    Common,
    FitError,
    Influence,
    LatencyModel,
    begin_ms,
    formula,
    is_overloaded,
)
from koord.sim.latency_recording import ALONE, UNLIMITED, Point, Recording, Setting, settled
from koord.sim.minutes import Floats

ANSWERED: Final = 0.97
"""Share of the requests: a service that answers less falls behind, and its response time says how long for."""
FEWEST_LOADS: Final = 4
"""Of a recording: by fewer, a wait in the queue cannot be told from a slow request."""
FEWEST_POINTS: Final = 2
"""Of a neighbour, with the agent and without it, in the half that the model is fitted to."""
COMMON: Final = 6
"""Constants that all neighbours share: base, wake and queue, of p50 and of p99."""
PRIOR: Final = 0.03
"""Weight of the start: what the points say nothing about stays there."""
CLOSE: Final = 0.1
"""Logarithm of predicted / measured: points that are further off weigh less."""
ROUNDS: Final = 60

Kind = tuple[str, bool]
"""A neighbour, and whether the service is protected."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Points as columns, one row for each."""

    services: Floats
    "Share of the node that the service uses alone at this load."
    batch: Floats
    presence: Floats
    kind: tuple[int, ...]
    "By row, the index of its kind; -1 alone."
    p50_ms: Floats
    p99_ms: Floats


def fit(recording: Recording) -> LatencyModel:
    """Raises `BadInput` if the recording has too few undisturbed points."""
    every = settled(recording.points)
    lacking = _lacking(every)
    points = [point for point in every if point.neighbour not in lacking]
    neighbours = sorted({point.neighbour for point in points} - {ALONE})
    _check(recording, every, neighbours)
    full = {name: _full(points, name) for name in neighbours}
    kinds = [(name, protected) for name in neighbours for protected in (True, False)]
    steady = [point for point in points if point.answered >= ANSWERED]
    first = [point for point in steady if is_fitted(point.setting, every)]
    second = [point for point in steady if not is_fitted(point.setting, every)]
    behind = [point for point in points if point.answered < ANSWERED and not is_fitted(point.setting, every)]
    columns = [_columns(half, points, kinds, full) for half in (first, second, behind)]
    constants = _fitted(columns[0], len(kinds))
    p50, p99 = (Common(*(round(float(constant), 4) for constant in constants[k : k + 3])) for k in (0, 3))
    full[MIXED] = fmean(full.values())
    return LatencyModel(
        recording.machine,
        {name: round(share, 4) for name, share in full.items()},
        p50,
        p99,
        _influences(constants, kinds, protected=True),
        _influences(constants, kinds, protected=False),
        _error(0, columns[1], columns[2], constants),
        _error(1, columns[1], columns[2], constants),
        left_out=lacking,
    )


def is_fitted(setting: Setting, points: Sequence[Point]) -> bool:
    """Whether a setting is in the half that the model is fitted to."""
    loads = sorted({point.load for point in points})
    names = sorted({point.neighbour for point in points})
    return (loads.index(setting.load) + names.index(setting.neighbour) + setting.protected) % 2 == 0


def _check(recording: Recording, points: Sequence[Point], neighbours: Sequence[str]) -> None:
    advice = "record again on a quieter machine, or longer (--minutes)"
    disturbed = f"{len(recording.points)} points, {len(points)} settings with undisturbed ones"
    loads = {point.load for point in points if point.neighbour == ALONE and point.answered >= ANSWERED}
    if len(loads) < FEWEST_LOADS:
        raise BadInput(
            f"the recording has the service alone at {len(loads)} loads, {FEWEST_LOADS} are needed "
            f"({disturbed}); {advice}"
        )
    if not neighbours:
        raise BadInput(f"the recording has no neighbour with and without the agent ({disturbed}); {advice}")


def _lacking(points: Sequence[Point]) -> tuple[str, ...]:
    """Neighbours with too few points to be fitted, with the agent or without it."""
    usable = [point for point in points if point.answered >= ANSWERED and is_fitted(point.setting, points)]
    kinds = [(point.neighbour, point.protected) for point in usable]
    names = sorted({point.neighbour for point in points} - {ALONE})
    return tuple(name for name in names if min(kinds.count((name, True)), kinds.count((name, False))) < FEWEST_POINTS)


def _full(points: Sequence[Point], neighbour: str) -> float:
    """The share of idle CPU that the neighbour uses without a limit: where services leave enough to measure it."""
    shares = [
        point.batch / max(1 - _alone(point, points), 1e-9)
        for point in points
        if point.neighbour == neighbour and point.ceiling_percent == UNLIMITED and point.load <= 0.5
    ]
    return min(max(float(np.median(shares)) if shares else 1.0, 0.01), 1.0)


def _alone(point: Point, points: Sequence[Point]) -> float:
    """What the service uses alone at the point's load."""
    return next(
        (other.services for other in points if other.neighbour == ALONE and other.load == point.load), point.load
    )


def _columns(half: Sequence[Point], points: Sequence[Point], kinds: Sequence[Kind], full: dict[str, float]) -> Columns:
    services = np.array([_alone(point, points) for point in half])
    batch = np.array([point.batch for point in half])
    usable = np.array([full.get(point.neighbour, 1.0) for point in half])
    return Columns(
        services,
        batch,
        np.clip(batch / np.maximum(1 - services, 1e-9) / usable, 0.0, 1.0),
        tuple(-1 if point.neighbour == ALONE else kinds.index((point.neighbour, point.protected)) for point in half),
        np.array([point.p50_ms for point in half]),
        np.array([point.p99_ms for point in half]),
    )


def _fitted(columns: Columns, kinds: int) -> Floats:
    """Constants: base, wake and queue of p50, then of p99; then stretch and both delays of each kind."""
    least = [float(times.min()) for times in (columns.p50_ms, columns.p99_ms)]
    common = [share * times for times in least for share in (0.7, 0.3, 0.5)]
    start = np.log(np.array(common + [0.1, 0.3 * least[0], 0.3 * least[1]] * kinds))

    def residuals(logs: Floats) -> Floats:
        p50, p99 = _predicted(columns, np.exp(logs))
        off = np.log(np.concatenate([p50 / columns.p50_ms, p99 / columns.p99_ms]))
        weights = np.sqrt(1 / np.maximum(np.abs(off) / CLOSE, 1.0))
        return np.concatenate([off * weights, PRIOR * (logs - start)])

    return np.asarray(np.exp(least_squares(residuals, start)))


def _predicted(columns: Columns, constants: Floats) -> tuple[Floats, Floats]:
    """p50 and p99 of each point."""
    stretch, *delays_ms = (_by_row(columns, constants, which) for which in range(3))
    commons = ((float(base), float(wake), float(queue)) for base, wake, queue in constants[:COMMON].reshape(2, 3))
    p50, p99 = (
        formula(
            columns.services,
            columns.batch,
            (base, queue),
            stretch,
            begin_ms(columns.presence, wake, delay_ms, quantile),
        )
        for quantile, (base, wake, queue), delay_ms in zip((P50, P99), commons, delays_ms, strict=True)
    )
    return p50, p99


def _by_row(columns: Columns, constants: Floats, which: int) -> Floats:
    """Stretch or a delay of each point. A service alone has presence 0: any would do."""
    rows = np.maximum(np.array(columns.kind, dtype=np.int64), 0)
    return np.asarray(constants[COMMON + which :: 3][rows])


def _error(which: int, judged: Columns, behind: Columns, constants: Floats) -> FitError:
    """`which`: 0 for p50, 1 for p99."""
    measured = (judged.p50_ms, judged.p99_ms)[which]
    off = np.abs(_predicted(judged, constants)[which] / measured - 1) * 100
    overloaded = is_overloaded(behind.services, behind.batch, _by_row(behind, constants, 0))
    return FitError(
        points=len(off),
        median_percent=round(float(np.median(off)), 1),
        worst_percent=round(float(off.max()), 1),
        overloaded=len(overloaded),
        overloaded_predicted=int(overloaded.sum()),
    )


def least_squares(residuals: Callable[[Floats], Floats], start: Floats) -> Floats:
    """Where the sum of the squares is least, near the start."""
    at, damping = start, 1.0
    off = residuals(at)
    for _ in range(ROUNDS):
        slopes = _slopes(residuals, at, off)
        normal, downhill = slopes.T @ slopes, slopes.T @ off
        step = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-9), -downhill)
        there = at + np.clip(step, -2.0, 2.0)
        off_there = residuals(there)
        if off_there @ off_there < off @ off:
            at, off, damping = there, off_there, damping / 3
            if np.abs(step).max() < 1e-6:
                break
        else:
            damping *= 4
    return at


def _slopes(residuals: Callable[[Floats], Floats], at: Floats, off: Floats) -> Floats:
    width = 1e-5
    columns = [(residuals(at + width * unit) - off) / width for unit in np.eye(len(at))]
    return np.stack(columns, axis=1)


def _influences(constants: Floats, kinds: Sequence[Kind], *, protected: bool) -> dict[str, Influence]:
    """By neighbour, and their mean."""
    rows = {
        name: constants[COMMON + 3 * index :][:3]
        for index, (name, is_protected) in enumerate(kinds)
        if is_protected is protected
    }
    rows[MIXED] = np.mean(list(rows.values()), axis=0)
    return {name: Influence(*(round(float(constant), 4) for constant in row)) for name, row in rows.items()}
