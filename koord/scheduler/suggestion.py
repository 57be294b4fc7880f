"""What would help a pod that fits nowhere, for programs that act on it: one of three words, and a sentence.

    WaitingVictimReleased   pods are going to make room for it: users need only wait
    DeleteConflictPVC       a claim keeps it off the nodes on which it would fit
    EvictWorkloadSelf       recreated, it would fit: what ties it down was settled when it was created

That it would fit is not guessed: the pod without what ties it down is judged by all plugins. The first that is true is
added to what users are told. It costs a look at the reasons, unless volumes are among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from koord.api.kubernetes.pod import Volume
from koord.api.kubernetes.storage import PersistentVolumeClaim
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.change import pods_told_in
from koord.scheduler.framework.engine import Engine, Placement
from koord.scheduler.framework.remedy import Remedy
from koord.scheduler.plugins.default_preemption import AWAITED
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.storage import is_bound

Type: TypeAlias = Literal["WaitingVictimReleased", "DeleteConflictPVC", "EvictWorkloadSelf"]
MOST_NAMED: Final = 3
OF_VOLUMES: Final = frozenset({"VolumeBinding", "VolumeZone"})
NODE_NAME: Final = "metadata.name"


class Suggestion(msgspec.Struct, frozen=True):
    type: Type
    message: str

    @property
    def text(self) -> str:
        return f"Suggestion: {{type: {self.type}, message: {self.message}}}"


def suggestion_for(engine: Engine, ask: Ask, placement: Placement, remedy: Remedy) -> Suggestion | None:
    """The first suggestion that is true of a pod which fits nowhere."""
    if remedy.node is not None:
        return _of_victims(ask, remedy.victims, remedy.node) if remedy.victims else None
    if AWAITED in remedy.message:
        return _under_way(engine.cluster, ask)
    if ask.spec.volumes and not OF_VOLUMES.isdisjoint(placement.why_not):
        return _of_claims(engine, ask)
    if "NodeAffinity" in placement.why_not and ask.meta.controller is not None:
        gone = _only_nodes(ask)
        if gone and engine.cluster.table.row_of and gone.isdisjoint(engine.cluster.table.row_of):
            return Suggestion("EvictWorkloadSelf", f"it may only run on {_some(sorted(gone))}, which is not there")
    return None


def _of_victims(ask: Ask, victims: Sequence[str], node: str) -> Suggestion:
    names_told = pods_told_in(ask.meta.namespace, victims)
    return Suggestion("WaitingVictimReleased", f"{names_told} must be gone from {node} first")


def _under_way(cluster: Cluster, ask: Ask) -> Suggestion | None:
    """As long as it waits for the same pods, the same sentence: it is written when it changes."""
    promise = cluster.nominations.of(ask.key)
    row = cluster.table.row_of.get(ask.pod.status.nominated_node_name) if promise is None else promise.row
    if row is None:
        return None
    victims = [key for key, _ in promise.victims if key in cluster.pods] if promise is not None else []
    if not victims:
        on_node = cluster.pods_on[row].values()
        victims = [record.key for record in on_node if record.preempted and record.priority < ask.priority]
    return _of_victims(ask, victims, cluster.table.names[row]) if victims else None


def _of_claims(engine: Engine, ask: Ask) -> Suggestion | None:
    cluster = engine.cluster
    tied: list[tuple[Volume, PersistentVolumeClaim]] = []
    for volume in ask.spec.volumes:
        claim = cluster.storage.claims.get(_claim_key(ask, volume))
        if claim is None or claim.metadata.deletion_timestamp is not None:
            continue
        if volume.ephemeral is not None and not _is_own(claim, ask):
            taken = f"has the name of the claim for its volume {volume.name}, and was not made for it"
            return Suggestion("DeleteConflictPVC", f"{claim.metadata.key} {taken}")
        if claim.status.phase == "Lost":
            return _without(claim, ask, f"the volume of {claim.metadata.key}, {claim.spec.volume_name}, is lost")
        if is_bound(claim):
            tied.append((volume, claim))
    for volume, claim in tied:
        node = _fits_without(engine, ask, [volume])
        if node is not None:
            bound = f"{claim.metadata.key} is bound to {claim.spec.volume_name}"
            return _without(claim, ask, f"{bound}, and keeps it off {node}, where it would fit")
    if len(tied) > 1 and (node := _fits_without(engine, ask, [volume for volume, _ in tied])) is not None:
        keys = _some([claim.metadata.key for _, claim in tied])
        return _without(tied[0][1], ask, f"{keys} are bound to volumes that keep it off {node}, where it would fit")
    return None


def _without(claim: PersistentVolumeClaim, ask: Ask, why: str) -> Suggestion:
    """A claim that was made for the pod is deleted with it; any other claim holds a user's data."""
    return Suggestion("EvictWorkloadSelf" if _is_own(claim, ask) else "DeleteConflictPVC", why)


def _is_own(claim: PersistentVolumeClaim, ask: Ask) -> bool:
    owner = claim.metadata.controller
    return owner is not None and owner.uid == ask.meta.uid


def _claim_key(ask: Ask, volume: Volume) -> str:
    if volume.persistent_volume_claim is not None:
        return f"{ask.meta.namespace}/{volume.persistent_volume_claim.claim_name}"
    return f"{ask.meta.namespace}/{ask.meta.name}-{volume.name}"


def _fits_without(engine: Engine, ask: Ask, volumes: Sequence[Volume]) -> str | None:
    """A node that takes the pod but for these volumes, and that only volumes speak against."""
    names = {volume.name for volume in volumes}
    left = tuple(volume for volume in ask.pod.spec.volumes if volume.name not in names)
    trial = Ask(replace(ask.pod, spec=replace(ask.pod.spec, volumes=left)))
    with engine.cluster.nominations.without(ask.key):
        pod_class = engine.class_of(ask)
        for row in engine.judged_alone(trial).feasible_rows().tolist():
            why = pod_class.reasons(row)
            if why is not None and why[0].plugin.name in OF_VOLUMES:
                return str(engine.cluster.table.names[row])
    return None


def _only_nodes(ask: Ask) -> set[str]:
    """The nodes that a pod's required affinity names one by one; none where it leaves any choice."""
    affinity = ask.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return set()
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    names: set[str] = set()
    for term in () if required is None else required.node_selector_terms:
        named = [
            requirement
            for requirement in term.match_fields
            if requirement.key == NODE_NAME and requirement.operator == "In"
        ]
        if not named:
            return set()
        names.update(value for requirement in named for value in requirement.values)
    return names


def _some(words: Sequence[str]) -> str:
    shown = ", ".join(words[:MOST_NAMED])
    return shown if len(words) <= MOST_NAMED else f"{shown} and {len(words) - MOST_NAMED} more"
