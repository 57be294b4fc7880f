"""Records what a Prometheus has, page by page of time, with sizes and requests from it and from the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from koord.api.machinery.faults import BadInput
from koord.operate.live.prometheus import Prometheus
from koord.sim.history.rows import Lines, NodeFacts, PodFacts
from koord.sim.history.series import (
    CAPACITY,
    CREATED,
    LENT,
    NODE_CPU,
    POD_CPU,
    POD_MEMORY,
    REQUESTS,
    LabelledPoints,
    MetricsPage,
    add_page,
)
from koord.sim.live.recording_folder import RecordingFolder

MOST_POINTS: Final = 200_000
"In the answer to a query."
MOST_STEPS: Final = 11_000
"In a series: Prometheus refuses more."
COUNTS: Final = 50
"How often pods are counted to find the length of a page."
ALL: Final = ""
"A Prometheus is read until one time, for all nodes."


@dataclass(slots=True)
class PrometheusRecording:
    prometheus: Prometheus
    folder: RecordingFolder
    step_s: float
    pods: Mapping[str, PodFacts] = field(default_factory=dict)
    nodes: Mapping[str, NodeFacts] = field(default_factory=dict)
    lines: Lines = field(default_factory=Lines)

    def run(
        self, from_s: float, until_s: float, stopped: Callable[[], bool], progress: Callable[[float], None]
    ) -> None:
        """From a time, or from where the recording ended before. Times are multiples of the step."""
        begin_s = max(from_s, self.folder.state.until_s.get(ALL, 0.0) + self.step_s)
        at_s = -(-begin_s // self.step_s) * self.step_s
        while at_s <= until_s and not stopped() and not self.folder.is_full:
            end_s = min(until_s, at_s + (self._steps(at_s, until_s) - 1) * self.step_s)
            times_s = add_page(self.lines, self._page(at_s, end_s), self.pods, self.nodes)
            self.folder.append(self.lines.taken(), {ALL: end_s}, times_s)
            progress(end_s)
            at_s = end_s // self.step_s * self.step_s + self.step_s
        if self.folder.state.first_s is None:
            raise BadInput(
                f"Prometheus {self.prometheus.url} has no koordlet_pod_usage in this time:"
                " are koord's agents scraped? koord install --with monitoring says how"
            )

    def _steps(self, at_s: float, until_s: float) -> int:
        """How many steps a page has: fewer where there are many pods."""
        length_s = max(self.step_s, min(until_s - at_s, MOST_STEPS * self.step_s))
        counts = self.prometheus.series(f"count({POD_CPU})", at_s, at_s + length_s, max(self.step_s, length_s / COUNTS))
        pods = max([1.0, *(count for _, points in counts for _, count in points)])
        return max(1, min(MOST_STEPS, round(length_s / self.step_s) + 1, int(MOST_POINTS / pods)))

    def _page(self, begin_s: float, end_s: float) -> MetricsPage:
        def points(query: str) -> LabelledPoints:
            return self.prometheus.series(query, begin_s, end_s, self.step_s)

        return MetricsPage(
            pod_cpu=points(POD_CPU),
            pod_memory=points(POD_MEMORY),
            node_cpu=points(NODE_CPU),
            requests=points(REQUESTS),
            created=points(CREATED),
            lent=points(LENT),
            capacity=points(CAPACITY),
        )
