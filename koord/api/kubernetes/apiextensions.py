"""CustomResourceDefinitions as the API server returns them: whether one is served yet. `machinery.schema` writes
them."""

from __future__ import annotations

from koord.api.kubernetes.meta import Condition, ObjectMeta
from koord.api.machinery.struct import Struct


class DefinitionNames(Struct):
    plural: str = ""
    kind: str = ""


class DefinitionVersion(Struct):
    name: str
    served: bool = False
    storage: bool = False


class DefinitionSpec(Struct):
    group: str = ""
    scope: str = ""
    names: DefinitionNames = DefinitionNames()
    versions: tuple[DefinitionVersion, ...] = ()


class DefinitionStatus(Struct):
    conditions: tuple[Condition, ...] | None = ()
    "Null until the server looked at it."
    stored_versions: tuple[str, ...] = ()


class CustomResourceDefinition(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: DefinitionSpec = DefinitionSpec()
    status: DefinitionStatus = DefinitionStatus()

    @property
    def is_established(self) -> bool:
        """Whether objects of the kind can be written."""
        return any(c.type == "Established" and c.status == "True" for c in self.status.conditions or ())
