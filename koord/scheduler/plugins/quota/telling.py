"""Has the objects of quotas say how they fare, where they say something else.

Quotas of pods that came, went or got a node are told first, with all above them. Of all others, nothing but the share
may follow from that: so the shares of all are looked through in rounds, about once a second. A quota whose pods come
and go all the time is written twice a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

from koord.api.kinds import ELASTIC_QUOTAS
from koord.api.protocol import names
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from koord.api.text.timestamp import from_seconds
from koord.scheduler.framework.writes import Write
from koord.scheduler.plugins.quota.quotas import Quotas
from koord.scheduler.plugins.quota.status import QuotaStatus, built_in, said_by, status_of, status_write

CREATED_AGAIN_S: Final = 60.0
"""So long after an object was wanted that is still not there, it is wanted again."""
AT_ONCE: Final = 2000
"""So many objects are looked at in one go, so that decisions need not wait long."""
EVERY_S: Final = 0.5
SECONDS_A_QUOTA: Final = 1e-4
"""Between rounds, for each object; a second at most."""


class QuotaTelling:
    """`namespace`: where the objects are made of the quotas that are always there."""

    def __init__(self, quotas: Quotas, namespace: str) -> None:
        self._quotas, self._namespace = quotas, namespace
        self._sent: dict[str, tuple[str, QuotaStatus]] = {}
        "By object, what it was last told to say, until it is heard to say it."
        self._said: dict[str, tuple[object, QuotaStatus]] = {}
        self._looked: dict[str, tuple[object, int, str, object]] = {}
        "By object, what its status followed from, beside its pods, when somebody looked."
        self._told_at = self._telling = -1
        self._to_tell: deque[str] = deque()
        "Objects that are still to be looked at in this round."
        self._next_s = self._again_s = 0.0
        self._created_s: float | None = None

    def writes(self, now_s: float) -> Iterator[Write]:
        quotas = self._quotas
        if quotas.uses == self._told_at:
            return
        if now_s >= self._next_s:
            yield from self._tell_some(now_s)
        if quotas.uses != self._told_at:
            quotas.cluster.ask_again(max(self._next_s, now_s if self._to_tell else self._again_s))

    def _tell_some(self, now_s: float) -> Iterator[Write]:
        quotas = self._quotas
        self._next_s = now_s + EVERY_S
        if self._created_s is None or now_s - self._created_s >= CREATED_AGAIN_S:
            self._created_s = now_s
            yield from built_in(quotas, self._namespace)
        touched, quotas.touched = quotas.touched, {}
        for key in self._above(touched):
            yield from self._shielded(key, now_s)
        if now_s < self._again_s:
            return
        if not self._to_tell:
            self._telling = quotas.uses
            self._to_tell = deque(quotas.objects)
        for _ in range(min(AT_ONCE, len(self._to_tell))):
            key = self._to_tell.popleft()
            yield from self._shielded(key, now_s, unless_same=True)
        if self._to_tell:
            self._next_s = now_s
        else:
            self._told_at = self._telling
            self._again_s = now_s + min(1.0, SECONDS_A_QUOTA * len(quotas.objects))

    def _above(self, touched: dict[str, None]) -> dict[str, None]:
        """Objects of some quotas and of all above them."""
        quotas, found = self._quotas.forest.quotas, dict[str, None]()
        for name in touched:
            quota = quotas.get(name)
            for each in [] if quota is None else [quota, *quota.path()]:
                spec = self._quotas.forest.specs.get(each.name)
                if spec is not None:
                    found[spec.key] = None
        if touched and (root := self._quotas.forest.specs.get(names.QUOTA_ROOT)) is not None:
            found[root.key] = None
        return found

    def _shielded(self, key: str, now_s: float, *, unless_same: bool = False) -> Sequence[Write]:
        heard = self._quotas.objects.get(key)
        meta = None if heard is None else heard.metadata
        with self._quotas.cluster.shield.about("keep its status", ELASTIC_QUOTAS, meta):
            return [] if unless_same and self._is_as_it_was(key) else list(self._tell(key, now_s))
        return []

    def _is_as_it_was(self, key: str) -> bool:
        """Whether nothing has changed that an object's status follows from, apart from pods: those are told first."""
        looked, heard = self._looked.get(key), self._quotas.objects.get(key)
        return looked is not None and heard is not None and self._basis(heard) == looked

    def _basis(self, heard: ElasticQuota) -> tuple[object, int, str, object] | None:
        quotas, name = self._quotas, heard.metadata.name
        quota = quotas.forest.quotas.get(name)
        if quota is None or quota.parent is None:
            return None
        return heard, quotas.regroupings, quotas.overuse.get(name, ""), quotas.runtime(quota)

    def _tell(self, key: str, now_s: float) -> Iterator[Write]:
        heard = self._quotas.objects.get(key)
        if heard is None:
            known_of: dict[str, Any]
            for known_of in (self._said, self._sent, self._looked):
                known_of.pop(key, None)
            return
        known = self._said.get(key)
        if known is None or known[0] is not heard:
            known = self._said[key] = heard, said_by(heard)
        wanted = status_of(self._quotas, key, heard.metadata.name)
        if (basis := self._basis(heard)) is not None:
            self._looked[key] = basis
        else:
            self._looked.pop(key, None)
        if wanted == known[1]:
            self._sent.pop(key, None)
        elif self._sent.get(key) != (heard.metadata.uid, wanted):
            self._sent[key] = heard.metadata.uid, wanted
            yield status_write(heard, known[1], wanted, from_seconds(now_s))
