"""What is usual at each hour, kept: learnt from every window, written once an hour, read by the next agent."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from koord.agent.interference.hours import HOUR_S, Hours, HoursError, Usual, read_hours
from koord.agent.pods import AgentPod
from koord.api.protocol.slowed_by import paired
from koord.kube.clock import Clock

log = logging.getLogger(__name__)

FILE: Final = "usual-hours.json"


class UsualHours:
    def __init__(self, state_dir: Path, clock: Clock, usual: dict[str, Mapping[str, Usual]]) -> None:
        """`usual` is filled for the decision, by uid."""
        self._file, self._clock, self._usual = state_dir / FILE, clock, usual
        self._hours = _read(self._file)
        self._hour = -1
        self._pods: frozenset[str] = frozenset()

    def heard(self, pods: Mapping[str, AgentPod], signals: Mapping[str, Mapping[str, float]]) -> None:
        """After each window; `signals`: by uid, of pods without a suspect."""
        now_s = self._clock.now()
        workloads = {uid: str(workload) for uid, pod in pods.items() if (workload := paired(pod.meta)) is not None}
        for uid, values in signals.items():
            for signal, value in values.items() if uid in workloads else ():
                self._hours.learn(workloads[uid], signal, value, now_s)
        hour = int(now_s // HOUR_S)
        if hour == self._hour and self._pods == workloads.keys():
            return
        if hour != self._hour and self._hour >= 0:
            self._hours.forget(now_s)
            self._save()
        self._hour, self._pods = hour, frozenset(workloads)
        self._usual.clear()
        self._usual.update(
            {uid: usual for uid, workload in workloads.items() if (usual := self._hours.usual(workload, now_s))}
        )

    def _save(self) -> None:
        new = self._file.with_suffix(".new")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            new.write_bytes(self._hours.dumped())
            os.replace(new, self._file)
        except OSError as error:
            log.warning("%s was not updated: %s", self._file, error)


def _read(file: Path) -> Hours:
    try:
        return read_hours(file.read_bytes())
    except FileNotFoundError:
        return Hours()
    except (HoursError, OSError) as error:
        log.warning("learning the usual values of each hour again: %s cannot be used: %s", file, error)
        return Hours()
