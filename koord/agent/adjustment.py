"""Wishes in the words that container runtimes have: what a container, or a pod's sandbox, is made with.

Whoever delivers them before a container starts puts these into its own protocol. What no runtime can set (a group
identity) is left to the executor, which sees what runs.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from koord.agent.host.convert import PERIOD_US
from koord.agent.host.knobs import CPU_QUOTA, CPU_SHARES, CPUSET_CPUS, MEMORY_LIMIT, OOM_SCORE_ADJ
from koord.agent.wish import CdiDevice, Device, Env, Mount, Wish
from koord.api.text.cpuset import CPUSet


class DeviceNode(msgspec.Struct, frozen=True, rename="camel"):
    path: str
    host_path: str
    permissions: str


class MountPoint(msgspec.Struct, frozen=True, rename="camel"):
    path: str
    host_path: str
    is_read_only: bool


class Adjustment(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """None leaves the limit unchanged; -1 removes it."""

    cpu_shares: int | None = None
    cpu_quota_us: int | None = None
    cpu_period_us: int | None = None
    memory_limit_bytes: int | None = None
    oom_score_adj: int | None = None
    cpus: str | None = None
    env: dict[str, str] = {}
    devices: tuple[DeviceNode, ...] = ()
    mounts: tuple[MountPoint, ...] = ()
    cdi: tuple[str, ...] = ()
    "Devices by the names that specifications on the node give them."
    rdt_class: str = ""
    "The resctrl group in which the container's tasks start; empty: the runtime gets no group."
    why: tuple[str, ...] = ()
    "One line for each hook that wants something."


def adjustment_of(wishes: Iterable[Wish], rdt_class: str = "") -> Adjustment:
    wishes = list(wishes)
    value = {wish.setting: wish.value for wish in wishes}

    def number(knob: object) -> int | None:
        number = value.get(knob)  # type: ignore[call-overload]
        return number if isinstance(number, int) else None

    cpus, quota = value.get(CPUSET_CPUS), number(CPU_QUOTA)
    return Adjustment(
        cpu_shares=number(CPU_SHARES),
        cpu_quota_us=quota,
        cpu_period_us=PERIOD_US if quota is not None and quota > 0 else None,
        memory_limit_bytes=number(MEMORY_LIMIT),
        oom_score_adj=number(OOM_SCORE_ADJ),
        cpus=str(cpus) if isinstance(cpus, CPUSet) else None,
        env={setting.name: str(text) for setting, text in value.items() if isinstance(setting, Env)},
        devices=tuple(
            DeviceNode(setting.path, str(path), setting.permissions)
            for setting, path in value.items()
            if isinstance(setting, Device)
        ),
        mounts=tuple(
            MountPoint(setting.path, str(path), setting.is_read_only)
            for setting, path in value.items()
            if isinstance(setting, Mount)
        ),
        cdi=tuple(setting.name for setting in value if isinstance(setting, CdiDevice)),
        rdt_class=rdt_class,
        why=tuple(dict.fromkeys(f"{wish.by}: {wish.why}" for wish in wishes)),
    )
