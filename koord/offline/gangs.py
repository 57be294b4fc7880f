"""The state of the gangs of a cluster, from its pods and PodGroups: the figures of `koord top gangs`."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from koord.api.kubernetes.pod import Pod
from koord.api.protocol.crd.pod_group import PodGroup
from koord.api.text.timestamp import parse_timestamp
from koord.scheduler.plugins.gang_rules import why_no_settings
from koord.scheduler.plugins.gang_status import status_of
from koord.scheduler.plugins.gangs import Gang, Gangs
from koord.scheduler.state.cluster import Cluster


# Printed whole, unlike the objects of the API: readers may count on every key.
class GangTop(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    gang: str
    phase: str
    "What its PodGroup says, or would if there was one."
    needs: int | None
    pods: int
    bound: int
    running: int
    waiting: int
    waits_s: float
    "How long ago the oldest of its waiting pods was made; 0 where none waits."
    group: tuple[str, ...]
    "Gangs that it goes together with."
    fault: str = ""
    "Why the number of pods that it needs is unknown."


def gangs_of(pods: Iterable[Pod], groups: Iterable[PodGroup], now_s: float) -> list[GangTop]:
    """All gangs, by name."""
    gangs = Gangs(Cluster())
    for group in groups:
        gangs.put_group(group)
    for pod in pods:
        gangs.put_pod(pod)
    return [_told(gang, now_s) for _, gang in sorted(gangs.all.items())]


def _told(gang: Gang, now_s: float) -> GangTop:
    waiting = [member for member in gang.members.values() if not member.node and str(member.phase) == "Pending"]
    made = [parse_timestamp(pod.made) for pod in waiting if pod.made]
    running = sum(1 for member in gang.members.values() if str(member.phase) == "Running")
    settings, status = gang.settings, status_of(gang, now_s)
    if status is not None:
        phase = str(status.phase)
    elif settings is None or len(gang.members) < settings.min_available:
        phase = "Pending"
    else:
        phase = "Scheduled" if len(gang.bound) >= settings.min_available else "Scheduling"
        phase = "Running" if running >= settings.min_available else phase
    return GangTop(
        gang=gang.id,
        phase=phase,
        needs=None if settings is None else settings.min_available,
        pods=len(gang.members),
        bound=len(gang.bound),
        running=running,
        waiting=len(waiting),
        waits_s=max(0.0, now_s - min(made)) if made else 0.0,
        group=tuple(id_ for id_ in gang.group if id_ != gang.id),
        fault=why_no_settings(gang) if settings is None else "",
    )
