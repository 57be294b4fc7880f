"""The claims of a pod: which objects its spec means, and why it cannot be tried before they are ready."""

from __future__ import annotations

from koord.api.kubernetes.dynamic_resources import MOST_CONSUMERS, ResourceClaim
from koord.api.kubernetes.pod import Pod
from koord.scheduler.plugins.dynamic_resources.ledger import Ledger


class NotReady(Exception):
    """A claim of a pod does not exist, or not in a form that the pod can use: what must happen first."""


def claim_names(pod: Pod) -> list[str]:
    """The names of the claims of a pod, in the order of its spec. Raises `NotReady`."""
    names: list[str] = []
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for claim in pod.spec.resource_claims:
        if claim.resource_claim_name is not None:
            names.append(claim.resource_claim_name)
        elif claim.name not in made:
            raise NotReady(f'pod "{pod.metadata.key}": ResourceClaim not created yet')
        elif (name := made[claim.name]) is not None:
            names.append(name)
    return list(dict.fromkeys(names))


def claims_of(pod: Pod, ledger: Ledger) -> list[ResourceClaim]:
    """The claims of a pod. Raises `NotReady`."""
    own = {status.resource_claim_name for status in pod.status.resource_claim_statuses}
    own -= {claim.resource_claim_name for claim in pod.spec.resource_claims}
    claims = []
    for name in claim_names(pod):
        claim = ledger.claims.get(f"{pod.metadata.namespace}/{name}")
        if claim is None:
            raise NotReady(f'resourceclaim "{name}" not found')
        if claim.metadata.deletion_timestamp is not None:
            raise NotReady(f'resourceclaim "{name}" is being deleted')
        owner = claim.metadata.controller
        if name in own and (owner is None or owner.uid != pod.metadata.uid):
            key = claim.metadata.key
            raise NotReady(f"ResourceClaim {key} was not created for Pod {pod.metadata.key} (Pod is not owner)")
        consumers = claim.status.reserved_for
        if len(consumers) >= MOST_CONSUMERS and all(user.uid != pod.metadata.uid for user in consumers):
            raise NotReady(f'resourceclaim "{name}" is used by {MOST_CONSUMERS} pods, which is the most')
        claims.append(claim)
    return claims
