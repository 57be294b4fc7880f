"""A StatefulSet's pods and claims: each pod has a number, a name made from it, and claims of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from koord.api.kinds import STATEFUL_SETS
from koord.api.kubernetes.workloads import POD_NAME_LABEL, ClaimRetentionPolicy, StatefulSet
from koord.api.workloads.new_pods import managing, name_prefix, pod_from, reference_body
from koord.api.workloads.revision import POD_LABEL, Revision

INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"


def ordinals(set_: StatefulSet) -> range:
    first = set_.spec.ordinals.start
    return range(first, first + set_.spec.replicas)


def new_pod(set_: StatefulSet, number: int, revision: Revision) -> dict[str, Any]:
    meta, spec = set_.metadata, set_.spec
    name = f"{meta.name}-{number}"
    body = pod_from(revision.template, name_prefix(meta), managing(STATEFUL_SETS, meta))
    labels = {POD_NAME_LABEL: name, INDEX_LABEL: str(number), POD_LABEL: revision.name}
    body["metadata"] |= {"name": name, "labels": {**body["metadata"].get("labels", {}), **labels}}
    claims = {_template_name(t): claim_name(t, meta.name, number) for t in spec.volume_claim_templates}
    volumes = [{"name": volume, "persistentVolumeClaim": {"claimName": claim}} for volume, claim in claims.items()]
    others = [volume for volume in body["spec"].get("volumes") or () if volume.get("name") not in claims]
    body["spec"] = {**body["spec"], "hostname": name, "subdomain": spec.service_name, "volumes": [*volumes, *others]}
    return body


def claim_name(template: Mapping[str, Any], set_name: str, number: int) -> str:
    return f"{_template_name(template)}-{set_name}-{number}"


def _template_name(template: Mapping[str, Any]) -> str:
    return str((template.get("metadata") or {}).get("name", ""))


def claims(set_: StatefulSet, number: int) -> dict[str, dict[str, Any]]:
    """The claims of one pod, by name."""
    meta = set_.metadata
    policy = set_.spec.persistent_volume_claim_retention_policy or ClaimRetentionPolicy()
    by_name: dict[str, dict[str, Any]] = {}
    for template in set_.spec.volume_claim_templates:
        name = claim_name(template, meta.name, number)
        template_meta = template.get("metadata") or {}
        labels = {**(template_meta.get("labels") or {}), **set_.spec.selector.match_labels}
        metadata: dict[str, Any] = {"name": name, "labels": labels}
        if template_meta.get("annotations"):
            metadata["annotations"] = template_meta["annotations"]
        if policy.when_deleted == "Delete":
            metadata["ownerReferences"] = [reference_body(managing(STATEFUL_SETS, meta))]
        by_name[name] = {"metadata": metadata, "spec": template.get("spec") or {}}
    return by_name
