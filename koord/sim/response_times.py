"""Response times of services in the simulated world: how many samples are over the limit, and p99 over time.

The world asks once a minute, with what services and batch used in each sample of each node. All services of a node
have the same response time; a node counts as often as it has services. Times are in multiples of those of a service
that is alone on an idle node.
"""

from __future__ import annotations

from dataclasses import dataclass

from koord.api.machinery.faults import BadInput
from koord.sim.latency import LatencyModel, response_ms
from koord.sim.minutes import Flags, Floats
from koord.sim.scenario import LatencySettings


@dataclass(frozen=True, slots=True)
class ResponseTimes:
    """Of one minute, by node."""

    slow: Floats
    "Share of the samples whose p99 was over the limit."
    p99: Floats
    "Mean of the samples, in multiples."
    p50: Floats

    def over(self, services: Floats) -> tuple[float, float]:
        """Share of service samples over the limit, and mean p99; NaN without services. `services`: how many by node."""
        count = float(services.sum())
        if not count:
            return float("nan"), float("nan")
        return float(self.slow @ services) / count, float(self.p99 @ services) / count


def check_settings(model: LatencyModel, settings: LatencySettings) -> None:
    """Raises `BadInput` if the constants do not have the neighbour."""
    if settings.neighbour not in model.full:
        raise BadInput(f"latency.neighbour: must be one of {', '.join(model.full)}, not {settings.neighbour}")


def response_times(
    model: LatencyModel, settings: LatencySettings, services_milli: Floats, batch_milli: Floats, capacity_milli: Floats
) -> ResponseTimes:
    """`services_milli`, with the system, and `batch_milli`: samples x nodes."""
    services, batch = services_milli / capacity_milli, batch_milli / capacity_milli
    p50_ms, p99_ms = response_ms(model, services, batch, settings.neighbour, protected=settings.protected)
    p50, p99 = p50_ms / model.p50.idle_ms, p99_ms / model.p99.idle_ms
    over: Flags = p99 > settings.limit
    return ResponseTimes(over.mean(axis=0), p99.mean(axis=0), p50.mean(axis=0))
