"""The kinds koord knows: where each lives in the API and which type reads it.

A `Kind` is what the client, informers, manifests and the embedded server pass around to say *which* objects:
`client.get(PODS, "web", namespace="shop")`. `ALL` is the one list; `find` looks a manifest's kind up in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import quote

import msgspec

from koord.api.struct import Struct

T = TypeVar("T", bound=Struct)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """One kind of object: its group, version and names, and the type that reads it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    type: type[T]

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """As RBAC and error messages name it: `pods`, `reservations.scheduling.koordinator.sh`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, name: str = "", *, namespace: str = "", subresource: str = "") -> str:
        """The URL path of one object, or of the collection (of all namespaces where none is given)."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/" + "/".join(parts)

    def manifest(self, obj: T) -> dict[str, object]:
        """`obj` as plain data with apiVersion and kind, ready to be sent or printed."""
        body = msgspec.to_builtins(obj, str_keys=True)
        return {"apiVersion": self.api_version, "kind": self.kind, **body}

    def __str__(self) -> str:
        return self.kind
