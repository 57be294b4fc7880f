"""What users hear of reservations that did not help a pod: counts, in the words that they know from Koordinator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from koord.scheduler.plugins.reservation.matching import Mismatch, Rules
from koord.scheduler.plugins.reservation.room import Room

EVENT = "FailedScheduling-Reservation"
_SUBJECT = "Reservation(s)"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """How the reservations of a pod's owners fared."""

    name: tuple[str, ...]
    reservations: tuple[str, ...]
    nodes: tuple[str, ...]
    total: int
    must: bool

    @property
    def message(self) -> str:
        """What is added to the reasons of the nodes."""
        items = [*self.name, *self.reservations, *self.nodes]
        if self.must or self.total:
            items.append(f"{self.total} {_SUBJECT} matched owner total")
        return f"{', '.join(items)}." if items else ""

    @property
    def event(self) -> tuple[str, str] | None:
        if not self.must:
            return None
        items = ", ".join([*self.name, *self.reservations, *self.nodes])
        text = f"0/{self.total} reservations are available" + (f": {items}." if items else ".")
        return EVENT, text


def diagnosis(
    rules: Rules,
    rooms: Iterable[Room],
    node_labels: Callable[[Room], Mapping[str, str]],
    against: Callable[[Room], Sequence[str]],
) -> Diagnosis:
    """`rooms`: all usable reservations. `against`: reasons against the node of a reservation that the pod may use."""
    total, named = 0, 0
    why: Counter[str] = Counter()
    nodes: Counter[str] = Counter()
    for room in rooms:
        mismatch = rules.mismatch(room, node_labels(room))
        if mismatch is Mismatch.OWNERS:
            continue
        total += 1
        if rules.name and room.name == rules.name:
            named += 1
        if mismatch is None:
            for words in against(room):
                own = words.startswith(_SUBJECT)
                (why if own else nodes)[words if own else f"{_SUBJECT} for node reason that {words}"] += 1
        elif mismatch is Mismatch.TAINT:
            taint = rules.taint(room)
            assert taint is not None
            why[f"{_SUBJECT} {mismatch.value} {{{taint.key}: {taint.value}}}"] += 1
        else:
            why[f"{_SUBJECT} {mismatch.value}"] += 1
    name = (f"{named} {_SUBJECT} exactly matches the requested reservation name",) if named else ()
    return Diagnosis(name, _listed(why), _listed(nodes), total, rules.must)


def _listed(counts: Counter[str]) -> tuple[str, ...]:
    return tuple(sorted(f"{number} {words}" for words, number in counts.items()))
