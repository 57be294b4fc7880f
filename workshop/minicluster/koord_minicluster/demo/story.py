"""Which jobs are submitted when: a pure function of the time since the start and of the existing jobs.

Research always has work: a new job for each job that ends. In every round analytics needs its guarantee back for a
while, and research, which borrowed it, must yield. A fine-tuning job holds the GPUs when the training job is
submitted. The training job is a gang, which waits until all of its GPUs are free at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from koord_minicluster.demo.scenario import ENCODE, REPORT, TRAIN, TUNE, JobShape

ROUND_S: Final = 120.0
"""Length of a round, after which the story repeats. In clock time: the speed of the load does not change it."""
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
    """The jobs to submit now. `submitted`: how many of each kind since the start; `active`: unfinished jobs of
    research; `first`: the number of the first job of a kind, if the cluster has jobs from an earlier run."""
    submissions = [
        Submission(shape, first.get(shape, 1) + number)
        for shape, wanted in times(elapsed_s).items()
        for number in range(submitted.get(shape, 0), wanted)
    ]
    more = research_jobs(elapsed_s) - active
    begun = submitted.get(ENCODE, 0)
    submissions += [Submission(ENCODE, first.get(ENCODE, 1) + begun + i) for i in range(max(0, more))]
    return submissions


def numbers_after(
    names: Iterable[str], shapes: Iterable[JobShape] = (ENCODE, REPORT, TRAIN, TUNE)
) -> dict[JobShape, int]:
    """The first free number of each kind of job, in a cluster that has these."""
    numbers = dict.fromkeys(shapes, 1)
    for name in names:
        kind, _, number = name.rpartition("-")
        for shape in numbers:
            if shape.name == kind and number.isdigit():
                numbers[shape] = max(numbers[shape], int(number) + 1)
    return numbers
