"""Nobody grants what they do not hold: writes of roles and bindings, checked against the writer's own rules.

Holders of the verb `escalate` on a role, or `bind` on the role that a binding names, may go beyond their own rights.
"""

from __future__ import annotations

from typing import Final

from koord.api.kubernetes.access import MASTERS, Access
from koord_minicluster.apiserver.access.rbac import GROUP, Authorizer
from koord_minicluster.apiserver.access.rules import RbacRule, parse_rules
from koord_minicluster.apiserver.admission.attributes import Attributes, refusal
from koord_minicluster.apiserver.resource import Obj
from koord_minicluster.apiserver.status import StatusError, object_not_found

_ROLES: Final = ("roles", "clusterroles")
_BINDINGS: Final = ("rolebindings", "clusterrolebindings")
_EVERYTHING: Final = (RbacRule(("*",), ("*",), ("*",)), RbacRule(("*",), urls=("*",)))
_OF_GARBAGE_COLLECTION: Final = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")


def concerns(attributes: Attributes) -> bool:
    return attributes.resource.group == GROUP and attributes.operation in ("CREATE", "UPDATE")


def admit(attributes: Attributes, authorizer: Authorizer) -> None:
    """Raises 403 where the writer would grant more than they hold."""
    user, obj, old, plural = attributes.user, attributes.obj, attributes.old, attributes.resource.plural
    if obj is None or MASTERS in user.groups:
        return
    namespace = attributes.namespace if attributes.resource.namespaced else ""
    if plural in _ROLES:
        # A name that is only in the body was not part of the request, so rights by name do not reach it.
        name = "" if attributes.operation == "CREATE" else attributes.name
        if authorizer.allowed(user, Access("escalate", GROUP, plural, "", name, namespace))[0]:
            return
        if old is not None and _only_for_garbage_collection(obj, old):
            return
        if fault := authorizer.unheld(user, namespace, parse_rules(obj.get("rules"))):
            raise refusal(attributes, fault)
        if (_aggregates(obj) or _aggregates(old)) and authorizer.unheld(user, namespace, _EVERYTHING):
            raise refusal(attributes, "must have cluster-admin privileges to use the aggregationRule")
    elif plural in _BINDINGS:
        if old is not None and _only_for_garbage_collection(obj, old):
            return
        ref = obj.get("roleRef") or {}
        kind, name = ref.get("kind", ""), ref.get("name", "")
        wanted = {"Role": "roles", "ClusterRole": "clusterroles"}.get(kind)
        if (
            wanted
            and authorizer.allowed(user, Access("bind", ref.get("apiGroup", GROUP), wanted, "", name, namespace))[0]
        ):
            return
        rules = authorizer.role_rules(kind, name, namespace)
        if rules is None:
            if wanted is None:
                raise StatusError(500, "", f'unsupported role reference kind: "{kind}"', details=False)
            raise object_not_found(plural, GROUP, name)
        if fault := authorizer.unheld(user, namespace, rules):
            raise refusal(attributes, fault)


def _aggregates(role: Obj | None) -> bool:
    return bool(((role or {}).get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _only_for_garbage_collection(new: Obj, old: Obj) -> bool:
    def rest(obj: Obj) -> Obj:
        meta = {key: value for key, value in obj["metadata"].items() if key not in _OF_GARBAGE_COLLECTION}
        return {**obj, "metadata": meta}

    return rest(new) == rest(old)
