"""What is submitted when: a pure function of the time since the beginning and of the jobs that are there.

Research always has work: a new job for each one that ends. Analytics wants its guarantee back for a while in every
round, and research, which borrowed it, must give way. A fine-tuning job has the GPUs when the training job comes: a
gang, which waits until it can have all of its GPUs at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from koord_minicluster.demo.scenario import ENCODE, REPORT, TRAIN, TUNE, JobShape

ROUND_S: Final = 120.0
"""After so long it all begins again. By the clock: the speed of the load does not change it."""
RESEARCH_JOBS: Final = 26
"""At the same time."""
FIRST_JOB_S: Final = 2.0
ONE_MORE_S: Final = 0.5
"""Between the first jobs of research, so that one can see the gaps being filled."""
TIMES_S: Final[Mapping[JobShape, float]] = {TUNE: 2.0, TRAIN: 8.0, REPORT: 35.0}
"""When in a round."""


@dataclass(frozen=True, slots=True)
class Submission:
    shape: JobShape
    number: int

    @property
    def name(self) -> str:
        return f"{self.shape.name}-{self.number}"


def research_jobs(elapsed_s: float) -> int:
    """How many jobs of research there should be."""
    return min(RESEARCH_JOBS, max(0, int((elapsed_s - FIRST_JOB_S) // ONE_MORE_S) + 1))


def times(elapsed_s: float) -> dict[JobShape, int]:
    """How often each timed job has come."""
    return {
        shape: int((elapsed_s - at_s) // ROUND_S) + 1 if elapsed_s >= at_s else 0 for shape, at_s in TIMES_S.items()
    }


def due(
    elapsed_s: float, submitted: Mapping[JobShape, int], active: int, first: Mapping[JobShape, int]
) -> list[Submission]:
    """What to submit now. `submitted`: how many of each kind since the beginning; `active`: jobs of research that are
    not done; `first`: the number that the first of a kind gets, where a cluster has some from before."""
    found = [
        Submission(shape, first.get(shape, 1) + number)
        for shape, wanted in times(elapsed_s).items()
        for number in range(submitted.get(shape, 0), wanted)
    ]
    more = research_jobs(elapsed_s) - active
    begun = submitted.get(ENCODE, 0)
    found += [Submission(ENCODE, first.get(ENCODE, 1) + begun + i) for i in range(max(0, more))]
    return found


def numbers_after(
    names: Iterable[str], shapes: Iterable[JobShape] = (ENCODE, REPORT, TRAIN, TUNE)
) -> dict[JobShape, int]:
    """The first free number of each kind of job, in a cluster that has these."""
    found = dict.fromkeys(shapes, 1)
    for name in names:
        kind, _, number = name.rpartition("-")
        for shape in found:
            if shape.name == kind and number.isdigit():
                found[shape] = max(found[shape], int(number) + 1)
    return found
