"""The record of a container's run, stored beside its log: a restarted node recognises the process by it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    restarts: int
    process: str
    "Its number and when it began, as the agent names processes: another may have the number later."
    since_s: float
    backoff_s: float

    @property
    def pid(self) -> int:
        return int(self.process.partition("@")[0])
