"""Match conditions of webhooks as expressions: over the request, the object and what it was, giving a boolean.

Of the object nothing is known before it comes, so its fields are looked up when it is there; the request has the fields
of an admission review.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from koord.api.cel import types
from koord.api.cel.expressions import Expression, compiled
from koord.api.cel.signatures import AUTHORIZER, RESOURCE_CHECK
from koord.api.cel.syntax import CelError
from koord.api.cel.types import BOOL, DYN, INT, STRING, TIMESTAMP, Type

BUDGET: Final = 2_500_000
"""What all conditions of a webhook may cost for one request."""


def _struct(name: str, /, **fields: Type) -> Type:
    return Type("struct", f"kubernetes.{name}", fields=fields)


_STRINGS: Final = types.list_of(STRING)
_TEXTS: Final = types.map_of(STRING, STRING)
_KIND: Final = _struct("GroupVersionKind", group=STRING, version=STRING, kind=STRING)
_RESOURCE: Final = _struct("GroupVersionResource", group=STRING, version=STRING, resource=STRING)
_USER: Final = _struct("UserInfo", username=STRING, uid=STRING, groups=_STRINGS, extra=types.map_of(STRING, _STRINGS))
_REQUEST: Final = _struct(
    "AdmissionRequest",
    kind=_KIND,
    resource=_RESOURCE,
    subResource=STRING,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=STRING,
    name=STRING,
    namespace=STRING,
    operation=STRING,
    userInfo=_USER,
    dryRun=BOOL,
    options=DYN,
)
_CONDITION: Final = _struct(
    "NamespaceCondition", status=STRING, type=STRING, lastTransitionTime=TIMESTAMP, message=STRING, reason=STRING
)
_NAMESPACE_META: Final = _struct(
    "NamespaceMetadata",
    name=STRING,
    generateName=STRING,
    namespace=STRING,
    labels=_TEXTS,
    annotations=_TEXTS,
    UID=STRING,
    creationTimestamp=TIMESTAMP,
    deletionGracePeriodSeconds=INT,
    deletionTimestamp=TIMESTAMP,
    generation=INT,
    resourceVersion=STRING,
    finalizers=_STRINGS,
)
_NAMESPACE: Final = _struct(
    "Namespace",
    metadata=_NAMESPACE_META,
    spec=_struct("NamespaceSpec", finalizers=_STRINGS),
    status=_struct("NamespaceStatus", conditions=types.list_of(_CONDITION), phase=STRING),
)
VARIABLES: Final[Mapping[str, Type]] = {
    "object": DYN,
    "oldObject": DYN,
    "namespaceObject": _NAMESPACE,
    "request": _REQUEST,
    "authorizer": AUTHORIZER,
    "authorizer.requestResource": RESOURCE_CHECK,
}


@lru_cache(1024)
def condition(source: str) -> Expression:
    """Raises CelError."""
    made = compiled(source, VARIABLES)
    if made.type != BOOL:
        raise CelError(f"must evaluate to bool but got {made.type}")
    return made
