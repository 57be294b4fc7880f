"""What can be set for the whole machine: files of /proc/sys and /sys, the same on both cgroup versions."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from koord.agent.host.files import Files
from koord.agent.host.knobs import Form, Knob, Place, Value

_FEATURE: Final = re.compile("[A-Z][A-Z0-9_]{0,63}")
_NAMED: Final = "sched_features "
_FEATURES: Final = ("sys/kernel/debug/sched/features", "sys/kernel/debug/sched_features")
"""Where kernels have them, newer ones first."""
_NUMBER: Final = Form(write=str, read=int)


def _of_host(name: str, file: str, least: int, most: int, form: Form = _NUMBER) -> Knob:
    place = Place(file, form)
    return Knob(name, place, place, least, most, is_of_host=True)


MIN_FREE_KBYTES: Final = _of_host("vm.min_free_kbytes", "proc/sys/vm/min_free_kbytes", 10 * 1024, 10 * 1024 * 1024)
WATERMARK_SCALE: Final = _of_host("vm.watermark_scale_factor", "proc/sys/vm/watermark_scale_factor", 10, 400)
REAP_IN_BACKGROUND: Final = _of_host("memcg_reaper", "sys/kernel/mm/memcg_reaper/reap_background", 0, 1)
PAGE_CACHE_LIMITS: Final = _of_host("pagecache_limit", "sys/kernel/mm/pagecache_limit/enabled", 0, 1)
GROUP_IDENTITY_ON: Final = _of_host(
    "kernel.sched_group_identity_enabled", "proc/sys/kernel/sched_group_identity_enabled", 0, 1
)
IDLE_SAVER: Final = _of_host("kernel.sched_idle_saver_wmark", "proc/sys/kernel/sched_idle_saver_wmark", 0, 2**31 - 1)
KIDLED_PERIOD: Final = _of_host("kidled.scan_period", "sys/kernel/mm/kidled/scan_period_in_seconds", 0, 120)
KIDLED_HIERARCHY: Final = _of_host("kidled.use_hierarchy", "sys/kernel/mm/kidled/use_hierarchy", 0, 1)

SYSTEM_KNOBS: Final[tuple[Knob, ...]] = (
    MIN_FREE_KBYTES,
    WATERMARK_SCALE,
    REAP_IN_BACKGROUND,
    PAGE_CACHE_LIMITS,
    GROUP_IDENTITY_ON,
    IDLE_SAVER,
    KIDLED_PERIOD,
    KIDLED_HIERARCHY,
)


def scheduler_feature_names(files: Files) -> frozenset[str]:
    """Of this kernel, without regard to whether they are on."""
    for file in _FEATURES:
        try:
            return frozenset(word.removeprefix("NO_") for word in files.once(file).decode().split())
        except OSError:
            continue
    return frozenset()


@lru_cache(256)
def scheduler_features(name: str) -> tuple[Knob, ...]:
    """One feature of the kernel's scheduler, in each of the places where kernels have it; none for an invalid name."""
    if not _FEATURE.fullmatch(name):
        return ()
    return tuple(
        _of_host(f"{_NAMED}{name} {index}", file, 0, 1, _feature(name)) for index, file in enumerate(_FEATURES)
    )


def scheduler_feature_named(name: str) -> Knob | None:
    feature, _, index = name.removeprefix(_NAMED).rpartition(" ")
    if not name.startswith(_NAMED) or index not in ("0", "1"):
        return None
    knobs = scheduler_features(feature)
    return knobs[int(index)] if knobs else None


def _feature(name: str) -> Form:
    """The file lists all of them, those that are off with NO_ before."""

    def write(value: Value) -> str:
        return name if value else f"NO_{name}"

    def read(text: str) -> int:
        words = text.split()
        if name not in words and f"NO_{name}" not in words:
            raise ValueError(f"this kernel's scheduler has no feature {name}")
        return int(name in words)

    return Form(write, read, shown=lambda text: write(read(text)))
