"""At rest: what must be true when no component has anything left to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from koord_chaos.invariants.invariant import Invariant
from koord_chaos.invariants.manifests import GANG_GROUPS, GANG_LEAST, annotation, gang_of, key_of, meta, uid_of
from koord_chaos.invariants.moment import Moment


@dataclass(frozen=True, slots=True)
class Rest:
    """A cluster at rest, and what components that start afresh with its objects would do."""

    moment: Moment
    binds: Sequence[str] = ()
    "Bindings of a fresh scheduler, each as one sentence."
    writes: Sequence[str] = ()
    "Writes of a fresh manager, each as one sentence."


def _incomplete_gangs(rest: Rest) -> Iterator[str]:
    objects = rest.moment.objects
    least = {key_of(group): int(group["spec"].get("minMember") or 1) for group in objects.get("PodGroup", ())}
    for pod in objects.get("Pod", ()):
        gang, text = gang_of(pod), (meta(pod).get("annotations") or {}).get(GANG_LEAST)
        if gang and text:
            least[gang] = int(text)
    for gang, members in rest.moment.gang_members.items():
        if len(members) < least.get(gang, 0):
            yield f"{gang} needs {least[gang]} pods at once, and {len(members)} were bound"


def _torn_groups(rest: Rest) -> Iterator[str]:
    """Gangs of a group that lost a member, or a node, in the meantime are not judged."""
    members = rest.moment.gang_members
    groups: dict[str, tuple[str, ...]] = {}
    least: dict[str, int] = {}
    for pod in rest.moment.objects.get("Pod", ()):
        gang, group = gang_of(pod), annotation(pod, GANG_GROUPS)
        if gang and group:
            groups[gang] = tuple(group)
            least[gang] = int((meta(pod).get("annotations") or {}).get(GANG_LEAST) or 0)
    for gang, group in groups.items():
        if not members.get(gang):
            continue
        for other in group:
            if other in groups and other not in rest.moment.disturbed and len(members.get(other, ())) < least[other]:
                yield f"{gang} was bound without {other} of its group"


def _wrong_owners(rest: Rest) -> Iterator[str]:
    for reserved in rest.moment.reservations:
        listed = {owner.get("uid") for owner in reserved.manifest["status"].get("currentOwners") or ()}
        there = {uid_of(pod) for pod in reserved.owners}
        if listed != there:
            yield f"reservation {reserved.name} lists the owners {sorted(listed)}, and has {sorted(there)}"


def _forgotten_pods(rest: Rest) -> Iterator[str]:
    for sentence in rest.binds:
        yield f"a fresh scheduler would bind {sentence}"


def _stale_figures(rest: Rest) -> Iterator[str]:
    for sentence in rest.writes:
        yield f"a fresh manager would write {sentence}"


RESTING: Final[tuple[Invariant[Rest], ...]] = (
    Invariant("whole-gangs", "A gang is bound with its minimum number of pods, or not at all.", _incomplete_gangs),
    Invariant("whole-groups", "Gangs that form a group are bound together, or not at all.", _torn_groups),
    Invariant("listed-owners", "A reservation lists the pods that were allocated from it.", _wrong_owners),
    Invariant(
        "no-forgotten-pod",
        "No pod waits in vain: a scheduler that starts afresh would bind no further pod.",
        _forgotten_pods,
    ),
    Invariant(
        "no-stale-figure",
        "What nodes lend is up to date: a manager that starts afresh would write nothing else.",
        _stale_figures,
    ),
)
