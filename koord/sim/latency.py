"""How much slower services answer beside batch: a stated model with few constants, on columns.

The response time at a quantile (p50, p99), in milliseconds, of a service that uses a share s of its node while batch
uses a share b:

    x      = b / (1 - s) / full         how present batch is: 1 if it has all the idle CPU that it can use
    work   = 1 + stretch * b            how much longer the same work takes: caches, memory, shared time
    load   = s * work
    time   = base * work + begin + queue * work * load / (1 - load)

    (1 - x) * exp(-begin / wake * k) + x * exp(-begin / delay * k) = exp(-k),    k = ln(1 + 1 / (1 - quantile))

`base` is a request on an idle node; `queue` is the wait behind other requests, as in a queue with one server. A request
meets a CPU that is idle, which needs `wake` to start, or one that batch has, which is its own after `delay`. Both vary
like exponential times, and `begin` is the quantile of the two together: `wake` without batch, `delay` where batch is on
every CPU, and in between what the more harmful one leaves. p50 and p99 have their own times and share `stretch`.
`stretch`, `delay` and `full` belong to a kind of neighbour, with or without the agent's protection; they are fitted by
`koord.sim.latency_fit` to a recording.

A service whose load is above `FULLEST` falls behind: its response time grows for as long as that lasts. The model then
gives the time at `FULLEST`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Final, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from koord.api.machinery.faults import Fault, Invalid, check
from koord.api.machinery.struct import Struct
from koord.sim.latency_recording import Machine
from koord.sim.minutes import Flags, Floats

FORMAT: Final = "koord.sim/latency/v1"
FULLEST: Final = 0.95
LEAST_MS: Final = 1e-6
"""Of times that a formula divides by."""
STEPS: Final = 6
"""Of Newton's method: after four, times change by less than a millionth."""
GRID: Final = np.linspace(0, 1, 2001)
"""Presences between which the wait for a CPU is interpolated."""
P50: Final = 0.5
P99: Final = 0.99
MIXED: Final = "mixed"
"""The neighbour that is the mean of all kinds: for traces that do not say what batch does."""

Constant: TypeAlias = Annotated[float, Meta(ge=0, le=1e6)]


class Influence(Struct, omit_defaults=False):
    """What a kind of neighbour does to a service."""

    stretch: Constant
    p50_delay_ms: Constant
    p99_delay_ms: Constant


class Common(Struct, omit_defaults=False):
    """What a quantile is made of beside every neighbour."""

    base_ms: Annotated[float, Meta(gt=0, le=1e6)]
    wake_ms: Constant
    queue_ms: Constant

    @property
    def idle_ms(self) -> float:
        """Of a service that is alone and nearly idle: the unit of multiples."""
        return self.base_ms + self.wake_ms


class FitError(Struct, omit_defaults=False):
    """How far the model is off, on points that it was not fitted to."""

    points: int
    median_percent: float
    worst_percent: float
    overloaded: int = 0
    "Further points, where the service fell behind."
    overloaded_predicted: int = 0
    "Of these, those where the model says so."


class LatencyModel(Struct, omit_defaults=False):
    """All constants, with where they were measured."""

    machine: Machine
    full: Mapping[str, Annotated[float, Meta(gt=0, le=1)]]
    "By kind of neighbour: the share of idle CPU that it uses if nothing limits it."
    p50: Common
    p99: Common
    protected: Mapping[str, Influence]
    "By kind of neighbour: with the agent."
    unprotected: Mapping[str, Influence]
    p50_error: FitError
    p99_error: FitError
    left_out: tuple[str, ...] = ()
    "Neighbours that were recorded with too few undisturbed points."
    format: str = FORMAT

    @property
    def neighbours(self) -> tuple[str, ...]:
        return tuple(self.full)

    def presence(self, services: Floats, batch: Floats, neighbour: str) -> Floats:
        """x, by the shares of the node that services and batch use."""
        idle = np.maximum(1 - services, 1e-9)
        return np.asarray(np.clip(batch / idle / self.full[neighbour], 0.0, 1.0))

    def influence(self, neighbour: str, *, protected: bool) -> Influence:
        return (self.protected if protected else self.unprotected)[neighbour]


def response_ms(
    model: LatencyModel, services: Floats, batch: Floats, neighbour: str, *, protected: bool = True
) -> tuple[Floats, Floats]:
    """p50 and p99, by the shares of the node that services and batch use."""
    presence = model.presence(services, batch, neighbour)
    influence = model.influence(neighbour, protected=protected)
    p50, p99 = (
        formula(
            services,
            batch,
            (common.base_ms, common.queue_ms),
            influence.stretch,
            np.interp(presence, GRID, _begin_of_grid(common.wake_ms, delay_ms, quantile)),
        )
        for quantile, common, delay_ms in (
            (P50, model.p50, influence.p50_delay_ms),
            (P99, model.p99, influence.p99_delay_ms),
        )
    )
    return p50, p99


def is_overloaded(services: Floats, batch: Floats, stretch: Floats | float) -> Flags:
    return np.asarray(services * (1 + stretch * batch) > FULLEST)


def formula(
    services: Floats, batch: Floats, common: tuple[float, float], stretch: Floats | float, begin: Floats
) -> Floats:
    """The model itself. `common`: base and queue. `begin` comes from `begin_ms`. Stretch may differ by row."""
    base_ms, queue_ms = common
    work = 1 + stretch * batch
    load = np.minimum(services * work, FULLEST)
    return np.asarray(base_ms * work + begin + queue_ms * work * load / (1 - load))


def begin_ms(presence: Floats, wake_ms: Floats | float, delay_ms: Floats | float, quantile: float) -> Floats:
    """What a request waits for its CPU at the quantile; `presence` is x. By Newton's method from below, where the
    convex left side lets no step go too far."""
    k = np.log1p(1 / (1 - quantile))
    wake, delay = (np.maximum(mean, LEAST_MS) / k for mean in (wake_ms, delay_ms))
    with np.errstate(divide="ignore"):
        least = np.maximum(wake * (k + np.log(1 - presence)), delay * (k + np.log(presence)))
    begin = np.maximum(least, 0.0)
    for _ in range(STEPS):
        idle, held = (1 - presence) * np.exp(-begin / wake), presence * np.exp(-begin / delay)
        begin = begin + (idle + held - np.exp(-k)) / (idle / wake + held / delay)
    return np.asarray(begin)


@lru_cache(maxsize=64)
def _begin_of_grid(wake_ms: float, delay_ms: float, quantile: float) -> Floats:
    return begin_ms(GRID, wake_ms, delay_ms, quantile)


def parse(text: bytes, source: str) -> LatencyModel:
    """The constants in a file's bytes. Raises `Invalid`, which names the file, and the field of each fault."""
    advice = "koord sim calibrate writes this kind of file"
    try:
        data = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Invalid(source, [Fault("", f"is not JSON ({error}); {advice}")]) from None
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise Invalid(source, [Fault("format", f"must be {FORMAT}; {advice}")])
    model = check(LatencyModel, data, source)
    faults = [
        Fault(group, f"must have an entry for each of {', '.join(model.full)}")
        for group, influences in (("protected", model.protected), ("unprotected", model.unprotected))
        if set(influences) != set(model.full)
    ]
    if MIXED not in model.full:
        faults.append(Fault("full", f"must have {MIXED}, the mean of all kinds"))
    if faults:
        raise Invalid(source, faults)
    return model
