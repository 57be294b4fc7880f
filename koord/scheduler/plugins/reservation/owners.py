"""Whose room it is: the owners of reservations, and which of their lists a pod is on.

Reservations made from one template have equal lists of owners; one copy is kept. A pod is looked up by its own fields
(a label, a controller, its name), so that most lists are never compared with it; equal pods are looked up once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, NamedTuple

import msgspec

from koord.api.kubernetes.meta import ObjectMeta, ObjectReference
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.faults import BadInput
from koord.api.protocol.annotations.reservation import RESERVATION_ALLOCATED
from koord.api.protocol.crd.reservation import ReservationControllerReference, ReservationOwner
from koord.api.text.selector import EVERYTHING, compile_labels

OwnersId = int
Owners = tuple[ReservationOwner, ...]
REMEMBERED: Final = 1 << 14
_ANY: Final = ("any",)
_encode: Final = msgspec.json.Encoder(order="sorted", enc_hook=dict).encode


class Entry:
    """One entry of a list, ready to be compared with pods."""

    __slots__ = ("_labels", "_owner")

    def __init__(self, owner: ReservationOwner) -> None:
        self._owner, self._labels = owner, compile_labels(owner.label_selector, absent=EVERYTHING)

    def owns(self, pod: ObjectMeta) -> bool:
        """Whether a pod is what the entry describes: by all that the entry gives."""
        owner = self._owner
        return _is_object(owner.object, pod) and _is_of(owner.controller, pod) and self._labels.matches(pod.labels)


def faults(owners: Owners) -> str:
    """What is wrong with a list of owners, for people; empty where nothing is."""
    for i, owner in enumerate(owners):
        try:
            Entry(owner)
        except BadInput as error:
            return f"spec.owners[{i}].labelSelector: {error}"
    return ""


def owns(owners: Owners, pod: ObjectMeta) -> bool:
    """Whether a pod is on a list."""
    return any(Entry(owner).owns(pod) for owner in owners)


def came_out_of(pod: Pod) -> str:
    """The uid of the reservation that a pod on a node uses, as it says; its name, where there is no uid."""
    if not pod.spec.node_name or pod.is_finished or RESERVATION_ALLOCATED.key not in pod.metadata.annotations:
        return ""
    try:
        allocated = RESERVATION_ALLOCATED.read(pod.metadata)
    except BadInput:
        return ""
    return "" if allocated is None else allocated.uid or allocated.name


class OwnerLists:
    """The lists of all reservations, each once, with a number."""

    def __init__(self) -> None:
        self._ids: dict[bytes, OwnersId] = {}
        self._lists: dict[OwnersId, tuple[bytes, Owners, tuple[Entry, ...]]] = {}
        self._used: dict[OwnersId, int] = {}
        self._by_mark: dict[Hashable, dict[OwnersId, None]] = {}
        "Lists by something that their pods must say of themselves."
        self._next = self.version = 0
        self._known: dict[Hashable, frozenset[OwnersId]] = {}
        self._looked_at: _LookedAt | None = None

    def __len__(self) -> int:
        return len(self._ids)

    def put(self, owners: Owners) -> OwnersId:
        """One more reservation has this list."""
        text = _encode(owners)
        list_id = self._ids.get(text)
        if list_id is None:
            entries = tuple(Entry(owner) for owner in owners)
            list_id = self._ids[text] = self._next
            self._next += 1
            self._lists[list_id], self._used[list_id] = (text, owners, entries), 0
            for owner in owners:
                self._by_mark.setdefault(_mark(owner), {})[list_id] = None
            self._changed()
        self._used[list_id] += 1
        return list_id

    def drop(self, id_: OwnersId) -> None:
        """One reservation less has it."""
        self._used[id_] -= 1
        if self._used[id_]:
            return
        text, owners, _ = self._lists.pop(id_)
        del self._ids[text], self._used[id_]
        for mark in {_mark(owner) for owner in owners}:
            listed = self._by_mark[mark]
            del listed[id_]
            if not listed:
                del self._by_mark[mark]
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._known.clear()
        self._looked_at = None

    def is_list(self, id_: OwnersId, owners: Owners) -> bool:
        """Whether a number is that of a list."""
        return self._ids.get(_encode(owners)) == id_

    def of(self, pod: ObjectMeta) -> frozenset[OwnersId]:
        """The lists that a pod is on."""
        if not self._ids:
            return frozenset()
        if self._looked_at is None:
            self._looked_at = _LookedAt.by(owner for _, owners, _ in self._lists.values() for owner in owners)
        is_named = ("uid", pod.uid) in self._by_mark or ("name", pod.name) in self._by_mark
        known_as = (pod.key, pod.uid) if is_named else self._looked_at.of(pod)
        ids = self._known.get(known_as)
        if ids is None:
            marks = [mark for mark in _marks(pod) if mark in self._by_mark]
            candidates = dict.fromkeys(id_ for mark in marks for id_ in self._by_mark[mark])
            ids = frozenset(id_ for id_ in candidates if any(entry.owns(pod) for entry in self._lists[id_][2]))
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[known_as] = ids
        return ids


class _LookedAt(NamedTuple):
    """What lists look at in pods, beside their names: those that are alike in it are on the same lists."""

    labels: frozenset[str]
    owner_references: bool

    @classmethod
    def by(cls, owners: Iterable[ReservationOwner]) -> _LookedAt:
        labels, references = set[str](), False
        for owner in owners:
            selector = owner.label_selector
            if selector is not None:
                labels.update(selector.match_labels, (requirement.key for requirement in selector.match_expressions))
            references = references or owner.controller is not None
        return cls(frozenset(labels), references)

    def of(self, pod: ObjectMeta) -> Hashable:
        keys = self.labels
        said = tuple([label for label in pod.labels.items() if label[0] in keys])
        return pod.namespace, said, pod.owner_references if self.owner_references else ()


def _mark(owner: ReservationOwner) -> tuple[str, ...]:
    """Something that every pod of an entry says of itself; `_ANY` where there is nothing like it."""
    if owner.object is not None and owner.object.uid:
        return "uid", owner.object.uid
    if owner.object is not None and owner.object.name:
        return "name", owner.object.name
    if owner.controller is not None and owner.controller.uid:
        return "owner uid", owner.controller.uid
    if owner.controller is not None and owner.controller.name:
        return "owner", owner.controller.name
    if owner.label_selector is not None:
        for key, value in owner.label_selector.match_labels.items():
            return "label", key, value
    return _ANY


def _marks(pod: ObjectMeta) -> Iterable[tuple[str, ...]]:
    yield _ANY
    yield "uid", pod.uid
    yield "name", pod.name
    for owner in pod.owner_references:
        yield "owner uid", owner.uid
        yield "owner", owner.name
    for key, value in pod.labels.items():
        yield "label", key, value


def _is_object(wanted: ObjectReference | None, pod: ObjectMeta) -> bool:
    """Fields that are empty are not looked at. Pods are of version v1 and kind Pod."""
    if wanted is None:
        return True
    return (
        wanted.uid in ("", pod.uid)
        and wanted.name in ("", pod.name)
        and wanted.namespace in ("", pod.namespace)
        and wanted.api_version in ("", "v1")
        and wanted.kind in ("", "Pod")
    )


def _is_of(wanted: ReservationControllerReference | None, pod: ObjectMeta) -> bool:
    if wanted is None:
        return True
    if wanted.namespace not in ("", pod.namespace):
        return False
    return any(
        (not wanted.controller or reference.controller)
        and wanted.uid in ("", reference.uid)
        and wanted.name in ("", reference.name)
        and wanted.kind in ("", reference.kind)
        and wanted.api_version in ("", reference.api_version)
        for reference in pod.owner_references
    )
