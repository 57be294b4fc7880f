"""Columns of nodes and minutes for tests, in cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from koord.api.configuration.slo_config_types import COLOCATION_DEFAULTS
from koord.api.configuration.slo_defaults import THRESHOLD_STRATEGY
from koord.sim.minutes import BatchPodMinutes, Floats, NodeColumns, NodeMinutes
from koord.sim.policies.policy import Settings

GIB = 1 << 30
SETTINGS = Settings(85, COLOCATION_DEFAULTS, THRESHOLD_STRATEGY)


def nodes(*cores: int, memory_gib: int = 256) -> NodeColumns:
    return NodeColumns(
        names=tuple(f"n{row}" for row in range(len(cores))),
        cpu_milli=np.array(cores, np.int64) * 1000,
        memory_bytes=np.full(len(cores), memory_gib * GIB, np.int64),
        pool=("",) * len(cores),
    )


@dataclass(frozen=True)
class BatchPod:
    """Of a node, in cores."""

    node: int
    request: float
    used: float
    wanted: float | None = None
    age_s: float = 3600.0
    unsaved_core_s: float = 0.0
    ended: bool = False


def minutes(
    services: Sequence[float],
    pods: Mapping[int, BatchPod] | None = None,
    *,
    at_s: float = 60.0,
    rise: float = 0.0,
    used: Sequence[float] | None = None,
    wanted: Sequence[float] | None = None,
    system: float = 0.0,
    memory_gib: float = 10.0,
) -> NodeMinutes:
    """`services` by node; pods by number."""
    count = len(services)
    columns = pod_columns(pods or {})
    sums = np.bincount(columns.node, columns.used_milli, count) if used is None else np.array(used) * 1000
    wants = np.bincount(columns.node, columns.wanted_milli, count) if wanted is None else np.array(wanted) * 1000
    milli = np.array(services, np.float64) * 1000
    return NodeMinutes(
        at_s=at_s,
        services_milli=milli,
        rise_milli=np.full(count, rise * 1000),
        services_memory_bytes=np.full(count, memory_gib * GIB),
        batch_used_milli=sums.astype(np.float64),
        batch_wanted_milli=np.maximum(wants, sums).astype(np.float64),
        services_request_milli=2 * milli,
        services_request_memory_bytes=np.full(count, 2 * memory_gib * GIB),
        services_peak_milli=2 * milli,
        services_peak_memory_bytes=np.full(count, 2 * memory_gib * GIB),
        system_milli=np.full(count, system * 1000),
        system_memory_bytes=np.zeros(count),
        reported=~np.isnan(milli),
        pods=columns,
    )


def pod_columns(pods: Mapping[int, BatchPod]) -> BatchPodMinutes:
    def column(values: list[float]) -> Floats:
        return np.array(values, np.float64)

    return BatchPodMinutes(
        number=np.array(list(pods), np.int64),
        node=np.array([pod.node for pod in pods.values()], np.int64),
        request_milli=column([pod.request * 1000 for pod in pods.values()]),
        used_milli=column([pod.used * 1000 for pod in pods.values()]),
        wanted_milli=column([(pod.used if pod.wanted is None else pod.wanted) * 1000 for pod in pods.values()]),
        age_s=column([pod.age_s for pod in pods.values()]),
        unsaved_milli_s=column([pod.unsaved_core_s * 1000 for pod in pods.values()]),
        memory_bytes=column([float(GIB) for _ in pods]),
        ended=np.array([pod.ended for pod in pods.values()], np.bool_),
    )


class Future:
    """A future for policies that ask for it."""

    def __init__(self, services: Sequence[float], memory_gib: float = 10.0) -> None:
        self.services = np.array(services, np.float64) * 1000
        self.memory_bytes = np.full(len(services), memory_gib * GIB)

    def services_milli(self, seconds: float) -> Floats:
        return self.services

    def services_memory_bytes(self, seconds: float) -> Floats:
        return self.memory_bytes
