"""VolumeBinding: a pod's claims must be bound to volumes that its node can reach, or become so once it is there.

    bound claims        the volume's node affinity allows the node
    waiting claims      a free volume of the class suits and is reachable, the smallest first; else the class can make
                        one there: it has a provisioner, allows the node's topology, and has room where that is known
A claim that is neither bound nor waits for a pod keeps the pod off every node until it is bound. What a placed pod is
promised is kept, so that the next pod does not count on the same volume.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, Literal, cast

import numpy as np

from koord.api.configuration.scheduler_args import VolumeBindingArgs
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import amounts
from koord.api.kubernetes.storage import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass
from koord.api.text.selector import NOTHING, NodeSelector, Operator, Requirement, compile_labels
from koord.scheduler.core.queue import ClusterEvent
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Numbers
from koord.scheduler.framework.change import Change
from koord.scheduler.framework.judge import Judge, Refused
from koord.scheduler.framework.plugin import KeyedBy, Plugin
from koord.scheduler.framework.queueing import Queueing
from koord.scheduler.framework.stable import Version
from koord.scheduler.framework.writes import PreBind
from koord.scheduler.plugins import volume_changes
from koord.scheduler.plugins.volume_restrictions import VolumeUsers
from koord.scheduler.plugins.volume_steps import volume_step
from koord.scheduler.plugins.volume_use import noted_use
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.pods import PodRecord, brings_claims
from koord.scheduler.state.storage import (
    NO_PROVISIONER,
    SELECTED_NODE_ANNOTATION,
    WAITS_FOR_POD,
    Promise,
    class_name,
    is_bound,
    matching_rows,
    volume_bytes,
    wanted_bytes,
)
from koord.scheduler.state.table import Array, Reason, Row

UNREACHABLE: Final = 1
NO_VOLUME: Final = 2
NO_ROOM: Final = 4
VOLUME_GONE: Final = 8
_REASONS: Final = {
    UNREACHABLE: "node(s) didn't match PersistentVolume's node affinity",
    NO_VOLUME: "node(s) didn't find available persistent volumes to bind",
    NO_ROOM: "node(s) did not have enough free storage",
    VOLUME_GONE: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}


NOWHERE: Final = "nowhere"
_Reach = NodeSelector | Literal["nowhere"]


def _helps(ask: Ask, event: ClusterEvent, cluster: Cluster) -> bool:
    """A pod that goes before its claims are bound gives back the volumes that were kept for them."""
    went = event.reasons & Reason.FREED and not event.reasons & (VolumeBinding.wakes_on & ~Reason.FREED)
    match event.subject:
        case Pod() as pod if went:
            return brings_claims(pod)
        case PodRecord() as record if went:
            use = noted_use(record, VolumeUsers.name)
            return bool(use.claims or use.own_claims)
    return True


class VolumeBinding(Plugin):
    name = "VolumeBinding"
    wakes_on = Reason.NODE | Reason.LABELS | Reason.FREED | Reason.STORAGE
    queueing = Queueing(helps=_helps)

    def __init__(self, args: VolumeBindingArgs | None = None) -> None:
        self.args = args or VolumeBindingArgs()
        self.notes = PromisedVolumes

    def attach(self, cluster: Cluster) -> None:
        cluster.notes(VolumeUsers)

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.POD if ask.spec.volumes else KeyedBy.SPEC

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        if not ask.spec.volumes or not (ask.claims or ask.own_claims):
            return None
        refusal = _refusal(ask, cluster)
        if refusal is not None:
            return refusal
        claims = _claims(ask, cluster)
        waiting = tuple(claim.metadata.key for claim in claims if not is_bound(claim))
        # Of bound claims only it matters where their volumes can be reached, so that many pods are alike.
        return _reach(claims, cluster), waiting, Version(cluster.storage.version if waiting else 0)

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        key = self.key(ask, cluster)
        if key is None:
            return None
        if isinstance(key, str):
            return Refused(key)
        claims = _claims(ask, cluster)
        return _Bindable(_reach(claims, cluster), claims, cluster)

    def reserve(self, ask: Ask, row: Row, cluster: Cluster, checked: object) -> object:
        if not ask.spec.volumes:
            return None
        claims = _claims(ask, cluster)
        if all(is_bound(claim) for claim in claims):
            return None
        node = cluster.table.names[row]
        promises = _Bindable((), claims, cluster).promises(row)
        return tuple((claim.metadata.key, volume, node) for claim, volume in promises)

    def pre_bind(self, ask: Ask, row: Row, cluster: Cluster, note: object) -> PreBind | None:
        if note is None:
            return None
        promises = cast(tuple[Promise, ...], note)
        return PreBind(steps=(volume_step(self.name, ask, promises, cluster, float(self.args.bind_timeout_seconds)),))


class PromisedVolumes(Notes):
    """The volumes promised to the claims of placed pods. Pods do not show them; claims do, once they are bound."""

    name = "VolumeBinding"
    from_pod = False

    def moved(self, note: object, record: PodRecord, row: Row, sign: int) -> None:
        if sign < 0:
            self.cluster.storage.take_back(record.key)
            return
        for claim, volume, node in cast(tuple[Promise, ...], note):
            self.cluster.storage.promise(record.key, claim, volume, node)


def _claims(ask: Ask, cluster: Cluster) -> list[PersistentVolumeClaim]:
    """The claims behind a pod's volumes, in their order."""
    claims = cluster.storage.claims
    keys = []
    for volume in ask.spec.volumes:
        if volume.persistent_volume_claim is not None:
            keys.append(f"{ask.meta.namespace}/{volume.persistent_volume_claim.claim_name}")
        elif volume.ephemeral is not None:
            keys.append(f"{ask.meta.namespace}/{ask.meta.name}-{volume.name}")
    return [claims[key] for key in keys if key in claims]


def _reach(claims: Sequence[PersistentVolumeClaim], cluster: Cluster) -> tuple[_Reach, ...]:
    """Where the volumes of bound claims can be reached, as far as that is not everywhere."""
    selectors: list[_Reach] = []
    for claim in claims:
        if is_bound(claim):
            volume = cluster.storage.volumes.get(claim.spec.volume_name)
            if volume is None:
                return (*selectors, NOWHERE)
            selector = _affinity(volume)
            if selector is not None:
                selectors.append(selector)
    return tuple(selectors)


def _affinity(volume: PersistentVolume) -> NodeSelector | None:
    return volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None


def _refusal(ask: Ask, cluster: Cluster) -> str | None:
    """Why a pod can run nowhere for now."""
    claims = cluster.storage.claims
    for volume in ask.spec.volumes:
        named = volume.persistent_volume_claim
        if named is None and volume.ephemeral is None:
            continue
        name = named.claim_name if named is not None else f"{ask.meta.name}-{volume.name}"
        claim = claims.get(f"{ask.meta.namespace}/{name}")
        if claim is None:
            if named is None:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            return f'persistentvolumeclaim "{name}" not found'
        if claim.status.phase == "Lost":
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{name}" is being deleted'
        owner = claim.metadata.controller
        if named is None and (owner is None or owner.uid != ask.meta.uid):
            return f"PVC {claim.metadata.key} was not created for pod {ask.key} (pod is not owner)"
    unready = (claim for claim in _claims(ask, cluster) if not is_bound(claim) and not _waits(claim, cluster))
    return "pod has unbound immediate PersistentVolumeClaims" if any(unready) else None


def _waits(claim: PersistentVolumeClaim, cluster: Cluster) -> bool:
    """Whether a claim is bound only once its pod has a node."""
    class_ = cluster.storage.classes.get(class_name(claim))
    return class_ is not None and class_.volume_binding_mode == WAITS_FOR_POD and not claim.spec.volume_name


class _Bindable(Judge):
    filters_on = Reason.NODE | Reason.LABELS

    def __init__(self, reach: Sequence[_Reach], claims: Sequence[PersistentVolumeClaim], cluster: Cluster) -> None:
        self._cluster, self._storage, self._reach, self._claims = cluster, cluster.storage, reach, claims
        waiting = [claim for claim in claims if not is_bound(claim)]
        self._selected = {claim.metadata.key: node for claim in waiting if (node := self._node_of(claim))}
        self._to_make = [claim for claim in waiting if claim.metadata.key in self._selected]
        self._to_find = sorted((claim for claim in waiting if claim not in self._to_make), key=wanted_bytes)
        self._candidates = [self._suitable(claim) for claim in self._to_find]

    def feasible(self, cells: Cells) -> Numbers:
        if isinstance(cells.rows, int):
            return int(self._codes(np.array([cells.rows], np.intp))[0])
        return self._codes(np.arange(self._cluster.table.capacity)[cells.rows])

    def promises(self, row: Row) -> list[tuple[PersistentVolumeClaim, str | None]]:
        """What each waiting claim gets on a row: a volume, or None where one is made."""
        taken, missed = self._found(np.array([row], np.intp))
        by_claim = {claim: name for (claim, name), here in taken.items() if here[0]}
        missing = [self._to_find[i].metadata.key for i, here in enumerate(missed) if here[0]]
        pairs = [(claim, by_claim[claim.metadata.key]) for claim in self._to_find if claim.metadata.key not in missing]
        made = [*self._to_make, *(claim for claim in self._to_find if claim.metadata.key in missing)]
        return [*pairs, *((claim, None) for claim in made)]

    def reasons(self, mask: int) -> list[str]:
        return [words for bit, words in _REASONS.items() if mask & bit]

    def unresolvable(self, masks: Array, rows: Array) -> Array:
        return np.ones(len(rows), np.bool_)

    def fixes(self, ask: Ask, row: Row) -> list[Change]:
        """For the first claim that is in the way."""
        index, storage = np.array([row], np.intp), self._storage
        for claim in self._claims:
            volume = storage.volumes.get(claim.spec.volume_name)
            if is_bound(claim) and volume is None:
                return [volume_changes.back(claim, storage)]
            selector = _affinity(volume) if volume is not None and is_bound(claim) else None
            if selector is not None and not matching_rows(selector, self._cluster.labels, index)[0]:
                assert volume is not None
                return [volume_changes.within_reach(volume, claim, storage)]
        for claim in self._to_make:
            selected = claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION)
            if selected is not None and selected != self._cluster.table.names[row]:
                return [volume_changes.untied(claim, selected, storage)]
        _, missed = self._found(index)
        missing = [claim for claim, here in zip(self._to_find, missed, strict=True) if here[0]]
        return next(filter(None, (self._made(claim, index) for claim in (*self._to_make, *missing))), [])

    def _made(self, claim: PersistentVolumeClaim, index: Array) -> list[Change]:
        """What it takes for a claim without a volume to have one made; nothing, where nothing is in the way."""
        storage = self._storage
        class_ = storage.classes[class_name(claim)]
        if class_.provisioner in NO_PROVISIONER:
            return [volume_changes.free_volume(claim, storage)]
        if not self._allowed(class_, index)[0]:
            return [volume_changes.makes_there(class_, storage), volume_changes.free_volume(claim, storage)]
        if self._has_room(class_, claim, index)[0]:
            return []
        most_bytes = max(
            (
                _largest_bytes(capacity)
                for capacity in self._capacities(class_)
                if self._reaches(capacity, index)[0] and _largest_bytes(capacity) > 0
            ),
            default=0,
        )
        less = [volume_changes.smaller_claim(claim, most_bytes, storage)] if most_bytes else []
        return [volume_changes.more_room(claim, storage), *less]

    def _codes(self, rows: Array) -> Array:
        codes = np.zeros(len(rows), np.int64)
        undecided = np.ones(len(rows), np.bool_)
        for selector in self._reach:
            if isinstance(selector, str):
                codes[undecided] |= VOLUME_GONE
                break
            away = undecided & ~matching_rows(selector, self._cluster.labels, rows)
            codes[away] |= UNREACHABLE
            undecided &= ~away
        if self._to_make or self._to_find:
            codes |= self._waiting_codes(rows)
        return codes

    def _waiting_codes(self, rows: Array) -> Array:
        codes = np.zeros(len(rows), np.int64)
        for node in set(self._selected.values()):
            codes[rows != self._cluster.table.row_of.get(node, -1)] = NO_VOLUME
        everywhere = np.ones(len(rows), np.bool_)
        _, missed = self._found(rows)
        for claim, wanted in [
            *((claim, everywhere) for claim in self._to_make),
            *zip(self._to_find, missed, strict=True),
        ]:
            class_ = self._storage.classes[class_name(claim)]
            open_ = wanted & (codes == 0)
            if class_.provisioner in NO_PROVISIONER:
                codes[open_] = NO_VOLUME
                continue
            codes[open_ & ~self._allowed(class_, rows)] = NO_VOLUME
            codes[open_ & (codes == 0) & ~self._has_room(class_, claim, rows)] = NO_ROOM
        return codes

    def _found(self, rows: Array) -> tuple[dict[tuple[str, str], Array], list[Array]]:
        """Which claim takes which volume on which rows, and on which rows each claim finds none."""
        everywhere = np.ones(len(rows), np.bool_)
        reachable: dict[NodeSelector | None, Array] = {None: everywhere}
        taken: dict[str, Array] = {}
        by_claim: dict[tuple[str, str], Array] = {}
        missed = []
        for claim, candidates in zip(self._to_find, self._candidates, strict=True):
            open_ = everywhere.copy()
            served: set[NodeSelector | None] = set()
            for volume in candidates:
                name, selector = volume.metadata.name, _affinity(volume)
                if selector in served:
                    continue
                if selector not in reachable:
                    assert selector is not None
                    reachable[selector] = matching_rows(selector, self._cluster.labels, rows)
                here = open_ & reachable[selector]
                if name in taken:
                    here &= ~taken[name]
                    taken[name] = taken[name] | here
                else:
                    taken[name] = here
                    served.add(selector)
                by_claim[claim.metadata.key, name] = here
                open_ &= ~here
                if not open_.any():
                    break
            missed.append(open_)
        return by_claim, missed

    def _node_of(self, claim: PersistentVolumeClaim) -> str:
        """The node for which a volume is being made already."""
        promised = self._storage.selected_nodes.get(claim.metadata.key, "")
        return claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION, promised)

    def _suitable(self, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        """The volumes that a claim could get, the smallest first. One that is kept for it is the only one."""
        storage, key, size = self._storage, claim.metadata.key, wanted_bytes(claim)
        promised = {name for name, kept in storage.kept_for.items() if kept == key}
        named = storage.volumes_for.get(key, {})
        free = storage.free_volumes.get(class_name(claim), {})
        for name in [*named, *promised]:
            volume = storage.volumes.get(name)
            if volume is not None and volume_bytes(volume) >= size and self._is_for(volume, claim):
                return [volume]
        matcher = None if claim.spec.selector is None else compile_labels(claim.spec.selector, absent=NOTHING)
        volumes = []
        for _, name in sorted((free[name], name) for name in free if free[name] >= size):
            volume = storage.volumes[name]
            if name in storage.kept_for or volume.status.phase != "Available" or not _is_alike(volume, claim):
                continue
            if matcher is None or matcher.matches(volume.metadata.labels):
                volumes.append(volume)
        return volumes

    def _is_for(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
        """Whether a volume that is kept for a claim of that name can be had by this one."""
        ref = volume.spec.claim_ref
        mine = ref is None or ref.uid in ("", claim.metadata.uid)
        same = class_name(volume) == class_name(claim) and volume.spec.volume_mode == claim.spec.volume_mode
        return mine and same and volume.metadata.deletion_timestamp is None

    def _allowed(self, class_: StorageClass, rows: Array) -> Array:
        """Where a class may make volumes: anywhere, or where one of its terms holds. An empty term never does."""
        if not class_.allowed_topologies:
            return np.ones(len(rows), np.bool_)
        allowed = np.zeros(len(rows), np.bool_)
        for term in class_.allowed_topologies:
            holds = np.full(len(rows), bool(term.match_label_expressions))
            for expression in term.match_label_expressions:
                holds &= self._cluster.labels.matches(Requirement(expression.key, Operator.IN, expression.values), rows)
            allowed |= holds
        return allowed

    def _has_room(self, class_: StorageClass, claim: PersistentVolumeClaim, rows: Array) -> Array:
        """Where a driver that publishes what it has left can make a volume of that size."""
        driver = self._storage.drivers.get(class_.provisioner)
        published = driver is not None and driver.spec.storage_capacity
        if not published or "storage" not in claim.spec.resources.requests:
            return np.ones(len(rows), np.bool_)
        has_room = np.zeros(len(rows), np.bool_)
        for capacity in self._capacities(class_):
            if _largest_bytes(capacity) >= wanted_bytes(claim):
                has_room |= self._reaches(capacity, rows)
        return has_room

    def _capacities(self, class_: StorageClass) -> list[CSIStorageCapacity]:
        """What is known to be left of a class, part of the cluster by part."""
        every, name = self._storage.capacities.values(), class_.metadata.name
        return [
            capacity for capacity in every if capacity.storage_class_name == name and capacity.node_topology is not None
        ]

    def _reaches(self, capacity: CSIStorageCapacity, rows: Array) -> Array:
        here = np.ones(len(rows), np.bool_)
        for requirement in compile_labels(capacity.node_topology, absent=NOTHING).requirements:
            here &= self._cluster.labels.matches(requirement, rows)
        return here


def _is_alike(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is of the kind that a claim wants."""
    same = volume.spec.volume_mode == claim.spec.volume_mode and volume.metadata.deletion_timestamp is None
    return same and set(claim.spec.access_modes) <= set(volume.spec.access_modes)


def _largest_bytes(capacity: CSIStorageCapacity) -> int:
    limit = capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
    return -1 if limit is None else amounts({"storage": limit})["storage"]
