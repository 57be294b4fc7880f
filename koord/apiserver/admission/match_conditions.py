"""Match conditions of webhooks: CEL expressions over the request that must all be true for a hook to be asked.

One false condition settles it, whatever the others do. Otherwise one that cannot be evaluated fails the request, or
skips the hook, by its failurePolicy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from koord.apiserver.access.user import UserInfo
from koord.apiserver.admission.attributes import Attributes
from koord.apiserver.admission.webhook_review import as_version, review
from koord.apiserver.builtin.webhooks import NO_CEL
from koord.apiserver.resource import Resource


class ConditionsFailed(Exception):
    """Some condition could not be evaluated; says which and why."""


def conditions_hold(conditions: Iterable[tuple[str, str]], attributes: Attributes, resource: Resource) -> bool:
    """Whether all (name, expression) pairs are true. Raises ConditionsFailed."""
    try:
        from koord.apiserver.cel.expressions import CelError, evaluate
    except ImportError as error:
        raise ConditionsFailed(NO_CEL) from error
    variables = variables_of(attributes, resource)
    faults = []
    for _, expression in conditions:
        try:
            if evaluate(expression, variables) is False:
                return False
        except CelError as error:
            faults.append(f"expression '{expression}' resulted in error: {error}")
    if faults:
        raise ConditionsFailed(faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")
    return True


def variables_of(attributes: Attributes, resource: Resource) -> Mapping[str, Any]:
    request = dict(review(attributes, resource, ("v1",)).body["request"])
    for heavy in ("object", "oldObject", "uid"):
        request.pop(heavy)
    request["userInfo"] = whole_user(attributes.user)
    request.setdefault("subResource", "")
    request.setdefault("requestSubResource", "")
    request.setdefault("name", "")
    request.setdefault("namespace", "")
    return {
        "object": as_version(attributes.obj, resource),
        "oldObject": as_version(attributes.old, resource),
        "request": request,
    }


def whole_user(user: UserInfo) -> dict[str, Any]:
    """With empty fields too: expressions may ask for them."""
    return {"username": "", "uid": "", "groups": [], "extra": {}, **user.as_json()}
