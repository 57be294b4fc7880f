"""What no policy can exceed: a bound on the GPU that pods of a trace can have on the nodes of a trace.

By weak duality, whatever prices of devices, CPU and memory are tried, no placement takes more GPU than

    sum_k (pi_k D_k + lambda_k C_k + mu_k M_k) + sum_t d_t max(0, max_k (g_t - pi_k e_t - lambda_k c_t - mu_k m_t))

where e_t are sizes, and no device holds more than 1 in all. CPU and memory are pooled in groups of equal nodes, and
pods may be dropped at will. The bound is the least over some choices of sizes and prices.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from koord.scheduler.plugins.packing.cutting_stock import device_duals
from koord.scheduler.plugins.packing.group_prices import Market
from koord.scheduler.plugins.packing.shadow_prices import idle_of
from koord.scheduler.plugins.packing.shapes import STEP, WHOLE, Fleet, Mix
from koord.scheduler.state.table import Array

TAUS: Final = (10.0, 3.0)
TRUSTS: Final = (1.0, 0.9, 0.0)


def ceiling_milli(fleet: Fleet, demand: Mix) -> float:
    """The most GPU that pods in these numbers can have on an empty fleet."""
    shapes = list(demand)
    number = np.array([demand[shape] for shape in shapes], np.float64)
    widths: dict[int, float] = {}
    for shape in shapes:
        if shape.gpus == 1 and shape.gpu_milli < WHOLE:
            width = -(-shape.gpu_milli // STEP)
            widths[width] = widths.get(width, 0.0) + demand[shape]
    duals = dict(zip(widths, _feasible(list(widths), device_duals(list(widths), list(widths.values()))), strict=True))
    best = float(sum(shape.total_milli * demand[shape] for shape in shapes))
    idle = idle_of(fleet)
    for trust in TRUSTS:
        takes = np.array([
            trust * duals[-(-pod_shape.gpu_milli // STEP)] + (1 - trust) * pod_shape.gpu_milli / WHOLE
            if pod_shape.is_share else float(pod_shape.gpus) for pod_shape in shapes
        ])  # fmt: skip
        market = Market(fleet.groups, shapes, number, takes, idle)
        for tau in TAUS:
            best = min(best, _bound(market, market.prices(tau), np.array([pod_shape.gpus > 0 for pod_shape in shapes])))
    return best


def _feasible(widths: list[int], duals: Array, device: int = WHOLE // STEP) -> list[float]:
    """Duals scaled so that no device holds more than 1, whatever the solver's rounding."""
    most = np.zeros(device + 1)
    for room in range(1, device + 1):
        fitting = [duals[i] + most[room - width] for i, width in enumerate(widths) if width <= room]
        most[room] = max([most[room - 1], *fitting])
    return (duals / max(1.0, float(most[device]))).tolist() if len(widths) else []


def _bound(market: Market, prices: Array, with_gpu: Array) -> float:
    gain = np.where(market.hosts, market.worth_alone[:, np.newaxis] - market.costs(prices), 0.0).max(axis=1)
    # Pods without a GPU take CPU and bring nothing: the best packing leaves them out.
    return float(market.has.ravel() @ prices + (market.demand * with_gpu) @ np.maximum(gain, 0.0))
