"""Where koord says something else than Koordinator and is meant to, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable


def _each(reason: str, numbers: Iterable[int]) -> dict[int, str]:
    return dict.fromkeys(numbers, reason)


_PREFERRED_MARK = "what a pod took of preferred CPUs counts for the rest of its CPUs when it shuns its like"
_ONE_NUMA_NODE = "on a machine with one NUMA node that node is agreed on, as on any other"
_NO_PREFERENCE = "a pod without any NUMA preference is not refused for wanting NUMA nodes for itself"
_BEST_SCORE = "of as many nodes the best score is taken, in whichever order the hints come"
_HIGHEST_PARTITION = "partitions with the highest allocationScore are tried first, as users are told"
_REAL_SCORE = "a shared GPU is scored by what is free of it, in the topology as elsewhere"
_SCORED_HINTS = "hints prefer the NUMA nodes of the GPUs that the pod is going to get, by score"
_SELECTED_FIRST = "a selector that matches no GPU is told before a topology that is missing"
_GOES_ON = "pods of a once-satisfied gang go on once their group has started, whatever its other gangs wait for"

KNOWN: dict[str, dict[int, str]] = {
    "cpus": _each(_PREFERRED_MARK, (154, 236, 246)),
    "numa_hints": {
        **_each(
            _ONE_NUMA_NODE, (8, 15, 24, 67, 75, 100, 114, 124, 177, 208, 212, 225, 243, 248, 255, 271, 277, 278, 279)
        ),
        **_each(_NO_PREFERENCE, (21, 259)),
        **_each(_BEST_SCORE, (153,)),
    },
    "devices": {
        **_each(_HIGHEST_PARTITION, (27, 105, 232, 254, 304, 305)),
        **_each(_REAL_SCORE, (2, 302)),
        **_each(_SCORED_HINTS, (301,)),
        **_each(_SELECTED_FIRST, (264,)),
    },
    "gangs": _each(_GOES_ON, (1, 135, 177)),
}
"""By subject, the number of a case in its recording -> why."""
