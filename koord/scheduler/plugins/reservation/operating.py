"""Pods in operating mode Reservation: each holds its room for the one pod that takes its place.

A pod in this mode acts as a reservation for one owner, with policy Aligned, while it runs and is ready. Its annotations
list the possible owners (`reservation-owners`), and the current one if any (`reservation-current-owner`).
"""

from __future__ import annotations

from koord.api.kinds import PODS
from koord.api.kubernetes.meta import ObjectReference
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.words import PodConditionType, PodPhase
from koord.api.protocol import names
from koord.api.protocol.annotations.reservation import OPERATING_MODE, RESERVATION_CURRENT_OWNER
from koord.api.protocol.annotations.value import AnnotationError
from koord.scheduler.framework.writes import Patch
from koord.scheduler.plugins.reservation.lifecycle import Owner
from koord.scheduler.plugins.reservation.room import Terms
from koord.scheduler.state.stand_ins import is_stand_in


def is_operating(pod: Pod) -> bool:
    """Whether a pod that has a node holds its room for another."""
    meta = pod.metadata
    if names.LABEL_OPERATING_MODE not in meta.labels or not pod.spec.node_name or is_stand_in(meta.name):
        return False
    try:
        return not pod.is_finished and OPERATING_MODE.read(meta) == "Reservation"
    except AnnotationError:
        return False


def operating_terms(pod: Pod, fault: str) -> Terms:
    meta, ready = pod.metadata, pod.status.condition(PodConditionType.READY)
    is_open = pod.status.phase is PodPhase.RUNNING and ready is not None and ready.status == "True"
    return Terms(
        meta.name,
        meta.uid or meta.key,
        is_open,
        policy="Aligned",
        once=True,
        unschedulable=meta.deletion_timestamp is not None,
        labels=meta.labels,
        fault=fault,
    )


def owner_write(pod: Pod, owners: list[Owner]) -> Patch | None:
    """The patch that names a pod's current owner on it; None if its annotation is up to date."""
    meta, key = pod.metadata, RESERVATION_CURRENT_OWNER.key
    said = meta.annotations.get(key)
    wanted = None
    if owners:
        first = min(owners, key=lambda owner: owner.uid)
        reference = ObjectReference(namespace=first.namespace, name=first.name, uid=first.uid)
        wanted = RESERVATION_CURRENT_OWNER.form.render(reference)
    if said == wanted:
        return None
    body = {"metadata": {"uid": meta.uid, "annotations": {key: wanted}}}
    return Patch(PODS, meta.name, body, meta.namespace)
