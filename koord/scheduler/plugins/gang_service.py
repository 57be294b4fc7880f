"""What Coscheduling knows of a gang, for people who look into a running scheduler."""

from __future__ import annotations

from koord.scheduler.plugins.gangs import Gang


def gang_told(gang: Gang) -> dict[str, object]:
    """Members by how far they have come; one that is being bound waits for its binding."""
    settings = gang.settings
    binding = gang.placed - gang.bound
    figures: dict[str, object] = {
        "name": gang.id,
        "gangFrom": "GangFromPodAnnotation" if gang.pod_group is None else "GangFromPodGroupCrd",
        "hasGangInit": settings is not None,
        "gangGroup": list(gang.group),
        "totalChildrenNum": len(gang.members),
        "children": sorted(gang.members),
        "pendingChildren": sorted(gang.members.keys() - gang.bound - binding),
        "waitingForBindChildren": sorted(binding),
        "boundChildren": sorted(gang.bound),
        "onceResourceSatisfied": bool(gang.bound or gang.placed),
    }
    if settings is not None:
        figures |= {
            "mode": settings.mode,
            "minRequiredNumber": settings.min_available,
            "gangMatchPolicy": settings.match_policy,
            "waitTime": settings.waiting_time_s,
        }
    return figures
