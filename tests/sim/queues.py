"""A made-up machine for the latency model: a queue with one server, whose CPU sleeps or has to be taken from batch.

Requests arrive at random; the one that begins a busy time first waits for the CPU. The model is not made of this: it
has to fit it anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from koord.sim.latency_recording import ALONE, UNLIMITED, Machine, Point, Recording, Setting

MACHINE = Machine("a made-up CPU", 2, "6.1", "v2", "2026-01-01")
LOADS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
REQUEST_MS = 1.0
WAKE_MS = 0.4


@dataclass(frozen=True, slots=True)
class Batch:
    stretch: float
    delay_ms: float


QUIET = {("cpu", True): Batch(0.02, 0.1), ("cache", True): Batch(0.2, 0.1)}
LOUD = {("cpu", False): Batch(1.5, 2.0), ("cache", False): Batch(1.8, 2.5)}


def recording(requests: int = 8000) -> Recording:
    settings = [Setting(load, ALONE, True, UNLIMITED) for load in LOADS]
    for name, protected in {**QUIET, **LOUD}:
        settings += [Setting(load, name, protected, UNLIMITED) for load in LOADS]
        settings += [Setting(load, name, protected, 40) for load in (0.1, 0.3, 0.5)]
    points = tuple(point(setting, number, requests) for number, setting in enumerate(settings))
    return Recording(MACHINE, 2.0, points)


def point(setting: Setting, seed: int, requests: int) -> Point:
    batch = {**QUIET, **LOUD}.get((setting.neighbour, setting.protected), Batch(0.0, 0.0))
    used = 0.0 if setting.neighbour == ALONE else min(setting.ceiling_percent / 100, 1 - setting.load)
    presence = used / (1 - setting.load)
    times_ms, answered = serve(setting.load, presence, batch, seed, requests)
    p50, p99 = np.quantile(times_ms, (0.5, 0.99))
    return Point(*setting, setting.load, used, float(p50), float(p99), requests, answered, 0.0)


def serve(load: float, presence: float, batch: Batch, seed: int, requests: int) -> tuple[list[float], float]:
    """Response times in milliseconds, and the share of requests that were answered before the last one came."""
    rng = np.random.default_rng(seed)
    work_ms = REQUEST_MS * (1 + batch.stretch * presence * (1 - load))
    arrivals_ms = np.cumsum(rng.exponential(REQUEST_MS / load, requests)).tolist()
    meets_batch, waits = rng.random(requests) < presence, rng.exponential(1.0, requests)
    delays_ms = (waits * np.where(meets_batch, batch.delay_ms, WAKE_MS)).tolist()
    free_ms, ends_ms, times_ms = 0.0, [], []
    for arrival_ms, delay_ms in zip(arrivals_ms, delays_ms, strict=True):
        if arrival_ms >= free_ms:
            free_ms = arrival_ms + delay_ms
        free_ms += work_ms
        ends_ms.append(free_ms)
        times_ms.append(free_ms - arrival_ms)
    return times_ms, sum(end <= arrivals_ms[-1] + 50 for end in ends_ms) / requests
