"""ResourceClaims that are made for a pod from templates, and which of a pod's claims are made yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from koord.api.kubernetes.dynamic_resources import POD_CLAIM_NAME, ResourceClaim, ResourceClaimTemplate
from koord.api.kubernetes.meta import ObjectMeta, OwnerReference
from koord.api.kubernetes.pod import Pod, PodResourceClaim, PodResourceClaimStatus

LONGEST_BASE: Final = 57
"""Characters of a generated name before its random end."""


def missing_claims(pod: Pod) -> list[PodResourceClaim]:
    """The entries of a pod's spec that a claim must still be made for."""
    made = {status.name for status in pod.status.resource_claim_statuses}
    return [
        claim
        for claim in pod.spec.resource_claims
        if claim.resource_claim_template_name is not None and claim.name not in made
    ]


def generated_base(pod: str, claim: str) -> str:
    """`<pod>-<claim>-`, each part cut so that both have room."""
    room = LONGEST_BASE - 2
    if len(pod) + len(claim) > room:
        half = room // 2
        claim = claim[: max(half, room - len(pod))]
        pod = pod[: room - len(claim)]
    return f"{pod}-{claim}-"


def claim_for(pod: Pod, entry: PodResourceClaim, template: ResourceClaimTemplate) -> ResourceClaim:
    """The claim for an entry of a pod's spec, without a name of its own yet."""
    owner = OwnerReference("v1", "Pod", pod.metadata.name, pod.metadata.uid, controller=True, block_owner_deletion=True)
    meta = template.spec.metadata
    return ResourceClaim(
        ObjectMeta(
            generate_name=generated_base(pod.metadata.name, entry.name),
            namespace=pod.metadata.namespace,
            labels=meta.labels,
            annotations={**meta.annotations, POD_CLAIM_NAME: entry.name},
            owner_references=(owner,),
        ),
        template.spec.spec,
    )


def with_claims(pod: Pod, names: Mapping[str, str]) -> Pod:
    """The pod once claims were made for entries of its spec: their names, by entry."""
    more = tuple(PodResourceClaimStatus(entry, name) for entry, name in names.items())
    statuses = (*pod.status.resource_claim_statuses, *more)
    return replace(pod, status=replace(pod.status, resource_claim_statuses=statuses))
