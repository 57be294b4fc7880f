"""Revisions: the templates that a StatefulSet or DaemonSet has had, kept as objects, so that it can go back to them.

The newest revision has the present template. A template that comes back gets its old revision again, with the highest
number. `kubectl rollout undo` applies a revision's data as a strategic merge patch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from koord.api.kinds import CONTROLLER_REVISIONS, Kind
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.workloads import ControllerRevision, PodTemplate
from koord.api.workloads.new_pods import managing, reference_body
from koord.api.workloads.revision import POD_LABEL, Revision, data_of, new_revision
from koord.api.workloads.template_hash import canonical
from koord_minicluster.controllers.actions import Action, Create, Patch, delete

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class Revised:
    """The revision that pods are being brought to, the one they come from, and what makes it so."""

    update: Revision
    current: Revision
    actions: tuple[Action, ...]


def revise(
    kind: Kind[Any],
    meta: ObjectMeta,
    template: PodTemplate,
    history: Sequence[ControllerRevision],
    current_name: str,
    collisions: int | None,
) -> Revised:
    """`current_name` is what the status says that all pods had when the last update was complete."""
    data = data_of(template)
    wanted = canonical(data)
    ordered = sorted(history, key=lambda revision: (revision.revision, revision.metadata.name))
    highest = ordered[-1].revision if ordered else 0
    same = [revision for revision in ordered if canonical(revision.data) == wanted]
    actions: list[Action] = []
    if same:
        revision = same[-1]
        number = revision.revision
        if revision is not ordered[-1]:
            number = highest + 1
            actions.append(
                Patch(CONTROLLER_REVISIONS, meta.namespace, revision.metadata.name, {"revision": number}, type="merge")
            )
        update = Revision(revision.metadata.name, hash_of(meta, revision), template, number)
    else:
        update = new_revision(meta, template, highest + 1, collisions)
        actions.append(_create(kind, meta, update, data))
    current = next((_of(meta, r) for r in ordered if r.metadata.name == current_name), update)
    return Revised(update, current, tuple(actions))


def outlived(meta: ObjectMeta, history: Sequence[ControllerRevision], in_use: set[str], limit: int) -> list[Action]:
    """Old revisions that no pod has and that are more than the limit, the oldest first."""
    idle = [r for r in history if r.metadata.name not in in_use and hash_of(meta, r) not in in_use]
    idle.sort(key=lambda revision: (revision.revision, revision.metadata.name))
    return [delete(CONTROLLER_REVISIONS, r.metadata) for r in idle[: max(0, len(idle) - limit)]]


def hash_of(meta: ObjectMeta, revision: ControllerRevision) -> str:
    """The part of a revision's name that stands for its content, as pods of a DaemonSet carry it."""
    label = revision.metadata.labels.get(POD_LABEL) or revision.metadata.labels.get("controller.kubernetes.io/hash")
    return label or revision.metadata.name.removeprefix(f"{meta.name}-")


def _of(meta: ObjectMeta, revision: ControllerRevision) -> Revision:
    spec: Mapping[str, Any] = revision.data.get("spec") or {}
    template = {key: value for key, value in (spec.get("template") or {}).items() if key != "$patch"}
    return Revision(revision.metadata.name, hash_of(meta, revision), template, revision.revision)


def _create(kind: Kind[Any], meta: ObjectMeta, revision: Revision, data: dict[str, Any]) -> Create:
    labels = (revision.template.get("metadata") or {}).get("labels") or {}
    body = {
        "metadata": {
            "name": revision.name,
            "annotations": {k: v for k, v in meta.annotations.items() if k != LAST_APPLIED},
            "labels": {**labels, POD_LABEL: revision.hash, "controller.kubernetes.io/hash": revision.hash},
            "ownerReferences": [reference_body(managing(kind, meta))],
        },
        "data": data,
        "revision": revision.number,
    }
    return Create(CONTROLLER_REVISIONS, meta.namespace, body)
