"""The order in which an installation is removed, and what stays: a pure function of the existing objects.

Rights go first, so that running components can no longer write. Webhooks go next, so that no pod waits for a missing
manager. Agents restore their nodes before they are removed; then koord's fields are removed from Node objects. Custom
objects are users' data: their kinds are removed only on demand, and last.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from koord.api.kinds import DEVICES, NODE_METRICS, NODE_RESOURCE_TOPOLOGIES, NODE_SLOS
from koord.api.protocol import hand_over, names
from koord.api.protocol.lease_holders import is_anothers
from koord.operate.install.manifest import FIELD_MANAGER, Json, Key, annotations_of
from koord.operate.install.plan import is_own
from koord.operate.install.traces import WRITERS, is_by_koord_alone

REPORTS: Final = (NODE_METRICS, NODE_SLOS, NODE_RESOURCE_TOPOLOGIES, DEVICES)
"""Objects that koord creates for every node."""
QUOTAS: Final = (names.QUOTA_ROOT, names.QUOTA_SYSTEM, names.QUOTA_DEFAULT)
"""Quotas that the scheduler creates."""
LEASES: Final = (names.LEASE_MANAGER, names.LEASE_SCHEDULER, names.LEASE_DESCHEDULER, names.LEASE_YARN_OPERATOR)

_RIGHTS: Final = ("ClusterRoleBinding", "RoleBinding", "ClusterRole", "Role")
_WEBHOOKS: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_LAST: Final = ("DaemonSet", "ServiceAccount", "ConfigMap", "Secret", "PriorityClass")
_ON_DEMAND: Final = "CustomResourceDefinition"
_OWN_MAKERS: Final = WRITERS | {FIELD_MANAGER, "koord-up"}


@dataclass(frozen=True, slots=True)
class KeptObject:
    key: Key
    why: str


@dataclass(frozen=True, slots=True)
class Removal:
    """Objects to remove, in this order; agents restore nodes between `early` and `late`."""

    early: tuple[Key, ...]
    late: tuple[Key, ...]
    handed_back: Mapping[Key, Json]
    "Webhook configurations of others, and the patches that restore them. Applied before anything is removed."
    namespaces: tuple[Key, ...]
    "Namespaces to remove if they contain no objects of others."
    kept: tuple[KeptObject, ...]


def removal(live: Mapping[Key, Json], classes_in_use: Collection[str], *, delete_crds: bool) -> Removal:
    """`live`: the recorded objects that exist. `classes_in_use`: PriorityClasses that pods use."""
    kept: list[KeptObject] = []
    going: list[Key] = []
    handed_back: dict[Key, Json] = {}
    for key, manifest in live.items():
        if patch := before_koord(manifest):
            handed_back[key] = patch
            kept.append(KeptObject(key, "it was there before koord; its webhooks are as before"))
        elif why := _stays(key, manifest, classes_in_use, delete_crds):
            kept.append(KeptObject(key, why))
        else:
            going.append(key)
    late = [key for key in going if key.kind in (*_LAST, _ON_DEMAND)]
    early = [key for key in going if key not in late and key.kind != "Namespace"]
    return Removal(
        tuple(sorted(early, key=lambda key: _rank(key.kind, (*_RIGHTS, *_WEBHOOKS)))),
        tuple(sorted(late, key=lambda key: _rank(key.kind, (*_LAST, _ON_DEMAND)))),
        handed_back,
        tuple(key for key in going if key.kind == "Namespace"),
        tuple(kept),
    )


def before_koord(configuration: Json) -> Json | None:
    """The patch that restores the webhooks of another system in a webhook configuration; None for one of koord's. The
    annotation stays: it names the owner of the configuration."""
    kept = annotations_of(configuration).get(names.OWN_ANNOTATION_WEBHOOKS_BEFORE)
    if configuration.get("kind") not in _WEBHOOKS:
        return None
    closed = hand_over.closed(configuration)
    if not kept:
        return closed
    try:
        return {**(closed or {}), "webhooks": msgspec.json.decode(str(kept), type=list[dict[str, object]])}
    except msgspec.MsgspecError:
        # The previous content is unknown. Pods must not wait for a missing manager.
        return {**(closed or {}), "webhooks": []}


def is_of_another(lease: Json) -> bool:
    """Whether a component of another system holds a lease, or was the last to do so."""
    spec = lease.get("spec")
    return is_anothers(str(spec.get("holderIdentity") or "") if isinstance(spec, Mapping) else "")


def _rank(kind: str, order: Sequence[str]) -> int:
    return order.index(kind) if kind in order else len(order)


def _stays(key: Key, manifest: Json, classes_in_use: Collection[str], delete_crds: bool) -> str:
    if maker := annotations_of(manifest).get(names.OWN_ANNOTATION_FOUND):
        return f"it was there before koord (written by {maker})"
    if key.kind == _ON_DEMAND and not delete_crds:
        return "its objects are your data; --delete-crds deletes both"
    if key.kind == "PriorityClass" and key.name in classes_in_use:
        return "pods name it; delete it when none does"
    if key.name == names.CONFIGMAP_SLO_CONTROLLER and not is_by_koord_alone(manifest, _OWN_MAKERS):
        return "others wrote it too; delete it if it is of no use"
    if not is_own(manifest):
        return "it is not koord's"
    return ""
