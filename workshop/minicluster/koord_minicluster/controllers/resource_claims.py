"""ResourceClaims: made for pods from templates, and without devices once no pod uses them.

A claim keeps its devices as long as a pod uses it that exists, has not finished, and was not deleted before it had a
node. Claims of templates go with their pods, and already when these have finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from koord.api.kinds import PODS, RESOURCE_CLAIMS
from koord.api.kubernetes.core import Pod
from koord.api.kubernetes.dynamic_resources import (
    FINALIZER,
    POD_CLAIM_NAME,
    ClaimConsumer,
    ResourceClaim,
    ResourceClaimTemplate,
)
from koord.api.kubernetes.pod import PodResourceClaim
from koord.api.workloads.pod_claims import claim_for, missing_claims
from koord_minicluster.controllers.actions import Action, Create, Patch, Tell, delete

FAILED: Final = "FailedResourceClaimCreation"


def wants_claims(pod: Pod) -> bool:
    """Whether claims are made for a pod: not for one that ends, or has."""
    return not pod.is_finished and pod.metadata.deletion_timestamp is None and bool(missing_claims(pod))


def made_for(pod: Pod, entry: PodResourceClaim, claims: Iterable[ResourceClaim]) -> ResourceClaim | None:
    """The claim that was made for an entry of a pod's spec already. `claims`: those that the pod owns."""
    named = (claim for claim in claims if claim.metadata.annotations.get(POD_CLAIM_NAME) == entry.name)
    return next((claim for claim in named if claim.metadata.deletion_timestamp is None), None)


def creation(pod: Pod, entry: PodResourceClaim, template: ResourceClaimTemplate | None) -> Create | Tell:
    """How the claim for an entry is made, or why it cannot be."""
    if template is None:
        name = f"{pod.metadata.namespace}/{entry.resource_claim_template_name}"
        return Tell(FAILED, f"PodResourceClaim {entry.name}: resource claim template {name} not found", "Warning")
    body = RESOURCE_CLAIMS.manifest(claim_for(pod, entry, template))
    return Create(RESOURCE_CLAIMS, pod.metadata.namespace, body)


def told_pod(pod: Pod, names: dict[str, str]) -> Patch:
    """The pod's status says which claims were made for it, by entry of its spec."""
    statuses = [{"name": entry, "resourceClaimName": name} for entry, name in names.items()]
    body = {"metadata": {"uid": pod.metadata.uid}, "status": {"resourceClaimStatuses": statuses}}
    return Patch(PODS, pod.metadata.namespace, pod.metadata.name, body, "status", gone_ok=True)


def uses(pod: Pod | None, uid: str) -> bool:
    """Whether the pod of a uid still uses its claims. `pod`: the one of that name now."""
    if pod is None or pod.metadata.uid != uid or pod.is_finished:
        return False
    return bool(pod.spec.node_name) or pod.metadata.deletion_timestamp is None


def is_pod(consumer: ClaimConsumer) -> bool:
    return consumer.resource == "pods" and not consumer.api_group


def tidied(claim: ResourceClaim, pod_of: Callable[[str], Pod | None], owner: Pod | None) -> Sequence[Action]:
    """What a claim no longer needs. `pod_of`: pods of its namespace, by name; `owner`: the pod it was made for."""
    meta, status = claim.metadata, claim.status
    actions: list[Action] = []
    left = [user for user in status.reserved_for if not is_pod(user) or uses(pod_of(user.name), user.uid)]
    is_leaving = meta.deletion_timestamp is not None
    frees = status.allocation is not None and not left and (bool(status.reserved_for) or is_leaving)
    if len(left) < len(status.reserved_for) or frees:
        body: dict[str, Any] = {"reservedFor": [_plain(consumer) for consumer in left] or None}
        if frees:
            body |= {"allocation": None, "devices": None}
        version = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        changed = {"metadata": version, "status": body}
        actions.append(Patch(RESOURCE_CLAIMS, meta.namespace, meta.name, changed, "status", "merge", gone_ok=True))
    # A scheduler writes the finalizer before the allocation: a claim that is not leaving keeps it until it is freed.
    if FINALIZER in meta.finalizers and (frees or (is_leaving and status.allocation is None)):
        without = {"metadata": {"uid": meta.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
        actions.append(Patch(RESOURCE_CLAIMS, meta.namespace, meta.name, without, gone_ok=True))
    if owner is not None and owner.is_finished and POD_CLAIM_NAME in meta.annotations and not is_leaving:
        actions.append(delete(RESOURCE_CLAIMS, meta))
    return actions


def _plain(consumer: ClaimConsumer) -> dict[str, str]:
    said = {"resource": consumer.resource, "name": consumer.name, "uid": consumer.uid}
    return said | ({"apiGroup": consumer.api_group} if consumer.api_group else {})
