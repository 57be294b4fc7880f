"""The live view's figures about this machine as a node: service latency, best-effort limits, evicted pods.

They are read from the Prometheus metrics of the node and its agent, so that nothing is measured for the view alone.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from koord.api.protocol.names import NAMESPACE_KOORDINATOR
from koord.kube.account_token import AccountToken
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.operate.bands import BANDS, Used, band_of
from koord_minicluster.local.live.probes import ANSWERED
from koord_minicluster.up.bootstrap import MONITOR

log = logging.getLogger(__name__)

BEST_EFFORT: Final = "BE"
WINDOW: Final = 30
"""Looks over which answers are counted together."""
WITHIN_S: Final = 1.0
TOKEN_S: Final = 3600


class BestEffortCpu(NamedTuple):
    """Best effort on this node, in milli-cores."""

    used: float
    limit: float


@dataclass(slots=True)
class ThisNode:
    used: Used | None = None
    "Sooner than its next report tells."
    held: BestEffortCpu | None = None
    evicted: int = 0
    _answers: deque[Mapping[float, float]] = field(default_factory=lambda: deque(maxlen=WINDOW))
    "Histograms as they stood, by upper bound."

    def look(self, node: Iterable[Sample], agent: Iterable[Sample]) -> None:
        """Updates the figures from the samples of both endpoints. A missing endpoint has no samples."""
        standing: dict[float, float] = {}
        for sample in node:
            if sample.name == f"{ANSWERED}_bucket" and sample.labels["qos"] != BEST_EFFORT:
                bound = float(sample.labels["le"])
                standing[bound] = standing.get(bound, 0.0) + sample.value
        if self._answers and standing.get(_ALL, 0.0) < self._answers[-1].get(_ALL, 0.0):
            # The node restarted.
            self._answers.clear()
        self._answers.append(standing)
        samples = list(agent)
        self.used = _used(samples)
        of = {sample.labels["what"]: sample.value for sample in samples if sample.name == "koordlet_be_cpu_milli"}
        self.held = BestEffortCpu(of["used"], of["limit"]) if {"used", "limit"} <= of.keys() else None
        evictions = [
            sample for sample in samples if sample.name == "koordlet_actions_total" and sample.labels["what"] == "evict"
        ]
        self.evicted = int(sum(sample.value for sample in evictions))

    def answer_s(self, part: float) -> float | None:
        """The time within which this share of the window's answers arrived; None if there were none."""
        if not self._answers:
            return None
        first, last = self._answers[0], self._answers[-1]
        return quantile({bound: count - first.get(bound, 0.0) for bound, count in last.items()}, part)


_ALL: Final = float("inf")


def _used(samples: Iterable[Sample]) -> Used | None:
    used, node_milli = dict.fromkeys(BANDS, 0), None
    for sample in samples:
        if sample.labels.get("resource") != "cpu":
            continue
        if sample.name == "koordlet_node_usage":
            node_milli = int(sample.value * 1000)
        elif sample.name == "koordlet_pod_usage":
            used[band_of(sample.labels["priority"])] += int(sample.value * 1000)
    if node_milli is None:
        return None
    used["system"] = max(node_milli - sum(used.values()), 0)
    return Used(used)


def quantile(cumulative: Mapping[float, float], part: float) -> float | None:
    """Of a histogram's counts by upper bound: evenly within a bucket, and the largest bound beyond it."""
    wanted = part * cumulative.get(_ALL, 0.0)
    if not wanted:
        return None
    below, reached = 0.0, 0.0
    for bound in sorted(cumulative):
        if cumulative[bound] >= wanted:
            inside = cumulative[bound] - reached
            return below if bound == _ALL else below + (bound - below) * (wanted - reached) / inside
        below, reached = bound, cumulative[bound]
    return below


class Scraper:
    """Reads metrics with the monitoring account's token, which it renews before it expires."""

    def __init__(self, client: Client, session: aiohttp.ClientSession, now_s: Callable[[], float]) -> None:
        self._session = session
        self._token = AccountToken(client, NAMESPACE_KOORDINATOR, MONITOR, now_s)

    async def scrape(self, address: str | None) -> list[Sample]:
        """The samples of an endpoint; none if it does not answer."""
        if not address:
            return []
        try:
            headers = {"Authorization": f"Bearer {await self._token.valid()}"}
            timeout = aiohttp.ClientTimeout(total=WITHIN_S)
            async with self._session.get(f"{address}/metrics", headers=headers, timeout=timeout) as answer:
                answer.raise_for_status()
                text = await answer.text()
        except (ApiError, aiohttp.ClientError, TimeoutError, OSError) as error:
            log.debug("%s does not tell its metrics: %s", address, error)
            return []
        return [sample for family in text_string_to_metric_families(text) for sample in family.samples]
