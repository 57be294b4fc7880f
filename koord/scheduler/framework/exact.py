"""Exact checks of one row: what no column can say, looked at once the row has won.

Plugins that must agree on something for the row (NUMA nodes for CPUs and devices) make offers first, which their joint
settles; then each plugin checks by itself, knowing what was agreed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.exact_check import Door, ExactCheck, Joint, Objection
from koord.scheduler.framework.verdicts import Part
from koord.scheduler.state.table import Row

Doors: TypeAlias = Callable[[Row], Sequence[Door]]
WorkedOut: TypeAlias = Mapping[str, object]
"""The results of the checks of one row for one pod, by plugin: their `reserve` gets them."""


def doors_of(parts: Iterable[Part]) -> Doors | None:
    """The function that lists several ways onto a row, if a judge has one."""
    return next((part.judge.doors for part in parts if part.judge.doors is not None), None)


def exact_checks(
    parts: Sequence[Part], doors: Doors | None, ask: Ask, row: Row
) -> dict[str, object] | tuple[str, Objection]:
    """What each plugin worked out, by its name; or the plugin that objects, and why. `parts`: those with something to
    check.

    If there are several ways onto the row, the first one without an objection is taken, and its plugin finds it among
    the results. The objection to going beside all rooms is reported, or else the one to the best room.
    """
    refusal: tuple[str, Objection] | None = None
    for door in () if doors is None else doors(row):
        checked = _checked(parts, ask, row, door)
        if not isinstance(checked, tuple):
            checked[door.plugin] = door
            return checked
        if refusal is None or not door.holders:
            refusal = checked[0], replace(checked[1], reason=f"{door.words}{checked[1].reason}")
    return refusal or _checked(parts, ask, row, None)


def _checked(parts: Sequence[Part], ask: Ask, row: Row, door: Door | None) -> dict[str, object] | tuple[str, Objection]:
    checks = _checks_of(parts)
    if len(checks) == 1 and checks[0][1].joint is None:
        ((name, check),) = checks
        answer = check.check(ask, row, None, door)
        return (name, answer) if isinstance(answer, Objection) else {name: answer}
    agreed = _agreed(checks, ask, row, lambda name, check: check.offer(ask, row, door))
    if isinstance(agreed, tuple):
        return agreed
    return _each(checks, agreed, lambda name, check, settled: check.check(ask, row, settled, door))


def checks_of_more(
    parts: Sequence[Part], ask: Ask, row: Row, having: Mapping[str, object]
) -> dict[str, object] | tuple[str, Objection]:
    """As `exact_checks`, for a pod that has something on a row and asks for more: by plugin, what it has afterwards.
    `having`: by plugin, what stays its own. The row is without it."""
    checks = _checks_of(parts)
    agreed = _agreed(checks, ask, row, lambda name, check: check.offer_more(ask, row, having.get(name)))
    if isinstance(agreed, tuple):
        return agreed
    return _each(checks, agreed, lambda name, check, settled: check.check_more(ask, row, settled, having.get(name)))


def _checks_of(parts: Sequence[Part]) -> list[tuple[str, ExactCheck]]:
    return [(part.plugin.name, part.judge.exact) for part in parts if part.judge.exact is not None]


def _agreed(
    checks: Sequence[tuple[str, ExactCheck]], ask: Ask, row: Row, offer: Callable[[str, ExactCheck], object]
) -> dict[Joint, object] | tuple[str, Objection]:
    """What each joint settles; or an objection, in the name of the first plugin that shares the joint."""
    agreed: dict[Joint, object] = {}
    for joint in dict.fromkeys(check.joint for _, check in checks if check.joint is not None):
        sharing = [named_check for named_check in checks if named_check[1].joint is joint]
        settled = joint.settle([offer(name, check) for name, check in sharing], ask, row)
        if isinstance(settled, Objection):
            return sharing[0][0], settled
        agreed[joint] = settled
    return agreed


def _each(
    checks: Sequence[tuple[str, ExactCheck]],
    agreed: Mapping[Joint, object],
    run: Callable[[str, ExactCheck, object], object],
) -> dict[str, object] | tuple[str, Objection]:
    """The result of each check; or the first objection."""
    worked_out: dict[str, object] = {}
    for name, check in checks:
        answer = run(name, check, None if check.joint is None else agreed[check.joint])
        if isinstance(answer, Objection):
            return name, answer
        worked_out[name] = answer
    return worked_out
