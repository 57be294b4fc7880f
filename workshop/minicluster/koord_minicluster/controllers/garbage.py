"""Garbage collection: objects that are deleted because their owners are gone, and the order of deletions.

A graph of all objects by uid. An object whose owners are all gone is deleted; one that still has an owner only loses
its references to the missing owners. An owner that is deleted in the foreground waits for the dependents that block
it, which are deleted first; an owner that is deleted with `orphan` waits until its dependents have dropped their
references to it.

The graph may lack an owner only because its event has not arrived yet. `decide` then returns an `Ask`, and the caller
looks the owner up on the server before anything is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from koord.api.kinds import Kind
from koord.api.kubernetes.meta import OwnerReference
from koord_minicluster.controllers.actions import Action, Delete, Patch

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
ABSENT_KEPT: Final = 20_000

Standing = Literal["solid", "waiting", "absent", "unknowable"]
"""State of an owner: it exists; it exists, but waits for its dependents to be deleted; it is gone; it is unknown."""


class Meta(Protocol):
    """What the graph looks at."""

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...
    @property
    def deletion_timestamp(self) -> str | None: ...
    @property
    def owner_references(self) -> tuple[OwnerReference, ...]: ...
    @property
    def finalizers(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class Item:
    """One object. `kind` says where it lives."""

    kind: Kind[Any]
    name: str
    namespace: str
    uid: str
    resource_version: str
    deleting: bool
    owners: tuple[OwnerReference, ...]
    finalizers: tuple[str, ...]

    @property
    def waits(self) -> bool:
        """Whether it is being deleted and goes only after those that block it."""
        return self.deleting and FOREGROUND in self.finalizers

    @property
    def orphans(self) -> bool:
        """Whether it is being deleted and its dependents must stay."""
        return self.deleting and ORPHAN in self.finalizers

    def is_meant_by(self, ref: OwnerReference, namespace: str) -> bool:
        """Whether a reference from `namespace` names this object: same group, kind and name, and within reach."""
        group = ref.api_version.rpartition("/")[0]
        same = (group, ref.kind, ref.name) == (self.kind.group, self.kind.kind, self.name)
        return same and self.namespace in ("", namespace)


@dataclass(frozen=True, slots=True)
class Ask:
    """Owners of `item` that must be looked for on the server before it is decided on."""

    item: Item
    owners: tuple[OwnerReference, ...]


class Graph:
    """All objects that may own or be owned. Every change answers with the uids to look at again."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._dependents: dict[str, set[str]] = {}
        self._absent: dict[tuple[str, str, str, str], None] = {}

    def __len__(self) -> int:
        return len(self._items)

    def get(self, uid: str) -> Item | None:
        return self._items.get(uid)

    def dependents(self, uid: str) -> list[Item]:
        return [self._items[dependent] for dependent in self._dependents.get(uid, ())]

    def put(self, kind: Kind[Any], meta: Meta) -> list[str]:
        """An object is there, in this state."""
        new = Item(
            kind,
            meta.name,
            meta.namespace,
            meta.uid,
            meta.resource_version,
            meta.deletion_timestamp is not None,
            meta.owner_references,
            meta.finalizers,
        )
        old = self._items.get(new.uid)
        self._items[new.uid] = new
        look = self._relinked(old.owners if old else (), new)
        if (new.waits, new.orphans) != ((old.waits, old.orphans) if old else (False, False)):
            look.append(new.uid)
            if new.waits:
                look += self._dependents.get(new.uid, ())
        if any(self._standing_in_graph(new, ref) != "solid" for ref in new.owners):
            look.append(new.uid)
        return look

    def remove(self, uid: str) -> list[str]:
        """An object is gone: its dependents may have to go, and owners that waited for it may be free."""
        item = self._items.pop(uid, None)
        if item is None:
            return []
        owners = [ref.uid for ref in item.owners]
        for owner in owners:
            self._unlink(owner, uid)
        waiting = [owner for owner in owners if owner in self._items and self._items[owner].waits]
        return [*waiting, *self._dependents.get(uid, ())]

    def _relinked(self, before: tuple[OwnerReference, ...], new: Item) -> list[str]:
        if before == new.owners:
            return []
        now = {ref.uid for ref in new.owners}
        for ref in before:
            if ref.uid not in now:
                self._unlink(ref.uid, new.uid)
        for owner in now:
            self._dependents.setdefault(owner, set()).add(new.uid)
        touched = {ref.uid for ref in before} | now
        return [uid for uid in touched if uid in self._items and self._items[uid].waits]

    def _unlink(self, owner: str, dependent: str) -> None:
        dependents = self._dependents.get(owner)
        if dependents is not None:
            dependents.discard(dependent)
            if not dependents:
                del self._dependents[owner]

    def found_absent(self, item: Item, ref: OwnerReference) -> None:
        """The server does not have this owner. Uids do not come again, so this stays true."""
        if len(self._absent) >= ABSENT_KEPT:
            self._absent.pop(next(iter(self._absent)))
        self._absent[ref.uid, item.namespace, ref.kind, ref.name] = None

    def _standing_in_graph(self, item: Item, ref: OwnerReference) -> Standing | None:
        """None where the graph cannot tell."""
        owner = self._items.get(ref.uid)
        if owner is not None and owner.is_meant_by(ref, item.namespace):
            return "waiting" if owner.waits else "solid"
        return "absent" if (ref.uid, item.namespace, ref.kind, ref.name) in self._absent else None

    def decide(self, uid: str, answers: Mapping[str, Standing]) -> Ask | list[Action]:
        """Decides what to do with an object. `answers`: the standing of owners on the server, by uid."""
        item = self._items.get(uid)
        if item is None:
            return []
        if item.orphans:
            return self._orphaned(item)
        if item.waits:
            return self._awaited(item)
        if item.deleting or not item.owners:
            return []
        standing: dict[str, Standing] = {}
        asked: list[OwnerReference] = []
        for ref in item.owners:
            standing_of_owner = self._standing_in_graph(item, ref) or answers.get(ref.uid)
            if standing_of_owner is None:
                asked.append(ref)
            else:
                standing[ref.uid] = standing_of_owner
        if asked:
            return Ask(item, tuple(asked))
        return self._judged(item, standing)

    def _judged(self, item: Item, standing: Mapping[str, Standing]) -> list[Action]:
        if "unknowable" in standing.values():
            return []
        lost = [ref for ref in item.owners if standing[ref.uid] != "solid"]
        if not lost:
            return []
        if len(lost) < len(item.owners):
            kept = [ref for ref in item.owners if standing[ref.uid] == "solid"]
            return [_with_owners(item, kept)]
        blocked = "waiting" in standing.values() and self._dependents.get(item.uid)
        if not blocked:
            policy: Literal["Background", "Foreground", "Orphan"] = "Background"
            if ORPHAN in item.finalizers:
                policy = "Orphan"
            elif FOREGROUND in item.finalizers:
                policy = "Foreground"
            return [_delete(item, policy)]
        actions: list[Action] = []
        if any(dependent.waits for dependent in self.dependents(item.uid)):
            # A circle of foreground deletions would wait for itself for ever.
            actions.append(_with_owners(item, item.owners, unblocked=True))
            return [*actions, _delete(item, "Foreground", any_version=True)]
        return [_delete(item, "Foreground")]

    def _awaited(self, item: Item) -> list[Action]:
        """In the foreground: free to go once nothing blocks it. Its dependents are looked at by themselves."""
        if any(_blocks(dependent, item.uid) for dependent in self.dependents(item.uid)):
            return []
        return [_without_finalizer(item, FOREGROUND)]

    def _orphaned(self, item: Item) -> list[Action]:
        actions: list[Action] = []
        for dependent in self.dependents(item.uid):
            kept = [ref for ref in dependent.owners if ref.uid != item.uid]
            actions.append(_with_owners(dependent, kept))
        return [*actions, _without_finalizer(item, ORPHAN)]


def _blocks(dependent: Item, owner_uid: str) -> bool:
    return any(ref.uid == owner_uid and ref.block_owner_deletion for ref in dependent.owners)


def _delete(item: Item, policy: Literal["Background", "Foreground", "Orphan"], *, any_version: bool = False) -> Delete:
    version = "" if any_version else item.resource_version
    return Delete(item.kind, item.namespace, item.name, item.uid, policy, resource_version=version)


def _with_owners(item: Item, owners: Iterable[OwnerReference], *, unblocked: bool = False) -> Patch:
    body = [
        {
            "apiVersion": ref.api_version,
            "kind": ref.kind,
            "name": ref.name,
            "uid": ref.uid,
            **({"controller": True} if ref.controller else {}),
            **({"blockOwnerDeletion": True} if ref.block_owner_deletion and not unblocked else {}),
        }
        for ref in owners
    ]
    change = {"uid": item.uid, "resourceVersion": item.resource_version, "ownerReferences": body or None}
    return Patch(item.kind, item.namespace, item.name, {"metadata": change}, type="merge")


def _without_finalizer(item: Item, finalizer: str) -> Patch:
    left = [name for name in item.finalizers if name != finalizer]
    change = {"uid": item.uid, "resourceVersion": item.resource_version, "finalizers": left or None}
    return Patch(item.kind, item.namespace, item.name, {"metadata": change}, type="merge")
