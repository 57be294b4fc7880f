"""Writes the status of quotas to their objects, where it differs.

Quotas of pods that came, went or got a node are told first, with all above them, and so are objects that changed. Of
all others, nothing but the share may follow from that: so the shares of all are looked through in rounds, about once a
second. A quota whose pods come and go all the time is written twice a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from koord.api.kinds import ELASTIC_QUOTAS
from koord.api.protocol import names
from koord.api.protocol.annotations import quota as protocol
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from koord.api.text.quantity import ResourceList
from koord.api.text.timestamp import from_seconds
from koord.scheduler.framework.pending_statuses import PendingStatuses
from koord.scheduler.framework.writes import Write
from koord.scheduler.plugins.quota.quotas import Quotas
from koord.scheduler.plugins.quota.status import (
    BUILT_IN,
    Part,
    QuotaStatus,
    built_in,
    differing,
    said_by,
    status_of,
    status_write,
)

FIRST_CREATED_AGAIN_S: Final = 2.0
LONGEST_CREATED_AGAIN_S: Final = 60.0
"""Bounds of the seconds after which the creation of a missing object is requested again, doubled each time. Its
namespace may have been deleted, and may be back soon."""
AT_ONCE: Final = 2000
"""How many objects are checked in one go, so that decisions need not wait long."""
EVERY_S: Final = 0.5
SECONDS_A_QUOTA: Final = 1e-4
"""Between rounds, for each object; a second at most."""


class QuotaTelling:
    """`namespace`: where the objects are made of the quotas that are always there, with the max that `most` has for
    them. `changed`: objects are put there whose figures are others than they were."""

    def __init__(
        self, quotas: Quotas, namespace: str, most: Mapping[str, ResourceList], changed: dict[str, None]
    ) -> None:
        self._quotas, self._namespace, self._most, self._changed = quotas, namespace, most, changed
        self._wanted: dict[str, QuotaStatus] = {}
        "By object, the last computed status that it should have."
        self._pending: PendingStatuses[tuple[QuotaStatus, frozenset[Part]]] = PendingStatuses()
        "The status sent to each object, and which parts were written since all of it was last confirmed."
        self._said: dict[str, tuple[ElasticQuota, QuotaStatus]] = {}
        self._looked: dict[str, tuple[object, int, str, object]] = {}
        "By object, what its status followed from, besides its pods, at the last look."
        self._told_at = self._telling = -1
        self._to_tell: deque[str] = deque()
        "Objects that are still to be looked at in this round."
        self._next_s = self._again_s = 0.0
        self._created_s: float | None = None
        self._creations = 0
        "How often built-in quotas were created, and are still not all there."

    def writes(self, now_s: float) -> Iterator[Write]:
        quotas = self._quotas
        for key in self._pending.take_lost(now_s):
            quotas.heard[key] = None
        created_s = self._created_at_s()
        is_due = created_s is not None and now_s >= created_s
        if not quotas.heard and not quotas.touched and quotas.uses == self._told_at and not is_due:
            self._ask_again()
            return
        if now_s >= self._next_s:
            yield from self._tell_some(now_s)
        if quotas.heard or quotas.touched:
            quotas.cluster.ask_again(self._next_s)
        if quotas.uses != self._told_at:
            quotas.cluster.ask_again(max(self._next_s, now_s if self._to_tell else self._again_s))
        self._ask_again()

    def _created_at_s(self) -> float | None:
        """When the quotas that are always there and have no object get one; None while all have one."""
        if all(name in self._quotas.forest.specs for name in BUILT_IN):
            self._created_s, self._creations = None, 0
            return None
        if self._created_s is None:
            return 0.0
        return self._created_s + min(FIRST_CREATED_AGAIN_S * (1 << (self._creations - 1)), LONGEST_CREATED_AGAIN_S)

    def _ask_again(self) -> None:
        if (created_s := self._created_at_s()) is not None:
            self._quotas.cluster.ask_again(created_s)
        if (lost_s := self._pending.next_s()) is not None:
            self._quotas.cluster.ask_again(lost_s)

    def _tell_some(self, now_s: float) -> Iterator[Write]:
        quotas = self._quotas
        self._next_s = now_s + EVERY_S
        created_s = self._created_at_s()
        if created_s is not None and now_s >= created_s:
            self._created_s, self._creations = now_s, min(self._creations + 1, 16)
            yield from built_in(quotas, self._namespace, self._most)
        touched, quotas.touched = quotas.touched, {}
        for key in self._above(touched):
            quotas.heard.pop(key, None)
            yield from self._shielded(key, now_s)
        for key in list(islice(quotas.heard, AT_ONCE)):
            del quotas.heard[key]
            yield from self._shielded(key, now_s)
        if quotas.heard:
            self._next_s = now_s
        if now_s < self._again_s or quotas.uses == self._told_at:
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
        quotas, keys = self._quotas.forest.quotas, dict[str, None]()
        for name in touched:
            quota = quotas.get(name)
            for above in [] if quota is None else [quota, *quota.path()]:
                spec = self._quotas.forest.specs.get(above.name)
                if spec is not None:
                    keys[spec.key] = None
        if touched and (root := self._quotas.forest.specs.get(names.QUOTA_ROOT)) is not None:
            keys[root.key] = None
        return keys

    def _shielded(self, key: str, now_s: float, *, unless_same: bool = False) -> Sequence[Write]:
        heard = self._quotas.objects.get(key)
        meta = None if heard is None else heard.metadata
        with self._quotas.cluster.shield.about("keep its status", ELASTIC_QUOTAS, meta):
            return [] if unless_same and self._is_as_it_was(key) else list(self._tell(key, now_s))
        return []

    def _is_as_it_was(self, key: str) -> bool:
        """Whether nothing has changed that an object's status follows from, apart from pods; those come first."""
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
            self._pending.heard(key)
            self._changed[key] = None
            for known_of in (self._said, self._looked, self._wanted):
                known_of.pop(key, None)
            return
        former, wanted = self._said.get(key), status_of(self._quotas, key, heard.metadata.name)
        if former is None or _measured(former[0]) != _measured(heard) or self._wanted.get(key) != wanted:
            self._changed[key], self._wanted[key] = None, wanted
        if former is None or former[0] is not heard:
            former = self._said[key] = heard, said_by(heard)
        said = former[1]
        if (basis := self._basis(heard)) is not None:
            self._looked[key] = basis
        else:
            self._looked.pop(key, None)
        uid = heard.metadata.uid
        last = self._pending.last(key, uid)
        if wanted == said and (last is None or last[0] == wanted):
            self._pending.heard(key)
            return
        # Pending writes arrive first: their parts are written again if they must differ.
        parts = differing(said, wanted) if last is None else differing(said, wanted) | last[1]
        if last != (wanted, parts):
            self._pending.sent(key, uid, (wanted, parts), now_s)
            yield status_write(heard, parts, wanted, from_seconds(now_s))


def _measured(quota: ElasticQuota) -> tuple[object, ...]:
    """What figures follow from, beside the status."""
    meta = quota.metadata
    return quota.spec, meta.labels, meta.annotations.get(protocol.UNSCHEDULABLE_RESOURCE.key)
