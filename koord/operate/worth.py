"""What co-location was worth: what was lent, used, evicted and saved, by namespace, quota and workload.

    published   batch and mid resources that nodes offered, over time
    lent        what pods requested of them while they ran; published resources without requests are not lent
    used        what those pods used
    evicted     how often one of those pods was evicted
    saved       the nodes that would be needed without lending: hours x amount / size of a node

Amounts over time are core-hours and GiB-hours. Everything adds up: the sum over namespaces, over quotas and over
workloads is the total.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from koord.api.machinery.faults import BadInput
from koord.api.protocol.charged import Charged

HOUR_S: Final = 3600.0
GIB: Final = float(1 << 30)
POINTS: Final = 60
"""Of a plot."""
By: TypeAlias = Literal["namespace", "quota", "workload"]
NOBODY: Final = "-"
"""For pods without a quota."""


class ReportError(BadInput):
    """Why there is no report."""


class Amounts(NamedTuple):
    core_hours: float = 0.0
    gib_hours: float = 0.0

    def plus(self, other: Amounts) -> Amounts:
        return Amounts(self.core_hours + other.core_hours, self.gib_hours + other.gib_hours)


NOTHING: Final = Amounts()


@dataclass(frozen=True, slots=True)
class Entry:
    lent: Amounts = NOTHING
    used: Amounts = NOTHING
    evicted: int = 0

    def plus(self, other: Entry) -> Entry:
        return Entry(self.lent.plus(other.lent), self.used.plus(other.used), self.evicted + other.evicted)


class Moment(NamedTuple):
    """The state at one time, in cores."""

    time_s: float
    published: float
    lent: float
    used: float


@dataclass(frozen=True, slots=True)
class NodeSize:
    """A node that would have to be bought instead."""

    cores: float = 32.0
    gib: float = 128.0
    price: float | None = None
    "For an hour, in whatever currency."


@dataclass(frozen=True, slots=True)
class Worth:
    from_s: float
    until_s: float
    source: str
    published: Amounts
    entries: Mapping[Charged, Entry]
    course: tuple[Moment, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> Entry:
        return summed(self.entries.values())

    def by(self, what: By) -> dict[str, Entry]:
        """Largest first."""
        parts: dict[str, list[Entry]] = {}
        for charged, entry in self.entries.items():
            parts.setdefault(_NAMES[what](charged), []).append(entry)
        totals = {name: summed(entries) for name, entries in parts.items()}
        return dict(sorted(totals.items(), key=lambda item: (-item[1].lent.core_hours, item[0])))

    def node_hours(self, entry: Entry, node: NodeSize) -> float:
        """Hours of nodes that would otherwise be needed, by the resource that needs more nodes in total, so that parts
        add up to the whole."""
        whole = self.total.lent
        if whole.core_hours / node.cores >= whole.gib_hours / node.gib:
            return entry.lent.core_hours / node.cores
        return entry.lent.gib_hours / node.gib


_NAMES: Final[Mapping[By, Callable[[Charged], str]]] = {
    "namespace": lambda charged: charged.namespace,
    "quota": lambda charged: charged.quota or NOBODY,
    "workload": lambda charged: f"{charged.namespace}/{charged.workload}",
}


def summed(entries: Iterable[Entry]) -> Entry:
    total = Entry()
    for entry in entries:
        total = total.plus(entry)
    return total


@dataclass(frozen=True, slots=True)
class Span:
    """A pod on lent resources, from its start to its end."""

    charged: Charged
    from_s: float
    until_s: float
    cores: float
    gib: float
    used_cores: float = 0.0
    used_gib: float = 0.0

    def within_s(self, from_s: float, until_s: float) -> float:
        return max(0.0, min(self.until_s, until_s) - max(self.from_s, from_s))


def of_spans(
    spans: Sequence[Span],
    offers: Sequence[Span],
    evicted: Mapping[Charged, int],
    from_s: float,
    until_s: float,
    *,
    source: str,
    notes: tuple[str, ...] = (),
) -> Worth:
    """`offers`: what nodes publish, and since when."""
    entries: dict[Charged, Entry] = {}
    for span in spans:
        hours = span.within_s(from_s, until_s) / HOUR_S
        if hours > 0:
            lent = Amounts(span.cores * hours, span.gib * hours)
            used = Amounts(span.used_cores * hours, span.used_gib * hours)
            entries[span.charged] = entries.get(span.charged, Entry()).plus(Entry(lent, used))
    for charged, number in evicted.items():
        entries[charged] = entries.get(charged, Entry()).plus(Entry(evicted=number))
    published = NOTHING
    for offer in offers:
        hours = offer.within_s(from_s, until_s) / HOUR_S
        published = published.plus(Amounts(offer.cores * hours, offer.gib * hours))
    return Worth(from_s, until_s, source, published, entries, _course(spans, offers, from_s, until_s), notes)


def _course(spans: Sequence[Span], offers: Sequence[Span], from_s: float, until_s: float) -> tuple[Moment, ...]:
    moments = []
    for at in range(POINTS + 1):
        time_s = from_s + (until_s - from_s) * at / POINTS
        there = [span for span in spans if span.from_s <= time_s <= span.until_s]
        offered = sum(offer.cores for offer in offers if offer.from_s <= time_s <= offer.until_s)
        moments.append(
            Moment(time_s, offered, sum(span.cores for span in there), sum(span.used_cores for span in there))
        )
    return tuple(moments)


@dataclass(frozen=True, slots=True)
class Series:
    """A figure over time, in equal steps; unknown values have no point."""

    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Recorded:
    """Prometheus data for a time window: CPU in cores, memory in bytes."""

    from_s: float
    until_s: float
    step_s: float
    published: Sequence[Series]
    "By the labels resource: kubernetes.io/batch-cpu, ..."
    pods: Sequence[Series]
    "By pod_namespace, quota, workload, resource and what: requested or used."
    evictions: Sequence[Series]
    "Counters, by pod_namespace, quota and workload."
    source: str = ""
    notes: tuple[str, ...] = field(default=())


def of_series(recorded: Recorded) -> Worth:
    step_s = recorded.step_s
    entries: dict[Charged, Entry] = {}
    moments: dict[float, list[float]] = {}
    published = NOTHING
    for series in recorded.published:
        is_cpu = series.labels.get("resource", "").endswith("-cpu")
        published = published.plus(_amounts(is_cpu, series.points, step_s))
        if is_cpu:
            _add(moments, 0, series.points)
    for pod in recorded.pods:
        is_cpu, is_used = pod.labels.get("resource") == "cpu", pod.labels.get("what") == "used"
        amounts = _amounts(is_cpu, pod.points, step_s)
        entry = Entry(used=amounts) if is_used else Entry(lent=amounts)
        charged = _charged(pod.labels)
        entries[charged] = entries.get(charged, Entry()).plus(entry)
        if is_cpu:
            _add(moments, 2 if is_used else 1, pod.points)
    for eviction in recorded.evictions:
        number = round(increase(eviction.points, recorded.from_s, step_s))
        if number:
            charged = _charged(eviction.labels)
            entries[charged] = entries.get(charged, Entry()).plus(Entry(evicted=number))
    course = tuple(Moment(time_s, *moments[time_s]) for time_s in sorted(moments))
    return Worth(recorded.from_s, recorded.until_s, recorded.source, published, entries, course, recorded.notes)


def _charged(labels: Mapping[str, str]) -> Charged:
    return Charged(labels.get("pod_namespace", ""), labels.get("quota", ""), labels.get("workload", ""))


def _amounts(is_cpu: bool, points: Sequence[tuple[float, float]], step_s: float) -> Amounts:
    hours = sum(value for _, value in points) * step_s / HOUR_S
    return Amounts(core_hours=hours) if is_cpu else Amounts(gib_hours=hours / GIB)


def _add(moments: dict[float, list[float]], column: int, points: Sequence[tuple[float, float]]) -> None:
    for time_s, value in points:
        moments.setdefault(time_s, [0.0, 0.0, 0.0])[column] += value


def increase(points: Sequence[tuple[float, float]], from_s: float, step_s: float) -> float:
    """How much a counter grew. A counter that appears within the window started at 0; one that falls was reset."""
    if not points:
        return 0.0
    first_s, before = points[0]
    grown = before if first_s >= from_s + step_s else 0.0
    for _, value in points[1:]:
        grown += value - before if value >= before else value
        before = value
    return grown
