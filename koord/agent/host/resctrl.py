"""Shares of the last-level cache and of memory bandwidth: the kernel's resctrl file system.

A group is a directory with `schemata` (which parts of the cache its tasks may fill, how much bandwidth they may use),
`tasks`, and counters in `mon_data`. Above it is the root group, in which every task begins. The agent has groups of its
own names alone; what others made there, and the tasks in it, is left to them.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from koord.agent.host.files import Files

MOUNT: Final = "sys/fs/resctrl"
ROOT_GROUP: Final = "/"
CLASSES: Final = ("LSR", "LS", "BE")
OF_POD: Final = "koordlet-"
_OWN: Final = re.compile(rf"(?:{'|'.join(CLASSES)}|{OF_POD}[A-Za-z0-9][A-Za-z0-9_.-]{{0,127}})")
_NOT_GROUPS: Final = frozenset({"info", "mon_groups", "mon_data"})
_MONITORED: Final = re.compile(r"mon_L3_(?P<id>[0-9]+)")
OCCUPANCY: Final = "llc_occupancy"
COUNTERS: Final = (OCCUPANCY, "mbm_total_bytes", "mbm_local_bytes")
_CACHES: Final = (("L3",), ("L3CODE", "L3DATA"))
"""If code and data are separate (mount option cdp), there are two lines instead of one."""
_BANDWIDTH: Final = "MB"
_KNOWN: Final = frozenset({_BANDWIDTH, *(name for names in _CACHES for name in names)})
_LINE: Final = re.compile(r"(?P<name>[A-Z][A-Z0-9]*):(?P<shares>(?:[0-9]+= *[0-9a-fA-F]+;?)+)")
"""Amounts are set right by the kernel: `MB:0=2048;1=  16`."""

Schemata = Mapping[str, Mapping[int, int]]
"""By resource (`L3`, `MB`) and cache, a mask of its ways, or an amount."""


class Unit(Enum):
    """What an amount of memory bandwidth counts."""

    PERCENT = "percent"
    EIGHTH_GBPS = "eighths of GB/s"
    "AMD, for each group of cores that shares a cache."
    MBPS = "MB/s"
    "By mount option mba_MBps: the kernel limits groups in MB/s."


@dataclass(frozen=True, slots=True)
class Cache:
    lines: tuple[str, ...]
    full: int
    "The mask of all ways."
    least_bits: int
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bandwidth:
    unit: Unit
    step: int
    least: int
    most: int
    "What a group without a limit has."
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Resctrl:
    """What this machine can share, and which groups there are."""

    cache: Cache | None
    bandwidth: Bandwidth | None
    most_groups: int
    "Beside the root group."
    groups: frozenset[str]


def is_own(group: str) -> bool:
    """Whether a group has a name that the agent gives."""
    return _OWN.fullmatch(group) is not None


def absence(files: Files) -> str:
    """Why there is nothing to share; empty where there is."""
    if files.exists(f"{MOUNT}/schemata"):
        return ""
    if files.exists(MOUNT):
        return "resctrl is not mounted: mount -t resctrl resctrl /sys/fs/resctrl"
    return "this machine has no resctrl: its CPUs or its kernel cannot divide the cache"


def read(files: Files, vendor: str) -> Resctrl | None:
    """None where there is nothing to share. `vendor` is the CPUs', as /proc/cpuinfo names it."""
    text = files.text_if_any(f"{MOUNT}/schemata")
    if not text:
        return None
    root = parse(text)
    cache = _cache(files, root)
    bandwidth = _bandwidth(files, root, vendor)
    shared = [*(cache.lines if cache else ()), *([_BANDWIDTH] if bandwidth else [])]
    limits = [_number(files, f"{MOUNT}/info/{name}/num_closids", 1) for name in shared]
    return Resctrl(cache, bandwidth, max(min(limits, default=1) - 1, 0), frozenset(groups(files)))


def groups(files: Files) -> list[str]:
    """All groups but the root group, whosoever they are."""
    return [name for name in files.directories(MOUNT) if name not in _NOT_GROUPS]


def _cache(files: Files, root: Schemata) -> Cache | None:
    for lines in _CACHES:
        if all(line in root for line in lines):
            info = f"{MOUNT}/info/{lines[0]}"
            full = int(files.text_if_any(f"{info}/cbm_mask") or "0", 16)
            if not full or full & (full + 1):
                # Masks are made of whole parts of the cache, which a mask with holes does not have.
                return None
            return Cache(lines, full, _number(files, f"{info}/min_cbm_bits", 1), tuple(sorted(root[lines[0]])))
    return None


def _bandwidth(files: Files, root: Schemata, vendor: str) -> Bandwidth | None:
    amounts = root.get(_BANDWIDTH)
    if not amounts:
        return None
    info = f"{MOUNT}/info/{_BANDWIDTH}"
    step, least = _number(files, f"{info}/bandwidth_gran", 10), _number(files, f"{info}/min_bandwidth", 10)
    ids = tuple(sorted(amounts))
    if "mba_MBps" in _mount_options(files):
        return Bandwidth(Unit.MBPS, 1, 1, 2**32 - 1, ids)
    if vendor == "AuthenticAMD":
        return Bandwidth(Unit.EIGHTH_GBPS, 1, max(least, 1), 2048, ids)
    return Bandwidth(Unit.PERCENT, max(step, 1), least, 100, ids)


def _mount_options(files: Files) -> list[str]:
    for line in files.text_if_any("proc/mounts").splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[1] == f"/{MOUNT}" and fields[2] == "resctrl":
            return fields[3].split(",")
    return []


def _number(files: Files, name: str, otherwise: int) -> int:
    text = files.text_if_any(name)
    return int(text) if text.isdecimal() else otherwise


def parse(text: str) -> Schemata:
    """Parses the last-level cache and bandwidth lines of a `schemata` file, or of one of koord's texts."""
    schemata: dict[str, dict[int, int]] = {}
    for line in _LINE.finditer(text):
        if line["name"] in _KNOWN:
            base = 10 if line["name"] == _BANDWIDTH else 16
            pairs = (pair.split("=") for pair in line["shares"].strip(";").split(";"))
            schemata[line["name"]] = {int(cache): int(share, base) for cache, share in pairs}
    return schemata


def write(schemata: Schemata) -> str:
    """One word for each line, in the form that is stored and compared."""
    return " ".join(f"{name}:{_shares(name, schemata[name])}" for name in sorted(schemata))


def _shares(name: str, shares: Mapping[int, int]) -> str:
    form = "d" if name == _BANDWIDTH else "x"
    return ";".join(f"{cache}={shares[cache]:{form}}" for cache in sorted(shares))


def set_schemata(files: Files, group: str, text: str) -> None:
    """All lines in one write: the kernel takes each, and leaves what is not named."""
    try:
        files.write(f"{MOUNT}/{group}/schemata", "".join(f"{line}\n" for line in text.split()))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        status = files.text_if_any(f"{MOUNT}/info/last_cmd_status")
        raise OSError(errno.EINVAL, status or "the kernel refuses it", group) from error


def make(files: Files, group: str) -> None:
    try:
        files.make_directory(f"{MOUNT}/{group}")
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise OSError(errno.ENOSPC, "this machine has no class of service left for another group", group) from error
    if not files.exists(f"{MOUNT}/{group}/schemata"):
        files.remove_directory(f"{MOUNT}/{group}")
        raise OSError(errno.ENODEV, "what lies there is no resctrl file system", group)


def remove(files: Files, group: str) -> None:
    """Its tasks go to the root group."""
    files.forget(f"{MOUNT}/{group}")
    files.remove_directory(f"{MOUNT}/{group}")


def counters(files: Files, group: str) -> Iterator[tuple[int, str, int]]:
    """What a group's tasks hold of each cache and have moved to and from memory: cache, counter, bytes."""
    own = f"{MOUNT}/{group}/mon_data"
    for name in files.directories(own):
        cache = _MONITORED.fullmatch(name)
        for counter in COUNTERS if cache else ():
            # If a counter has no value, the file contains a word instead of a number.
            text = files.text_if_any(f"{own}/{name}/{counter}")
            if cache and text.isdecimal():
                yield int(cache["id"]), counter, int(text)


def groups_of_tasks(files: Files) -> dict[int, str]:
    """Of each task that is not in the root group, its group."""
    group_of_task = {}
    for group in groups(files):
        for task in tasks_of(files, group):
            group_of_task[task] = group
    return group_of_task


def tasks_of(files: Files, group: str) -> Iterable[int]:
    try:
        return [int(line) for line in files.once(f"{MOUNT}/{group}/tasks").split()]
    except FileNotFoundError:
        return ()


def move(files: Files, task: int, group: str) -> None:
    """Raises ProcessLookupError for a task that has ended, FileNotFoundError for a group that is gone."""
    files.write(tasks_file(group), str(task))


def tasks_file(group: str) -> str:
    return f"{MOUNT}/tasks" if group == ROOT_GROUP else f"{MOUNT}/{group}/tasks"
