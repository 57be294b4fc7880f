"""Which fields a write can reach at all, and therefore own.

A write to the main resource does not reach the status, and a write to the status does not reach the spec: the server
drops the fields sent there, so they get no owner. The table is the real server's, with the kinds that deviate from the
rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from koord_minicluster.apiserver.patch import fields
from koord_minicluster.apiserver.patch.fields import Set
from koord_minicluster.apiserver.resource import Resource

Reach = Callable[[Set], Set]
"""Keeps of a set of fields those that a write can reach."""


def everything(one: Set) -> Set:
    return one


def reach_of(resource: Resource, subresource: str = "") -> Reach:
    """What a write to a resource, or through its subresource, can reach."""
    out = _OUT_OF_REACH.get((resource.group, resource.kind, subresource))
    if out is not None:
        return out
    if subresource == "status":
        return _WITHOUT_SPEC
    return _WITHOUT_STATUS if "status" in resource.subresources else everything


def _without(*paths: str) -> Reach:
    roots = fields.from_paths(*(tuple(map(fields.field, path.split("."))) for path in paths))
    return lambda one: fields.without(one, roots) if one else one


_WITHOUT_STATUS: Final = _without("status")
_WITHOUT_SPEC: Final = _without("spec")
_WITHOUT_SPEC_AND_METADATA: Final = _without("spec", "metadata")

_OUT_OF_REACH: Final[dict[tuple[str, str, str], Reach]] = {
    ("", "Namespace", "finalize"): _WITHOUT_STATUS,
    ("", "Pod", "ephemeralcontainers"): everything,
    ("", "Pod", "resize"): everything,
    ("", "Pod", "status"): _without("spec", "metadata.deletionTimestamp", "metadata.ownerReferences"),
    ("apps", "Deployment", "status"): _without("spec", "metadata.labels"),
    ("certificates.k8s.io", "CertificateSigningRequest", ""): _without("spec", "status"),
    ("certificates.k8s.io", "CertificateSigningRequest", "status"): _without("spec", "status.conditions"),
    ("certificates.k8s.io", "CertificateSigningRequest", "approval"): _without("spec", "status.certificate"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", "status"): _WITHOUT_SPEC_AND_METADATA,
    ("apiextensions.k8s.io", "CustomResourceDefinition", "status"): _WITHOUT_SPEC_AND_METADATA,
    ("flowcontrol.apiserver.k8s.io", "FlowSchema", "status"): _WITHOUT_SPEC_AND_METADATA,
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", "status"): _WITHOUT_SPEC_AND_METADATA,
    ("resource.k8s.io", "ResourceClaim", "status"): _WITHOUT_SPEC_AND_METADATA,
    ("storage.k8s.io", "VolumeAttachment", "status"): _WITHOUT_SPEC_AND_METADATA,
}
