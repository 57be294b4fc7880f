"""Pods that wait for room in a quota, and which of them may go when there is some.

Pods are kept by the quota that had no room, and by what they ask for. When a quota has more room than when it was last
looked at, the first of each kind that would fit is let go. Once that one has been tried, the next may go, whether the
first was placed or not: it may belong to a gang that takes more than there is. So room for one pod costs a look at one
pod, however many wait, and no room is left to a pod that cannot use it. Each pod goes once until there is more room.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.quota.check import room, shortage
from koord.scheduler.plugins.quota.quotas import Quotas
from koord.scheduler.plugins.quota.tree import Quota
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.watchers import Index

LOOKS: Final = 4
"""Quotas to look at while other pods are ready to be placed."""

_Kind: TypeAlias = tuple[int, str, tuple[tuple[str, int], ...], bool]
"""Priority, negative; the pods' own quota; what they ask for; whether they must not be preempted."""


@dataclass(slots=True)
class _Line:
    """Pods of one kind that wait for room in one quota."""

    pods: dict[str, None] = field(default_factory=dict)
    "Keys; pods that were refused again are behind all others."
    went: set[str] = field(default_factory=set)
    "Those of them that were tried, or let go, since the quota had more room."
    going: str = ""
    "The one that was let go and has not been tried."

    def next(self, *, idle: bool) -> str:
        """The next pod to be let go, or "". `idle`: a pod that is going will not be tried."""
        if (self.going and not idle) or len(self.went) == len(self.pods):
            return ""
        return next(key for key in self.pods if key not in self.went)


class _Place(NamedTuple):
    """Where a pod waits."""

    quota: str
    kind: _Kind
    ask: Ask


@dataclass(slots=True)
class _Closed:
    """A quota that had no room for a pod."""

    room: Mapping[str, int] | None
    "When it was last looked at, or a pod was refused since, if it had less then."
    looked: int
    "At which change."
    lines: dict[_Kind, _Line] = field(default_factory=dict)

    def begin_anew(self) -> None:
        """There is more room: everybody may go again."""
        for line in self.lines.values():
            line.went.clear()
            line.going = ""


class RefusedPods(Index):
    """Of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._quotas = cluster.notes(Quotas)
        self._closed: OrderedDict[str, _Closed] = OrderedDict()
        "By quota, those first that were not looked at for longest."
        self._of_pod: dict[str, _Place] = {}
        self._regroupings = self._quotas.regroupings
        "How often pods had changed sides at the last look."
        self._unsettled: dict[str, None] = {}
        "Quotas that let a pod go which may not have been tried: the next pod may have to go."
        self._promised: set[str] = set()
        "Pods that were promised a node at the last look."

    def __len__(self) -> int:
        return len(self._of_pod)

    def __contains__(self, key: str) -> bool:
        return key in self._of_pod

    def note(self, ask: Ask, quota: Quota, asked: Mapping[str, int], short: Quota, *, fixed: bool) -> None:
        """A pod of a quota was tried and refused, and waits for room in that quota or one above it."""
        self.forget(ask.key)
        self._file(ask, short, (-ask.priority, quota.name, tuple(sorted(asked.items())), fixed))

    def _file(self, ask: Ask, short: Quota, kind: _Kind) -> None:
        closed, left = self._closed.get(short.name), room(self._quotas, short)
        if closed is None:
            closed = self._closed[short.name] = _Closed(left, self._quotas.changes)
        else:
            closed.room = _less(left, closed.room)
        line = closed.lines.setdefault(kind, _Line())
        line.pods[ask.key] = None
        line.went.add(ask.key)
        self._of_pod[ask.key] = _Place(short.name, kind, ask)
        self._quotas.somebody_waits = True

    def were_tried(self, keys: Iterable[str]) -> None:
        """Pods were tried, with whatever outcome: those behind them may go. What is known of these is forgotten."""
        for key in keys:
            place = self._of_pod.get(key)
            if place is not None:
                self._closed[place.quota].looked = -1
                self._closed.move_to_end(place.quota, last=False)
                self.forget(key)

    def forget(self, key: str) -> None:
        """A pod waits no more."""
        place = self._of_pod.pop(key, None)
        if place is None:
            return
        name, kind, _ = place
        lines = self._closed[name].lines
        line = lines[kind]
        del line.pods[key]
        line.went.discard(key)
        if line.going == key:
            line.going = ""
        if not line.pods:
            del lines[kind]
        if not lines:
            del self._closed[name]
            self._unsettled.pop(name, None)
        if not self._of_pod:
            self._quotas.nobody_waits()

    def look_at_promises(self) -> None:
        """A pod that lost its promised node, and is not there, holds no room any more."""
        nominations = self.cluster.nominations
        if not nominations.any and not self._promised:
            return
        before, self._promised = self._promised, {nomination.record.key for nomination in nominations}
        if any(key not in self.cluster.pods for key in before - self._promised):
            for closed in self._closed.values():
                closed.begin_anew()
                closed.looked = -1

    def eased(self, opened: set[str], *, idle: bool, has_room: Callable[[Ask], bool]) -> list[str]:
        """Keys of pods that may be admitted; a few quotas are checked, or all of them. `opened`: quotas with a
        reservation that its owners may use now. `idle`: no pod is ready. `has_room`: whether a pod may take what its
        quota holds by a reservation."""
        let_go = self._moved()
        closed, now, grown = self._closed, self._quotas.changes, opened | self._quotas.with_more_reserved()
        for _ in range(len(closed) if idle else min(LOOKS, len(closed))):
            name, first = next(iter(closed.items()))
            if first.looked == now:
                break
            first.looked = now
            closed.move_to_end(name)
            let_go += self._look(name, first, grown, idle=idle)
        if idle and not let_go:
            for name, unsettled in [(name, closed[name]) for name in self._unsettled]:
                let_go += self._look(name, unsettled, grown, idle=True)
        if grown and self._quotas.has_rooms:
            let_go += [key for key, place in self._of_pod.items() if place.kind[1] in grown and has_room(place.ask)]
        return let_go

    def _moved(self) -> list[str]:
        """Pods that belong to another quota now: the reason that was reported no longer holds."""
        if self._regroupings == self._quotas.regroupings:
            return []
        self._regroupings = self._quotas.regroupings
        quotas = ((key, place.kind[1], self._quotas.quota_of(place.ask)) for key, place in self._of_pod.items())
        return [key for key, name, quota in quotas if quota is None or quota.name != name]

    def _look(self, name: str, closed: _Closed, grown: set[str], *, idle: bool) -> list[str]:
        """Keys of pods that wait for room in one quota and may go. If there is more room, their own quotas are added to
        `grown`: with what a reservation has for it, less may be enough for a pod than it asks for."""
        self._unsettled.pop(name, None)
        quota = self._quotas.forest.quotas.get(name)
        if quota is None:
            # It is gone, and its pods are another quota's.
            return [key for line in closed.lines.values() for key in line.pods]
        left, before = room(self._quotas, quota), closed.room
        closed.room = left
        if (left is None) != (before is None):
            # It became unusable, or usable again: the reason reported for its pods no longer holds.
            return [key for line in closed.lines.values() for key in line.pods]
        if _is_more(left, before):
            closed.begin_anew()
            grown.update(kind[1] for kind in closed.lines)
        let_go = []
        for kind in sorted(closed.lines):
            line = closed.lines[kind]
            if not self._is_within(kind[1], quota):
                # Their own quota was moved: this one does not keep them waiting any more.
                line.went.clear()
                line.going = ""
            key = line.next(idle=idle)
            if idle:
                line.going = ""
            if not key:
                continue
            short = self._short(kind)
            if short is None:
                line.going = key
                line.went.add(key)
                let_go.append(key)
            elif short is not quota:
                for ask in [self._of_pod[waiting].ask for waiting in line.pods]:
                    self.forget(ask.key)
                    self._file(ask, short, kind)
        if any(line.going for line in closed.lines.values()):
            self._unsettled[name] = None
        return let_go

    def _is_within(self, name: str, above: Quota) -> bool:
        """Whether a quota is another one, or below it."""
        quota = self._quotas.forest.quotas.get(name)
        while quota is not None and quota is not above:
            quota = quota.parent
        return quota is not None

    def _short(self, kind: _Kind) -> Quota | None:
        """The quota that has no room for pods of a kind; None: they fit."""
        _, name, asked, fixed = kind
        quota = self._quotas.forest.quotas.get(name)
        short = None if quota is None else shortage(self._quotas, quota, dict(asked), fixed=fixed)
        return None if short is None else short.quota


def _less(left: Mapping[str, int] | None, before: Mapping[str, int] | None) -> dict[str, int] | None:
    """Of each resource, the smaller amount. A quota that cannot be used has nothing."""
    if left is None or before is None:
        return None
    return {**left, **{key: min(left.get(key, amount), amount) for key, amount in before.items()}}


def _is_more(left: Mapping[str, int] | None, before: Mapping[str, int] | None) -> bool:
    if left is None or before is None:
        return left is not before
    return any(key not in left or left[key] > amount for key, amount in before.items())
