"""How much slower services answer beside batch: a stated model with few constants, on columns.

The response time at a quantile (p50, p99), in milliseconds, of a service that uses a share s of its node while batch
uses a share b:

    x      = b / (1 - s) / full         how present batch is: 1 if it has all the idle CPU that it can use
    work   = 1 + stretch * x            how much longer the same work takes: caches, memory, shared time
    load   = s * work
    time   = base * work + wake * h(1 - x) + delay * h(x) + queue * work * load / (1 - load)

    h(p)   = ln(1 + p / (1 - quantile)) / ln(1 + 1 / (1 - quantile))

`base` is a request on an idle node; `wake` is what an idle CPU needs to start; `delay` is the wait for a CPU that batch
has; `queue` is the wait behind other requests, as in a queue with one server. h is how much of a rare delay shows at
the quantile: at p99 one that 30% of the requests meet shows as 74% of it. `stretch`, `delay` and `full` belong to a
kind of neighbour, with or without the agent's protection; they are fitted by `koord.sim.latency_fit` to a recording.

A service whose load is above `FULLEST` falls behind: its response time grows for as long as that lasts. The model then
gives the time at `FULLEST`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from koord.api.machinery.faults import Fault, Invalid, check
from koord.api.machinery.struct import Struct
from koord.sim.latency_recording import Machine
from koord.sim.minutes import Flags, Floats

FORMAT: Final = "koord.sim/latency/v1"
FULLEST: Final = 0.97
MIXED: Final = "mixed"
"""The neighbour that is the mean of all kinds: for traces that do not say what batch does."""

Constant: TypeAlias = Annotated[float, Meta(ge=0, le=1e6)]


class Influence(Struct, omit_defaults=False):
    """What a kind of neighbour does to a service at one quantile."""

    stretch: Constant
    delay_ms: Constant


class Quantile(Struct, omit_defaults=False):
    quantile: Annotated[float, Meta(gt=0, lt=1)]
    base_ms: Annotated[float, Meta(gt=0, le=1e6)]
    wake_ms: Constant
    queue_ms: Constant
    protected: Mapping[str, Influence]
    "By kind of neighbour."
    unprotected: Mapping[str, Influence]

    @property
    def idle_ms(self) -> float:
        """Of a service that is alone and nearly idle: the unit of `multiples`."""
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
    p50: Quantile
    p99: Quantile
    p50_error: FitError
    p99_error: FitError
    format: str = FORMAT

    @property
    def neighbours(self) -> tuple[str, ...]:
        return tuple(self.full)

    def presence(self, services: Floats, batch: Floats, neighbour: str) -> Floats:
        """x, by the shares of the node that services and batch use."""
        idle = np.maximum(1 - services, 1e-9)
        return np.asarray(np.clip(batch / idle / self.full[neighbour], 0.0, 1.0))


def response_ms(
    quantile: Quantile, services: Floats, presence: Floats, neighbour: str, *, protected: bool = True
) -> Floats:
    """By row: the service's share of the node, and how present batch is there."""
    influence = (quantile.protected if protected else quantile.unprotected)[neighbour]
    return formula(
        quantile.quantile,
        services,
        presence,
        (quantile.base_ms, quantile.wake_ms, quantile.queue_ms),
        influence.stretch,
        influence.delay_ms,
    )


def is_overloaded(
    quantile: Quantile, services: Floats, presence: Floats, neighbour: str, *, protected: bool = True
) -> Flags:
    influence = (quantile.protected if protected else quantile.unprotected)[neighbour]
    return np.asarray(services * (1 + influence.stretch * presence) > FULLEST)


def formula(
    quantile: float,
    services: Floats,
    presence: Floats,
    common: tuple[float, float, float],
    stretch: Floats | float,
    delay_ms: Floats | float,
) -> Floats:
    """The model itself. `common`: base, wake and queue; stretch and delay may differ by row."""
    base_ms, wake_ms, queue_ms = common
    work = 1 + stretch * presence
    load = np.minimum(services * work, FULLEST)
    waiting = queue_ms * work * load / (1 - load)
    delayed = wake_ms * shown(1 - presence, quantile) + delay_ms * shown(presence, quantile)
    return np.asarray(base_ms * work + delayed + waiting)


def shown(probability: Floats, quantile: float) -> Floats:
    """h: how much of a delay that requests meet with this probability shows at the quantile."""
    return np.asarray(np.log1p(probability / (1 - quantile)) / np.log1p(1 / (1 - quantile)))


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
        Fault(f"{field}.{group}", f"must have an entry for each of {', '.join(model.full)}")
        for field, quantile in (("p50", model.p50), ("p99", model.p99))
        for group, influences in (("protected", quantile.protected), ("unprotected", quantile.unprotected))
        if set(influences) != set(model.full)
    ]
    if MIXED not in model.full:
        faults.append(Fault("full", f"must have {MIXED}, the mean of all kinds"))
    if faults:
        raise Invalid(source, faults)
    return model
