"""What happens on nodes in a minute: how use varies, what batch gets, and how far its pods come.

A minute has six samples of 10 s. In each:

    services = min(capacity, curve * (1 + noise of the minute) * (1 + noise of the sample) + system)
    batch    = min(what its pods want, ceiling, capacity - services), shared in proportion to what they want

The noise of a minute is normal, that of a sample has heavy tails (Student's t with 3 degrees of freedom, brought to the
stated deviation). Both are drawn by node, from the seed and the number of the minute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from koord.sim.minutes import Floats
from koord.sim.scenario import SAMPLE_S, TICK_S, Noise

SAMPLES: Final = int(TICK_S / SAMPLE_S)
BEFORE: Final = 3
"""Samples in the 30 s that the ceiling looks back over."""
_DEGREES: Final = 3
_LEAST: Final = 0.2
_MOST: Final = 4.0
"""Bounds of each factor, so that use stays plausible."""


def noise_factors(seed: int, tick: int, nodes: int, noise: Noise) -> Floats:
    """Samples x nodes."""
    random = np.random.Generator(np.random.Philox(key=np.array([seed, tick], np.uint64)))
    minute = 1 + noise.minute * random.standard_normal(nodes)
    scale = noise.ten_seconds / np.sqrt(_DEGREES / (_DEGREES - 2))
    sample = 1 + scale * random.standard_t(_DEGREES, (SAMPLES, nodes))
    factors: Floats = np.clip(minute, _LEAST, _MOST) * np.clip(sample, _LEAST, _MOST)
    return factors


@dataclass(frozen=True, slots=True)
class Minute:
    """Means over the minute, by node."""

    services_milli: Floats
    "With the system."
    rise_milli: Floats
    batch_milli: Floats
    share: Floats
    "Of what batch wanted that it got, 0 to 1."
    ceiling_milli: Floats
    "Mean of the ceilings; infinite where there was none."
    last: Floats
    "The last `BEFORE` samples x nodes of services."
    samples: Floats
    "Samples x nodes of services."
    batch_samples: Floats


def minute(
    samples: Floats,
    before: Floats,
    capacity: Floats,
    wanted: Floats,
    ceiling: Callable[[Floats, Floats], Floats],
) -> Minute:
    """`samples`: services by sample and node; `before`: the samples of the 30 s before; `wanted`: by batch; `ceiling`:
    from services' mean of the last 30 s, and what they use in the sample itself, which only an oracle may look at."""
    series = np.concatenate((before, samples))
    batch, rise = np.empty_like(samples), np.zeros(samples.shape[1])
    total_ceiling = np.zeros(samples.shape[1])
    for number, now in enumerate(samples):
        mean = series[number : number + BEFORE].mean(axis=0)
        rise += now - mean
        allowed = ceiling(mean, now)
        total_ceiling += allowed
        batch[number] = np.clip(np.minimum(wanted, np.minimum(allowed, capacity - now)), 0.0, None)
    used = batch.mean(axis=0)
    share = np.divide(used, wanted, out=np.ones_like(used), where=wanted > 0)
    return Minute(
        services_milli=samples.mean(axis=0),
        rise_milli=rise / len(samples),
        batch_milli=used,
        share=np.minimum(share, 1.0),
        ceiling_milli=total_ceiling / len(samples),
        last=series[-BEFORE:],
        samples=samples,
        batch_samples=batch,
    )


def with_batch(minute: Minute, used: Floats) -> Minute:
    """The minute with what batch pods used in fact: those that ended in it used less than they were given."""
    part = np.divide(used, minute.batch_milli, out=np.ones_like(used), where=minute.batch_milli > 0)
    return replace(minute, batch_milli=used, batch_samples=minute.batch_samples * part)
