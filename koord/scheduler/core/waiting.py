"""Entities that have their places and wait for others: by group, with one time limit for each group.

A member costs the same however large its group is: it joins, and leaves with all others at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from koord.scheduler.core.decision import Bind
from koord.scheduler.framework.jobs import Permit


@dataclass(slots=True)
class _Group:
    until_s: float
    binds: dict[str, Bind] = field(default_factory=dict)
    "By key of entity."


class Waiting:
    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._group_of: dict[str, str] = {}
        "By key of pod."

    def __len__(self) -> int:
        return sum(len(group.binds) for group in self._groups.values())

    def __iter__(self) -> Iterator[Bind]:
        for group in self._groups.values():
            yield from group.binds.values()

    def add(self, bind: Bind, permit: Permit, now_s: float) -> str:
        """An entity waits from now on; the name of its group."""
        name = permit.group or bind.attempt.entity.key
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group(now_s + permit.wait_s)
        group.binds[bind.attempt.entity.key] = bind
        for member in bind.members:
            self._group_of[member.ask.key] = name
        return name

    def leave(self, name: str) -> list[Bind]:
        """All who wait in a group, in the order in which they came: they wait no longer."""
        group = self._groups.pop(name, None)
        binds = list(group.binds.values()) if group is not None else []
        for bind in binds:
            self._forget(bind)
        return binds

    def drop(self, pod: str) -> Bind | None:
        """The entity of a pod waits no longer: the pod went another way."""
        name = self._group_of.get(pod)
        if name is None:
            return None
        group = self._groups[name]
        bind = next(bind for bind in group.binds.values() if any(member.ask.key == pod for member in bind.members))
        del group.binds[bind.attempt.entity.key]
        if not group.binds:
            del self._groups[name]
        self._forget(bind)
        return bind

    def overdue(self, now_s: float) -> list[str]:
        """Groups whose time is up."""
        return [name for name, group in self._groups.items() if group.until_s <= now_s]

    def next_change_s(self) -> float | None:
        return min((group.until_s for group in self._groups.values()), default=None)

    def _forget(self, bind: Bind) -> None:
        for member in bind.members:
            self._group_of.pop(member.ask.key, None)
