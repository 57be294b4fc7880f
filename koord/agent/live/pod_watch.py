"""When to ask kubelet for its pods: at intervals, and soon after a pod's or a container's directory came or went, or a
pod's weight was written, which is how a resize begins.

Kubelet cannot be watched, but its directories can. They appear a little before kubelet lists their pods, so it is
asked once more after the last one. If the kernel provides no watches, or no more of them, polling remains.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, Self

from koord.agent.host.cgroups import Cgroups
from koord.agent.host.watches import Watches
from koord.api.kubernetes.cgroup import CgroupDriver, qos_dir
from koord.api.kubernetes.words import KubeQoS
from koord.kube.clock import Clock

log = logging.getLogger(__name__)

LEAST_S: Final = 1.0
"""Between two looks, whatever comes and goes."""
SETTLE_S: Final = 0.1
"""A pod's directories come one after the other."""
ONCE_MORE_S: Final = 2.0
"""Kubelet learns of containers by looking each second."""


class PodWatch:
    def __init__(self, cgroups: Cgroups, driver: CgroupDriver, clock: Clock) -> None:
        self._cgroups, self._clock = cgroups, clock
        self._classes = tuple(self._path(qos_dir(qos, driver)) for qos in KubeQoS)
        self._changed = asyncio.Event()
        self._watches: Watches | None = None
        self._is_full = self._has_told = self._has_missed = self._was_early = False

    def __enter__(self) -> Self:
        try:
            self._watches = Watches()
        except OSError as error:
            log.warning("new pods are noticed at intervals only: the kernel gives no watch (%s)", error.strerror)
            return self
        asyncio.get_running_loop().add_reader(self._watches.fd, self._told)
        self.follow(())
        return self

    def __exit__(self, *error: object) -> None:
        if self._watches is not None:
            asyncio.get_running_loop().remove_reader(self._watches.fd)
            self._watches.close()
            self._watches = None

    def __len__(self) -> int:
        """How many directories are watched."""
        return 0 if self._watches is None else len(self._watches)

    def follow(self, pods: Iterable[str]) -> None:
        """The directories of these pods, as kubelet tells them, and of their classes."""
        watches = self._watches
        if watches is None:
            return
        wanted = {*self._classes, *map(self._path, pods)}
        watches.remove_gone(but=wanted)
        self._is_full = False
        # A class whose directory was created again sends no event.
        for path in wanted if self._has_missed else [*self._classes, *(path for path in wanted if path not in watches)]:
            self._add(watches, path)
        self._has_missed = False

    def hurry(self) -> None:
        """Somebody else knows that kubelet has news."""
        self._changed.set()

    async def next_look(self, within_s: float) -> bool:
        """Returns when it is time to ask again: whether because something came or went."""
        until_s = self._clock.monotonic() + (min(ONCE_MORE_S, within_s) if self._was_early else within_s)
        await self._clock.sleep(min(LEAST_S, within_s))
        try:
            async with asyncio.timeout(max(until_s - self._clock.monotonic(), 0.0)):
                await self._changed.wait()
            await self._clock.sleep(SETTLE_S)
        except TimeoutError:
            pass
        self._was_early = self._changed.is_set()
        self._changed.clear()
        return self._was_early

    def _told(self) -> None:
        """Called by the event loop when the kernel has something to tell."""
        watches = self._watches
        if watches is None:
            return
        for change in watches.changes():
            if change.is_file:
                # Of classes kubelet writes it with every pod; of a pod, when it is made or resized.
                if change.directory not in self._classes:
                    self._changed.set()
                continue
            self._changed.set()
            path = f"{change.directory}/{change.name}"
            if not change.directory:
                self._has_missed = True
            elif not change.is_there:
                watches.remove(path)
            elif change.directory in self._classes:
                self._add(watches, path)

    def _add(self, watches: Watches, path: str) -> None:
        if self._is_full:
            return
        try:
            watches.add(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._is_full = True
            if not self._has_told:
                self._has_told = True
                log.warning("some pods are noticed at intervals only: no watch for %s (%s)", path, error.strerror)

    def _path(self, directory: str) -> str:
        return self._cgroups.files.path(self._cgroups.name("cpu", directory))
