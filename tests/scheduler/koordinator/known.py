"""Where koord says something else than Koordinator and is meant to, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable


def _each(reason: str, numbers: Iterable[int]) -> dict[int, str]:
    return dict.fromkeys(numbers, reason)


_PREFERRED_MARK = "what a pod took of preferred CPUs counts for the rest of its CPUs when it shuns its like"
_ONE_NUMA_NODE = "on a machine with one NUMA node that node is agreed on, as on any other"
_NO_PREFERENCE = "a pod without any NUMA preference is not refused for wanting NUMA nodes for itself"
_BEST_SCORE = "of as many nodes the best score is taken, in whichever order the hints come"

KNOWN: dict[str, dict[int, str]] = {
    "cpus": _each(_PREFERRED_MARK, (154, 236, 246)),
    "numa_hints": {
        **_each(
            _ONE_NUMA_NODE, (8, 15, 24, 67, 75, 100, 114, 124, 177, 208, 212, 225, 243, 248, 255, 271, 277, 278, 279)
        ),
        **_each(_NO_PREFERENCE, (21, 259)),
        **_each(_BEST_SCORE, (153,)),
    },
}
"""By subject, the number of a case in its recording -> why."""
