"""What a gang group needs before any of its pods is bound, and why it waits: functions of what the gangs are.

policy                  a gang's minimum is reached by
once-satisfied          pods that are placed together; once one pod of its group has a place, it needs no more
waiting-and-running     pods that are placed together, and those that have their places
only-waiting            pods that are placed together
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from koord.api.machinery.faults import Fault
from koord.api.protocol.annotations import gang as protocol
from koord.api.protocol.crd.pod_group import PodGroup
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.jobs import JobNeed
from koord.scheduler.plugins.gangs import Gang, Gangs


def group_faults(group: PodGroup) -> Iterator[Fault]:
    """What is wrong with a PodGroup, beside its annotations."""
    least, timeout_s = group.spec.min_member, group.spec.schedule_timeout_seconds
    if least < 1:
        yield Fault("spec.minMember", f"is {least}, so its pods are placed one by one; it must be 1 or more")
    if timeout_s is not None and timeout_s < 0:
        yield Fault("spec.scheduleTimeoutSeconds", f"is {timeout_s}, so the default counts; it must be 0 or more")


def needs(gangs: Gangs, asks: Sequence[Ask]) -> tuple[JobNeed, ...] | None:
    """What each gang of some waiting pods needs; None where they are in none."""
    by_gang = gangs.among(asks)
    if not by_gang:
        return None
    keys = {ask.key for ask in asks}
    started = has_started(gangs, by_gang, keys)
    passing = [id_ for id_ in by_gang if started and _passes(gangs.all[id_])]
    waits = _missing(gangs, by_gang, keys, started=started) if 0 < len(passing) < len(by_gang) else None
    job_needs = []
    for id_, members in by_gang.items():
        members.sort(key=lambda i: (-asks[i].priority, i))
        if waits is not None and id_ not in passing:
            job_needs.append(JobNeed(f"gang {id_}", tuple(members), 0, f"waiting: {waits}"))
            continue
        at_least = required(gangs.all[id_], keys, started=started)
        job_needs.append(JobNeed(f"gang {id_}", tuple(members), len(members) if at_least is None else at_least))
    return tuple(job_needs)


def why_it_waits(gangs: Gangs, asks: Sequence[Ask]) -> str | None:
    """Why no pod of a group may be tried yet, for its users: what it is waiting for; None where one may."""
    first = gangs.of_pod[asks[0].key]
    is_alone = len(first.group) == 1 and not first.held()
    if is_alone and first.settings is not None and len(asks) < first.settings.min_available:
        # All are of one gang that is only coming together: this is asked at each pod that comes.
        return f"waiting: {_too_few(first, len(asks), set())}"
    by_gang = gangs.among(asks)
    keys = {ask.key for ask in asks}
    started = has_started(gangs, by_gang, keys)
    if started and any(_passes(gangs.all[id_]) for id_ in by_gang):
        return None
    missing = _missing(gangs, by_gang, keys, started=started)
    return None if missing is None else f"waiting: {missing}"


def _missing(gangs: Gangs, by_gang: Mapping[str, Sequence[int]], keys: set[str], *, started: bool) -> str | None:
    """The first thing that the groups of some gangs lack, in words; None if they lack nothing."""
    for id_ in by_gang:
        own = gangs.all[id_]
        for listed in own.group:
            gang = gangs.all.get(listed)
            if gang is None or not (gang.members or gang.pod_group):
                return f"gang {listed}, which gang {id_} lists in its group, does not exist yet"
            if gang.settings is None:
                return why_no_settings(gang)
            if gang.group != own.group:
                return (
                    f"gang {id_} lists the group {', '.join(own.group)}, but gang {listed} lists "
                    f"{', '.join(gang.group)}: all gangs of a group must list the same"
                )
            at_least, waiting = required(gang, keys, started=started), len(by_gang.get(listed, ()))
            if at_least is not None and waiting < at_least:
                return _too_few(gang, waiting, keys)
    return None


def has_started(gangs: Gangs, by_gang: Mapping[str, object], asked: set[str]) -> bool:
    """Whether a pod of the group, other than those that are asked about, has its place."""
    for group in {gangs.all[id_].group for id_ in by_gang}:
        for id_ in group:
            gang = gangs.all.get(id_)
            if gang is not None and gang.group == group and gang.held(asked):
                return True
    return False


def required(gang: Gang, asked: set[str], *, started: bool) -> int | None:
    """How many of a gang's waiting pods must be placed together; None if no minimum is set."""
    settings = gang.settings
    if settings is None:
        return None
    match settings.match_policy:
        case "only-waiting":
            return settings.min_available
        case "waiting-and-running":
            return max(0, settings.min_available - gang.held(asked))
        case _:
            return 0 if started else settings.min_available


def _passes(gang: Gang) -> bool:
    return gang.settings is not None and gang.settings.match_policy == "once-satisfied"


def why_no_settings(gang: Gang) -> str:
    """Why a gang's minimum is unknown."""
    why = next((member.why_not for member in gang.members.values() if member.why_not), "")
    key = protocol.MIN_AVAILABLE.key
    return why or f"none of the pods of gang {gang.id} says in {key} how many it needs"


def _too_few(gang: Gang, waiting: int, asked: set[str]) -> str:
    settings = gang.settings
    assert settings is not None
    needed, held = settings.min_available, gang.held(asked)
    if settings.match_policy == "only-waiting":
        return (
            f"gang {gang.id} needs {needed} pods that wait at the same time, and {waiting} wait: "
            "by its match policy only-waiting, those that have a node do not count"
        )
    return f"gang {gang.id} has {waiting + held} of the {needed} pods that it needs at least"
