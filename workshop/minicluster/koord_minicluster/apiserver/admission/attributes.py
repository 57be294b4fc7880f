"""What admission sees of a write: the operation, the object before and after, and who wants it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from koord.api.kubernetes.access import UserInfo
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.status import Cause, StatusError, qualified

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class Attributes(msgspec.Struct, frozen=True, eq=False):
    """One write on its way through admission. `obj` is None for deletions, `old` for creations."""

    operation: str
    resource: Resource
    subresource: str
    namespace: str
    name: str
    obj: Obj | None
    old: Obj | None
    user: UserInfo
    dry_run: bool = False
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    "The request's options object: CreateOptions, PatchOptions, ..."
    warnings: list[str] = msgspec.field(default_factory=list)
    "Filled on the way; the client gets them as headers."
    kind: tuple[str, str, str] | None = None
    "Of a subresource with a kind of its own (Binding, Eviction): its group, version and kind."

    @property
    def is_namespace(self) -> bool:
        return self.resource.plural == "namespaces" and not self.resource.group

    @property
    def shown_name(self) -> str:
        """The name for messages; of an object whose name is still to be generated, what is known of it."""
        meta = (self.obj or {}).get("metadata") or {}
        return self.name or meta.get("name") or meta.get("generateName") or "Unknown"


def refusal(attributes: Attributes, detail: str, causes: Sequence[Cause] = ()) -> StatusError:
    """403: admission says no to this object."""
    group, resource, name = attributes.resource.group, attributes.resource.plural, attributes.shown_name
    message = f'{qualified(resource, group)} "{name}" is forbidden: {detail}'
    return StatusError(403, "Forbidden", message, name=name, group=group, kind=resource, causes=causes)
