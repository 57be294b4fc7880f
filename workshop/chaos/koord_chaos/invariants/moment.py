"""All objects of one moment, arranged by what they have to do with each other, and what came since the last look."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from koord_chaos.invariants.manifests import (
    RESERVATION_ALLOCATED,
    Amounts,
    Manifest,
    Objects,
    add,
    annotation,
    gang_of,
    is_over,
    key_of,
    meta,
    node_of,
    quantity,
    requests_of,
    uid_of,
)


@dataclass(frozen=True, slots=True)
class Reserved:
    """A reservation that holds room on a node."""

    manifest: Manifest
    node: str
    amounts: Amounts
    owners: tuple[Manifest, ...]
    "Bound pods that were allocated from it."

    @property
    def name(self) -> str:
        return str(meta(self.manifest)["name"])

    @property
    def used(self) -> Amounts:
        amounts: Amounts = {}
        for pod in self.owners:
            add(amounts, requests_of(pod["spec"]))
        return amounts

    @property
    def left(self) -> Amounts:
        used = self.used
        return {name: max(Fraction(0), amount - used.get(name, 0)) for name, amount in self.amounts.items()}


class Moment:
    """`new`: uids of pods and reservations that got a node since the last look."""

    def __init__(
        self,
        objects: Objects,
        *,
        new: frozenset[str] | None = None,
        node_by_uid: Mapping[str, str] | None = None,
        gangs: Mapping[str, frozenset[str]] | None = None,
        disturbed: frozenset[str] = frozenset(),
    ) -> None:
        self.objects = objects
        self.nodes = {key_of(node): node for node in objects.get("Node", ())}
        self.bound = [pod for pod in objects.get("Pod", ()) if node_of(pod) and not is_over(pod)]
        self.on: dict[str, list[Manifest]] = defaultdict(list)
        allocated: dict[str, list[Manifest]] = defaultdict(list)
        for pod in self.bound:
            self.on[node_of(pod)].append(pod)
            allocated[annotation(pod, RESERVATION_ALLOCATED).get("uid", "")].append(pod)
        self.reservations = [
            Reserved(
                reservation,
                reservation["status"]["nodeName"],
                {name: quantity(text) for name, text in reservation["status"].get("allocatable", {}).items()},
                tuple(allocated.get(uid_of(reservation) or "-", ())),
            )
            for reservation in objects.get("Reservation", ())
            if reservation.get("status", {}).get("phase") == "Available"
        ]
        self.placed = {uid_of(pod): node_of(pod) for pod in self.bound}
        self.placed |= {uid_of(reserved.manifest): reserved.node for reserved in self.reservations}
        self.new = frozenset(self.placed) if new is None else new
        self.earlier: Mapping[str, str] = node_by_uid or {}
        "Nodes of pods and reservations at the last look, by uid."
        self.gang_members: Mapping[str, frozenset[str]] = gangs or {}
        "Uids of all members that ever had a node, by gang; without gangs that were disturbed."
        self.disturbed = disturbed
        "Gangs that lost a member, or a node, while they were incomplete."

    def reserved_on(self, node: str) -> list[Reserved]:
        return [reserved for reserved in self.reservations if reserved.node == node]

    def is_new(self, manifest: Manifest) -> bool:
        return uid_of(manifest) in self.new

    @property
    def new_pods(self) -> list[Manifest]:
        return [pod for pod in self.bound if self.is_new(pod)]


@dataclass
class Witness:
    """Looks at a cluster again and again, and remembers what a moment alone does not show."""

    _placed: Mapping[str, str] = field(default_factory=dict)
    _unbound: dict[str, str] = field(default_factory=dict)
    "Members of gangs that have no node, by uid, with their gangs."
    _nodes: frozenset[str] = frozenset()
    _members: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _disturbed: set[str] = field(default_factory=set)
    "Gangs that lost a member, or a node, while they were incomplete."

    def look(self, objects: Objects) -> Moment:
        moment = Moment(objects)
        self._watch_gangs(moment)
        gangs = {gang: frozenset(uids) for gang, uids in self._members.items() if gang not in self._disturbed}
        new = frozenset(moment.placed.keys() - self._placed.keys())
        seen = Moment(objects, new=new, node_by_uid=self._placed, gangs=gangs, disturbed=frozenset(self._disturbed))
        self._placed = moment.placed
        return seen

    def _watch_gangs(self, moment: Moment) -> None:
        pods = moment.objects.get("Pod", ())
        there = {uid_of(pod) for pod in pods}
        if self._nodes - moment.nodes.keys():
            self._disturbed.update(self._unbound.values())
        self._disturbed.update(gang for uid, gang in self._unbound.items() if uid not in there)
        self._nodes = frozenset(moment.nodes)
        self._unbound = {}
        for pod in pods:
            gang = gang_of(pod)
            if gang and node_of(pod):
                self._members[gang].add(uid_of(pod))
            elif gang:
                self._unbound[uid_of(pod)] = gang
