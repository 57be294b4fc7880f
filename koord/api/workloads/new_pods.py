"""From a template to a pod: its name, its owner, and all that the user wrote in the template."""

from __future__ import annotations

from typing import Any

from koord.api.kinds import Kind
from koord.api.kubernetes.meta import ObjectMeta, OwnerReference
from koord.api.kubernetes.workloads import PodTemplate


def managing(kind: Kind[Any], meta: ObjectMeta) -> OwnerReference:
    """The owner reference on the objects that an object of this kind creates."""
    return OwnerReference(kind.api_version, kind.kind, meta.name, meta.uid, controller=True, block_owner_deletion=True)


def pod_from(template: PodTemplate, generate_name: str, owner: OwnerReference) -> dict[str, Any]:
    """A pod to be created from a template, with all that the user wrote in it."""
    metadata = template.get("metadata") or {}
    kept = {key: value for key in ("labels", "annotations", "finalizers") if (value := metadata.get(key))}
    return {
        "metadata": {**kept, "generateName": generate_name, "ownerReferences": [reference_body(owner)]},
        "spec": template.get("spec") or {},
    }


def reference_body(owner: OwnerReference) -> dict[str, object]:
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": owner.controller,
        "blockOwnerDeletion": owner.block_owner_deletion,
    }


def name_prefix(owner: ObjectMeta) -> str:
    """`web-`, cut so that the completed name is a valid label too."""
    return f"{owner.name[:57]}-"
