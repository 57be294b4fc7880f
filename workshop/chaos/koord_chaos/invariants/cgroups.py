"""Cgroup files: as they should be in time, unchanged by a restart of the agent, as before after switch-off.

A snapshot maps paths to the text of the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from koord_chaos.invariants.invariant import Invariant
from koord_chaos.invariants.manifests import cpus_of

Files: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CgroupHistory:
    """Snapshots with their times in seconds, in order, and what happened to the node in the meantime."""

    snapshots: Sequence[tuple[float, Files]]
    wanted: Files = field(default_factory=dict)
    "Files as they should be after the last change of pods or settings."
    changed_s: float = 0.0
    "When that change was."
    within_s: float = 5.0
    restarts_s: Sequence[tuple[float, float]] = ()
    "When the agent was away, without any other change."
    before: Files = field(default_factory=dict)
    "As koord found them; for files that it wrote."
    switched_off_s: float | None = None


def _same(one: str, other: str, path: str) -> bool:
    if path.endswith(("cpuset.cpus", "cpuset.cpus.effective")):
        return cpus_of(one) == cpus_of(other)
    return one.split() == other.split()


def _differences(wanted: Files, files: Files) -> Iterator[str]:
    for path, text in wanted.items():
        if path not in files:
            yield f"{path} is missing and should be {text.strip()!r}"
        elif not _same(files[path], text, path):
            yield f"{path} is {files[path].strip()!r} and should be {text.strip()!r}"


def _late_files(history: CgroupHistory) -> Iterator[str]:
    until_s = history.switched_off_s
    for at_s, files in history.snapshots:
        if at_s >= history.changed_s + history.within_s and (until_s is None or at_s < until_s):
            yield from (
                f"after {at_s - history.changed_s:.0f} s {line}" for line in _differences(history.wanted, files)
            )


def _disturbed_files(history: CgroupHistory) -> Iterator[str]:
    for began_s, ended_s in history.restarts_s:
        earlier = [files for at_s, files in history.snapshots if at_s <= began_s]
        if not earlier:
            continue
        for at_s, files in history.snapshots:
            if began_s < at_s <= ended_s + history.within_s:
                present = {path: text for path, text in earlier[-1].items() if path in files}
                yield from (f"during a restart of the agent {line}" for line in _differences(present, files))


def _remains(history: CgroupHistory) -> Iterator[str]:
    if history.switched_off_s is None or not history.snapshots:
        return
    at_s, files = history.snapshots[-1]
    if at_s >= history.switched_off_s + history.within_s:
        present = {path: text for path, text in history.before.items() if path in files}
        yield from (f"after switch-off {line}" for line in _differences(present, files))


CGROUPS: Final[tuple[Invariant[CgroupHistory], ...]] = (
    Invariant(
        "timely-cgroups", "The cgroups of a node are as they should be a few seconds after a change.", _late_files
    ),
    Invariant("steady-cgroups", "A restart of the agent changes no cgroup.", _disturbed_files),
    Invariant("restored-cgroups", "After switch-off all cgroups are as koord found them.", _remains),
)
