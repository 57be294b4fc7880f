"""Lines of a recording. A pod's requests and place stand in its first line only: the rest of the file stays small."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from koord.sim.traces.trace import Content

Cell: TypeAlias = str | int | None
HEADERS: Final[Mapping[Content, tuple[str, ...]]] = {
    "services": ("time_s", "pod", "cpu_milli", "memory_bytes", "request_cpu_milli", "request_memory_bytes", "node"),
    "batch": (
        *("time_s", "task", "cpu_milli", "arrival_s", "request_cpu_milli", "request_memory_bytes"),
        *("queue", "gang"),
    ),
    "nodes": ("time_s", "node", "cpu_milli", "memory_bytes", "pool", "system_cpu_milli"),
}


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What the API says about a pod."""

    arrival_s: int
    request_cpu_milli: int
    request_memory_bytes: int
    queue: str = ""
    gang: str = ""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    cpu_milli: int
    memory_bytes: int
    pool: str = ""


@dataclass(frozen=True, slots=True)
class Use:
    """What a pod used in the time that ended at `time_s`."""

    time_s: int
    pod: str
    node: str
    is_batch: bool
    cpu_milli: int
    memory_bytes: int | None


@dataclass(slots=True)
class Lines:
    """Lines that were not written yet, and which pods have had their first line. What is counted goes on counting."""

    by_file: dict[Content, list[tuple[Cell, ...]]] = field(
        default_factory=lambda: {"services": [], "batch": [], "nodes": []}
    )
    started: set[str] = field(default_factory=set)
    pods: int = 0
    unknown_pods: int = 0
    "Those about which the API said nothing: their requests count as 0."

    def add_use(self, use: Use, facts: PodFacts | None) -> None:
        is_first = use.pod not in self.started
        if is_first:
            self.started.add(use.pod)
            self.pods += 1
            self.unknown_pods += facts is None
        cpu = facts.request_cpu_milli if is_first and facts is not None else None
        memory = facts.request_memory_bytes if is_first and facts is not None else None
        if not use.is_batch:
            node = use.node if is_first else None
            self.by_file["services"].append((use.time_s, use.pod, use.cpu_milli, use.memory_bytes, cpu, memory, node))
            return
        arrival = facts.arrival_s if is_first and facts is not None else None
        queue, gang = (facts.queue, facts.gang) if is_first and facts is not None else ("", "")
        self.by_file["batch"].append((use.time_s, use.pod, use.cpu_milli, arrival, cpu, memory, queue, gang))

    def add_node(self, time_s: int, name: str, facts: NodeFacts, system_cpu_milli: int | None) -> None:
        line = (time_s, name, facts.cpu_milli, facts.memory_bytes, facts.pool, system_cpu_milli)
        self.by_file["nodes"].append(line)

    def taken(self) -> dict[Content, list[tuple[Cell, ...]]]:
        """The lines so far; they are not given again."""
        lines, self.by_file = self.by_file, {"services": [], "batch": [], "nodes": []}
        return lines


def text_of(lines: Iterable[tuple[Cell, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()
