"""What every Kubernetes object has: metadata, owners, references, conditions, list heads.

`ObjectMeta` keeps what koord reads. managedFields are left out on purpose: they are half of a pod's bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

from koord.api.machinery.struct import EMPTY, Struct, field
from koord.api.text.timestamp import Timestamp


class OwnerReference(Struct):
    api_version: str = ""
    "API version of the owner."
    kind: str = ""
    "Kind of the owner."
    name: str = ""
    "Name of the owner."
    uid: str = ""
    "UID of the owner."
    controller: bool = False
    "Whether the owner is the managing controller."
    block_owner_deletion: bool = False
    "Whether the owner stays until this object is gone, when it is deleted in the foreground."


class ObjectMeta(Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    generate_name: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Mapping[str, str] = EMPTY
    annotations: Mapping[str, str] = EMPTY
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone for cluster-scoped objects."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if one does."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class ObjectReference(Struct):
    api_version: str = ""
    "API version of the object."
    kind: str = ""
    "Kind of the object."
    namespace: str = ""
    "Namespace of the object."
    name: str = ""
    "Name of the object."
    uid: str = ""
    "UID of the object."
    resource_version: str = ""
    "Version of the object that is meant, if a particular one is."
    field_path: str = ""
    "The part of the object that is meant, for example spec.containers{app}."


class Condition(Struct):
    """One aspect of an object's state, in Kubernetes' usual form."""

    type: str
    "Name of the aspect."
    status: str
    "True, False or Unknown."
    observed_generation: int = 0
    "The generation of the object that this was found for."
    last_transition_time: Timestamp | None = None
    "When the status last changed."
    reason: str = ""
    "A word for programs: why the condition has this status."
    message: str = ""
    "A sentence for people: why the condition has this status."


class ListMeta(Struct):
    resource_version: str = ""
    continue_: str = field(name="continue", default="")
    remaining_item_count: int | None = None
