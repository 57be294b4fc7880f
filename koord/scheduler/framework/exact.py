"""Exact checks of one row: what no column can say, looked at once the row has won.

Plugins that must agree on something for the row (NUMA nodes for CPUs and devices) make offers first, which their joint
settles; then each plugin checks by itself, knowing what was agreed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.judge import Door, Joint, Objection
from koord.scheduler.framework.verdicts import Part
from koord.scheduler.state.table import Row

Doors: TypeAlias = Callable[[Row], Sequence[Door]]
WorkedOut: TypeAlias = Mapping[str, object]
"""What checks of one row worked out for one pod, by plugin: their `reserve` gets it."""


def doors_of(parts: Iterable[Part]) -> Doors | None:
    """Who knows of several ways onto a row."""
    return next((part.judge.doors for part in parts if part.judge.doors is not None), None)


def exact_checks(
    parts: Sequence[Part], doors: Doors | None, ask: Ask, row: Row
) -> dict[str, object] | tuple[str, Objection]:
    """What each plugin worked out, by its name; or who objects, and why. `parts`: those with something to check.

    Where there are several ways onto the row, the first that nobody objects to is taken, and its plugin finds it among
    what was worked out. Of objections, that to going beside all rooms is told, or else that to the best of them.
    """
    told: tuple[str, Objection] | None = None
    for door in () if doors is None else doors(row):
        found = _checked(parts, ask, row, door)
        if not isinstance(found, tuple):
            found[door.plugin] = door
            return found
        if told is None or not door.holders:
            told = found[0], replace(found[1], reason=f"{door.words}{found[1].reason}")
    return told or _checked(parts, ask, row, None)


def _checked(parts: Sequence[Part], ask: Ask, row: Row, door: Door | None) -> dict[str, object] | tuple[str, Objection]:
    agreed: dict[Joint, object] = {}
    if len(parts) == 1 and parts[0].judge.joint is None:
        (part,) = parts
        found = part.judge.check(ask, row, None, door)
        return (part.plugin.name, found) if isinstance(found, Objection) else {part.plugin.name: found}
    for joint in dict.fromkeys(part.judge.joint for part in parts if part.judge.joint is not None):
        sharing = [part for part in parts if part.judge.joint is joint]
        settled = joint.settle([part.judge.offer(ask, row, door) for part in sharing], ask, row)
        if isinstance(settled, Objection):
            return sharing[0].plugin.name, settled
        agreed[joint] = settled
    worked_out: dict[str, object] = {}
    for part in parts:
        shared = part.judge.joint
        found = part.judge.check(ask, row, None if shared is None else agreed[shared], door)
        if isinstance(found, Objection):
            return part.plugin.name, found
        worked_out[part.plugin.name] = found
    return worked_out


def checks_of_more(
    parts: Sequence[Part], ask: Ask, row: Row, having: Mapping[str, object]
) -> dict[str, object] | tuple[str, Objection]:
    """As `exact_checks`, for a pod that has something on a row and asks for more: by plugin, what it has afterwards.
    `having`: by plugin, what stays its own. The row is without it."""
    agreed: dict[Joint, object] = {}
    for joint in dict.fromkeys(part.judge.joint for part in parts if part.judge.joint is not None):
        sharing = [part for part in parts if part.judge.joint is joint]
        offers = [part.judge.offer_more(ask, row, having.get(part.plugin.name)) for part in sharing]
        settled = joint.settle(offers, ask, row)
        if isinstance(settled, Objection):
            return sharing[0].plugin.name, settled
        agreed[joint] = settled
    worked_out: dict[str, object] = {}
    for part in parts:
        shared = part.judge.joint
        among = None if shared is None else agreed[shared]
        found = part.judge.check_more(ask, row, among, having.get(part.plugin.name))
        if isinstance(found, Objection):
            return part.plugin.name, found
        worked_out[part.plugin.name] = found
    return worked_out
