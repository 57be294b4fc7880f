"""What a device, a milli-core and a MiB are worth in each group of equal nodes, and what a pod is worth to its hosts.

Prices are the smoothed duals of "serve as much of the mix as the cluster can". They minimise

    sum_k (pi_k D_k + lambda_k C_k + mu_k M_k) + tau sum_t d_t ln(1 + sum_k s_k exp((g_t - cost_tk) / tau))
    cost_tk = pi_k e_t + lambda_k c_t + mu_k m_t

over prices that are not negative; k are groups that could host t. The worth of a shape is
w_t = -tau ln sum_k s_k exp(-cost_tk / tau), within 0 and g_t. Without smoothing, a model with room to spare has price
0 and is given away to pods that could go elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from koord.scheduler.plugins.packing.shapes import WHOLE, NodeGroup, PodShape
from koord.scheduler.state.table import Array

LOAD: Final = 1.05
"""The demand for which prices are made, of what is idle. Below 1 prices fall to 0, as fragments make room smaller."""
TAU: Final = 30.0
"""3 % of a device: lifts prices off 0 where a dual is degenerate."""
MOST_STEPS: Final = 200
Value: TypeAlias = Callable[[Array], float]
Slopes: TypeAlias = Callable[[Array], tuple[Array, Array]]
PRECISE: Final = 1e-9
RIDGE: Final = 1e-9


class Market:
    """Groups of nodes that have amounts idle, and shapes of pods that come in numbers: what prices are made from."""

    def __init__(
        self, groups: Sequence[NodeGroup], shapes: Sequence[PodShape], demand: Array, takes: Array, idle: Array
    ) -> None:
        """`takes`: devices by effective size; `idle`: by group devices, CPU, memory."""
        gpu = np.array([shape.total_milli for shape in shapes], np.float64)
        cpu = np.array([shape.cpu_milli for shape in shapes], np.float64)
        memory = np.array([shape.memory_mib for shape in shapes], np.float64)
        # Every amount in units of what there is beside one device, so that all prices have about one size.
        unit = np.maximum(idle.sum(axis=0) / idle[:, 0].sum(), 1.0)
        unit[0] = 1.0
        self.demand = demand
        self.needs = np.stack([takes, cpu / unit[1], memory / unit[2]], axis=1)
        self.has = idle / unit
        self.worth_alone = np.where(gpu > 0, gpu, cpu * WHOLE / unit[1])
        could = np.array([[group.could_host(shape) for group in groups] for shape in shapes], np.bool_)
        by_devices, by_cpu = (idle[:, i] / max(idle[:, i].sum(), 1.0) for i in (0, 1))
        share = np.where(gpu[:, np.newaxis] > 0, by_devices, by_cpu) * could
        self.hosts = share > 0
        "By shape and group."
        self._log_share = np.where(self.hosts, np.log(np.where(self.hosts, share, 1.0)), -np.inf)

    def costs(self, prices: Array) -> Array:
        """Of a pod of each shape in each group."""
        costs: Array = self.needs @ prices.reshape(-1, 3).T
        return costs

    def exponents(self, prices: Array, tau: float) -> Array:
        return self._log_share - self.costs(prices) / tau

    def inside(self, prices: Array, tau: float) -> Array:
        """Under the logarithm: ln of what each group adds to 1."""
        logs: Array = self.exponents(prices, tau) + (self.worth_alone / tau)[:, np.newaxis]
        return logs

    def value(self, prices: Array, tau: float) -> float:
        """What prices are to make as small as can be."""
        return float(self.has.ravel() @ prices + tau * self.demand @ _log_one_plus_sum(self.inside(prices, tau)))

    def slopes(self, prices: Array, tau: float) -> tuple[Array, Array]:
        """Gradient and Hessian of that."""
        inside, needs, demand = self.inside(prices, tau), self.needs, self.demand
        chance = np.exp(inside - _log_one_plus_sum(inside)[:, np.newaxis])  # of shape t in group k
        gradient = self.has - np.einsum("t,tk,ti->ki", demand, chance, needs)
        number = len(self.has)
        pull = (chance[:, :, np.newaxis] * needs[:, np.newaxis, :]).reshape(len(needs), 3 * number)
        hessian = -(pull.T * demand) @ pull / tau
        own = np.einsum("tk,ti,tj->kij", demand[:, np.newaxis] * chance, needs, needs, optimize=True) / tau
        for k in range(number):
            hessian[3 * k : 3 * k + 3, 3 * k : 3 * k + 3] += own[k]
        return gradient.ravel(), hessian

    def prices(self, tau: float = TAU) -> Array:
        """Device, CPU and memory of each group, in a row."""
        return _smallest(lambda at: self.value(at, tau), lambda at: self.slopes(at, tau), self.has.size)

    def worths(self, tau: float = TAU) -> Array:
        """What a pod of each shape is worth to the groups that can host it."""
        hosts = self.exponents(self.prices(tau), tau)
        most = hosts.max(axis=1)
        hosted = np.isfinite(most)
        safe = np.where(hosted, most, 0.0)
        total = np.exp(hosts - safe[:, np.newaxis]).sum(axis=1)
        worths_raw = -tau * (safe + np.log(np.where(hosted, total, 1.0)))
        return np.where(hosted, np.clip(worths_raw, 0.0, self.worth_alone), 0.0)


def worths(
    groups: Sequence[NodeGroup], shapes: Sequence[PodShape], often: Array, takes: Array, idle: Array, load: float = LOAD
) -> Array:
    """What a pod of each shape is worth, where as much comes as fills `load` of what is idle."""
    if not idle[:, 0].sum() > 0 or not len(shapes):
        return np.zeros(len(shapes))
    asked = sum(shape.total_milli * number for shape, number in zip(shapes, often.tolist(), strict=True))
    demand = often * load * idle[:, 0].sum() * WHOLE / max(asked, 1.0)
    return Market(groups, shapes, demand, takes, idle).worths()


def _log_one_plus_sum(inside: Array) -> Array:
    """ln(1 + sum exp), by lines."""
    most = np.maximum(inside.max(axis=1), 0.0)
    log_sum: Array = most + np.log(np.exp(-most) + np.exp(inside - most[:, np.newaxis]).sum(axis=1))
    return log_sum


def _smallest(value: Value, slopes: Slopes, number: int) -> Array:
    """Where a smooth convex function is smallest, of arguments that are not negative: Newton's method, projected."""
    at = np.full(number, 0.1 * WHOLE)
    now = value(at)
    for _ in range(MOST_STEPS):
        gradient, hessian = slopes(at)
        held = (at <= 1e-6) & (gradient > 0)
        free = ~held
        if not free.any() or np.abs(gradient[free] * np.maximum(at[free], 1.0)).max() < PRECISE * max(abs(now), 1.0):
            break
        step = np.zeros(number)
        inner = hessian[np.ix_(free, free)]
        ridge = RIDGE * max(float(np.trace(inner)), 1.0) + 1e-12
        step[free] = -np.linalg.solve(inner + ridge * np.eye(len(inner)), gradient[free])
        length = 1.0
        while length > 1e-10:
            there = np.maximum(at + length * step, 0.0)
            there[held] = 0.0
            new = value(there)
            if new < now - 1e-4 * abs(float(gradient @ (there - at))):
                break
            length /= 2
        else:
            break
        at, gained, now = there, now - new, new
        if gained < PRECISE * 1e-3 * abs(now):
            break
    return at
