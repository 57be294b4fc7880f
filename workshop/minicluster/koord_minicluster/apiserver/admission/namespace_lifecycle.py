"""Namespaces and what is in them: nothing is created in a namespace that is missing or going away.

Deleting is always allowed, except for the namespaces that every cluster has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from koord_minicluster.apiserver.admission.attributes import Attributes, refusal
from koord_minicluster.apiserver.resource import Obj
from koord_minicluster.apiserver.status import Cause, object_not_found

IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})
_REVIEWS: Final = ("authorization.k8s.io", "localsubjectaccessreviews")
"Answering 404 to these would tell which namespaces exist."


def admit(attributes: Attributes, namespace_of: Callable[[str], Obj | None]) -> None:
    """Raises 404 or 403. `namespace_of` gives a namespace by name."""
    if attributes.is_namespace:
        if attributes.operation == "DELETE" and attributes.name in IMMORTAL:
            raise refusal(attributes, "this namespace may not be deleted")
        return
    if not attributes.namespace or attributes.operation == "DELETE":
        return
    if (attributes.resource.group, attributes.resource.plural) == _REVIEWS:
        return
    namespace = namespace_of(attributes.namespace)
    if namespace is None:
        raise object_not_found("namespaces", "", attributes.namespace)
    if attributes.operation == "CREATE" and (namespace.get("status") or {}).get("phase") == "Terminating":
        name = attributes.namespace
        cause = Cause("metadata.namespace", "NamespaceTerminating", f"namespace {name} is being terminated")
        raise refusal(
            attributes, f"unable to create new content in namespace {name} because it is being terminated", [cause]
        )
