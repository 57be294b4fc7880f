"""Who waits for room in a quota, and who may go when there is some.

Pods are kept by the quota that had no room, and by what they ask for. When a quota has more room than when it was last
looked at, the first of each kind that would fit is let through. Once that one has been tried, the next may go. So room
for one pod costs a look at one pod, however many wait.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.quota.check import room, shortage
from koord.scheduler.plugins.quota.quotas import Quotas
from koord.scheduler.plugins.quota.tree import Quota
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.watchers import Index

LOOKS: Final = 4
"""At so many quotas while others are ready to be placed."""

_Kind: TypeAlias = tuple[int, str, tuple[tuple[str, int], ...], bool]
"""Priority, negative; the pods' own quota; what they ask for; whether they must not be preempted."""


@dataclass(slots=True)
class _Closed:
    """A quota that had no room for somebody."""

    room: Mapping[str, int] | None
    looked: int
    "At which change."
    next_may_go: bool = False
    "Whether one of those who were let through has been tried."
    kinds: dict[_Kind, dict[str, None]] = field(default_factory=dict)


class Refusals(Index):
    """Of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._quotas = cluster.notes(Quotas)
        self._closed: OrderedDict[str, _Closed] = OrderedDict()
        "By quota, those first that were not looked at for longest."
        self._of_pod: dict[str, tuple[str, _Kind]] = {}
        self._promised: set[str] = set()
        "Pods that were promised a node when somebody looked."

    def __len__(self) -> int:
        return len(self._of_pod)

    def __contains__(self, key: str) -> bool:
        return key in self._of_pod

    def note(self, ask: Ask, quota: Quota, asked: Mapping[str, int], short: Quota, *, fixed: bool) -> None:
        """A pod of a quota was refused, and waits for room in that quota or one above it."""
        self.forget(ask.key)
        name, kind = short.name, (-ask.priority, quota.name, tuple(sorted(asked.items())), fixed)
        closed = self._closed.get(name)
        left = room(self._quotas, short)
        if closed is None:
            closed = self._closed[name] = _Closed(left, self._quotas.changes)
        closed.room, closed.next_may_go = left, False
        closed.kinds.setdefault(kind, {})[ask.key] = None
        self._of_pod[ask.key] = name, kind
        self._quotas.somebody_waits = True

    def let_through(self, key: str) -> None:
        """A pod was tried without being refused."""
        found = self._of_pod.get(key)
        if found is not None:
            closed = self._closed[found[0]]
            closed.next_may_go = True
            closed.looked = -1
            self._closed.move_to_end(found[0], last=False)
            self.forget(key)

    def forget(self, key: str) -> None:
        """A pod waits no more."""
        found = self._of_pod.pop(key, None)
        if found is None:
            return
        name, kind = found
        kinds = self._closed[name].kinds
        del kinds[kind][key]
        if not kinds[kind]:
            del kinds[kind]
        if not kinds:
            del self._closed[name]
        self._quotas.somebody_waits = bool(self._of_pod)

    def of_quota(self, name: str) -> list[str]:
        """Keys of pods that wait for room in a quota, the most important first."""
        closed = self._closed.get(name)
        return [] if closed is None else [key for kind in sorted(closed.kinds) for key in closed.kinds[kind]]

    def look_at_promises(self) -> None:
        """Who was promised a node, and is so no longer without being there, holds no room any more."""
        nominations = self.cluster.nominations
        if not nominations.any and not self._promised:
            return
        before, self._promised = self._promised, {each.record.key for each in nominations}
        if any(key not in self.cluster.pods for key in before - self._promised):
            for closed in self._closed.values():
                closed.next_may_go, closed.looked = True, -1

    def eased(self, *, idle: bool) -> list[str]:
        """Keys of pods that may be let through; a few quotas are looked at, or all of them."""
        found: list[str] = []
        closed, now = self._closed, self._quotas.changes
        for _ in range(len(closed) if idle else min(LOOKS, len(closed))):
            name, first = next(iter(closed.items()))
            if first.looked == now:
                break
            first.looked = now
            closed.move_to_end(name)
            found += self._look(name, first)
        return found

    def _look(self, name: str, closed: _Closed) -> list[str]:
        quota = self._quotas.forest.quotas.get(name)
        if quota is None:
            # It is gone, and its pods are another quota's.
            return [key for keys in closed.kinds.values() for key in keys]
        left, before = room(self._quotas, quota), closed.room
        if (left is None) != (before is None):
            # It can be used no longer, or again: what its pods were told is not the reason any more.
            closed.room, closed.next_may_go = left, False
            return [key for keys in closed.kinds.values() for key in keys]
        grew = closed.next_may_go or _is_more(left, before)
        closed.room, closed.next_may_go = left, False
        return [next(iter(closed.kinds[kind])) for kind in sorted(closed.kinds) if self._fits(kind)] if grew else []

    def _fits(self, kind: _Kind) -> bool:
        _, name, asked, fixed = kind
        quota = self._quotas.forest.quotas.get(name)
        return quota is None or shortage(self._quotas, quota, dict(asked), fixed=fixed) is None


def _is_more(left: Mapping[str, int] | None, before: Mapping[str, int] | None) -> bool:
    if left is None or before is None:
        return left is not before
    return any(key not in left or left[key] > amount for key, amount in before.items())
