"""Where a container is: it waits, runs, or has ended. And how long one that failed waits before it runs again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

BACKOFF_FIRST_S: Final = 10.0
BACKOFF_MOST_S: Final = 300.0
BACKOFF_RESET_S: Final = 600.0
"""A container that ran this long is restarted at once, as if it had never failed."""


@dataclass(frozen=True, slots=True)
class Waiting:
    reason: str = "PodInitializing"
    message: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    since_s: float
    ready: bool = True
    "As its readiness probe says; without one, from the start."
    started: bool = True
    "As its startup probe says."


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    started_s: float
    ended_s: float
    because: str = ""
    "Where the code does not say it."

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def reason(self) -> str:
        return self.because or ("Completed" if self.code == 0 else "Error")


State: TypeAlias = Waiting | Running | Ended


def longer(pause_s: float) -> float:
    """The pause after this one: it doubles up to five minutes."""
    return min(max(pause_s * 2, BACKOFF_FIRST_S), BACKOFF_MOST_S)
