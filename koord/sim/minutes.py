"""One minute of all nodes, as columns: what the world gives to lending policies. CPU is in milli-cores.

It is `koord.agent.lending.minute.Minute` for every node at once, with the same words: *batch* is everything below best
effort, *services* is everything else on the node, the system included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """All nodes of the scenario. A node keeps its row."""

    names: tuple[str, ...]
    cpu_milli: Ints
    memory_bytes: Ints
    pool: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, slots=True)
class BatchPodMinutes:
    """Batch pods that ran in the minute, as columns. A pod keeps its number for as long as it runs."""

    number: Ints
    "Identity of the pod: never used again in a run."
    node: Ints
    "Row of its node."
    request_milli: Floats
    used_milli: Floats
    "Mean over the minute."
    wanted_milli: Floats
    "What it would have used if nothing had held it back. Policies that run live cannot see it; the oracle can."
    age_s: Floats
    "Since its start, at the end of the minute."
    unsaved_milli_s: Floats
    "Milli-core-seconds of work since its last checkpoint, or since its start."
    memory_bytes: Floats
    "Its request."
    ended: Flags
    "Whether it ended with the minute: nothing of it is left on the node."


@dataclass(frozen=True, slots=True)
class NodeMinutes:
    at_s: float
    "When the minute ended, in the time of the scenario."
    services_milli: Floats
    "Mean over the minute. NaN where the node is down: policies learn nothing there."
    rise_milli: Floats
    "Mean over the minute of services' use less its mean over the 30 s before."
    services_memory_bytes: Floats
    "The highest in the minute."
    batch_used_milli: Floats
    batch_wanted_milli: Floats
    "At least what batch used."
    services_request_milli: Floats
    "Requested by services that run on the node."
    services_request_memory_bytes: Floats
    services_peak_milli: Floats
    "Sum over services of the larger of what each requests and uses."
    services_peak_memory_bytes: Floats
    system_milli: Floats
    "Part of `services_milli` that no pod uses."
    system_memory_bytes: Floats
    reported: Flags
    "False where no report left the node in this minute: the manager keeps the figures of the last one."
    pods: BatchPodMinutes
