"""`authorizer`: what an expression can ask about access, by the identifiers of the overloads.

`authorizer.group("apps").resource("deployments").namespace("n").check("get").allowed()` names what is wanted step by
step, and then asks the authorizer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from koord.api.cel.syntax import CelError
from koord.api.kubernetes.access import Access, UserInfo, service_account_groups, service_account_user
from koord.api.text import formats

Decide = Callable[[UserInfo, Access], tuple[bool, str]]
"""Whether a user may, and why."""


@dataclass(frozen=True, slots=True)
class Authorizer:
    user: UserInfo
    decide: Decide = field(compare=False)


@dataclass(frozen=True, slots=True)
class PathCheck:
    authorizer: Authorizer
    access: Access


@dataclass(frozen=True, slots=True)
class GroupCheck:
    authorizer: Authorizer
    group: str


@dataclass(frozen=True, slots=True)
class ResourceCheck:
    authorizer: Authorizer
    access: Access


@dataclass(frozen=True, slots=True)
class AccessDecision:
    is_allowed: bool
    reason: str


def _path(authorizer: Authorizer, path: str) -> PathCheck:
    if not path.strip():
        raise CelError("path must not be empty")
    return PathCheck(authorizer, Access("", path=path))


def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    if formats.dns_subdomain(name):
        raise CelError("Invalid service account name")
    if formats.dns_label(namespace):
        raise CelError("Invalid service account namespace")
    user = UserInfo(service_account_user(namespace, name), groups=service_account_groups(namespace))
    return Authorizer(user, authorizer.decide)


def _resource(check: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise CelError("resource must not be empty")
    return ResourceCheck(check.authorizer, Access("", check.group, resource))


def _narrowed(part: str) -> Callable[[ResourceCheck, str], ResourceCheck]:
    def narrow(check: ResourceCheck, value: str) -> ResourceCheck:
        wanted = {name: getattr(check.access, name) for name in Access.__struct_fields__}
        return replace(check, access=Access(**{**wanted, part: value}))

    return narrow


def _asked(check: PathCheck | ResourceCheck, verb: str) -> AccessDecision:
    narrowed = _narrowed("verb")(ResourceCheck(check.authorizer, check.access), verb)
    return AccessDecision(*check.authorizer.decide(check.authorizer.user, narrowed.access))


OVERLOADS: Final[dict[str, Callable[..., Any]]] = {
    "authorizer_path": _path,
    "authorizer_group": GroupCheck,
    "authorizer_serviceaccount": _service_account,
    "groupcheck_resource": _resource,
    "resourcecheck_subresource": _narrowed("subresource"),
    "resourcecheck_namespace": _narrowed("namespace"),
    "resourcecheck_name": _narrowed("name"),
    # Selectors narrow what is asked for; roles do not know of them.
    "authorizer_fieldselector": lambda check, _selector: check,
    "authorizer_labelselector": lambda check, _selector: check,
    "pathcheck_check": _asked,
    "resourcecheck_check": _asked,
    "decision_errored": lambda _decision: False,
    "decision_error": lambda _decision: "",
    "decision_allowed": lambda decision: decision.is_allowed,
    "decision_reason": lambda decision: decision.reason,
}
