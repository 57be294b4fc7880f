"""Match conditions of webhooks: CEL expressions over the request that must all be true for a hook to be asked.

One false condition settles it, whatever the others do. Otherwise one that cannot be evaluated fails the request, or
skips the hook, by its failurePolicy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from koord.api.kubernetes.access import Access, UserInfo
from koord_minicluster.apiserver.admission.attributes import Attributes
from koord_minicluster.apiserver.admission.webhook_review import as_version, review
from koord_minicluster.apiserver.resource import Resource

_OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


Decide = Callable[[UserInfo, Access], tuple[bool, str]]
"""Whether a user may, and why."""


class ConditionsFailed(Exception):
    """Some condition could not be evaluated; says which and why."""


def conditions_hold(
    conditions: Iterable[tuple[str, str]], attributes: Attributes, resource: Resource, decide: Decide
) -> bool:
    """Whether all (name, expression) pairs are true. Raises ConditionsFailed."""
    # CEL takes a while to load, and few servers are asked for it.
    from koord.api.cel.syntax import CelError
    from koord_minicluster.apiserver.rules.conditions import BUDGET, condition

    variables = {**variables_of(attributes, resource), **_authorizers(attributes, decide)}
    budget, faults = BUDGET, []
    for _, source in conditions:
        try:
            value, cost = condition(source).evaluate(variables)
        except CelError as error:
            value, cost = CelError(f"compilation error: {error}"), 0
        if cost > budget:
            raise ConditionsFailed(_OUT_OF_BUDGET)
        budget -= cost
        if value is False:
            return False
        if isinstance(value, CelError):
            faults.append(f"expression '{source}' resulted in error: {value}")
    if faults:
        raise ConditionsFailed(faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")
    return True


def _authorizers(attributes: Attributes, decide: Decide) -> Mapping[str, Any]:
    """Whom an expression can ask about access: about anything, or about what is requested."""
    from koord.api.cel.access_checks import Authorizer, ResourceCheck

    authorizer, resource = Authorizer(attributes.user, decide), attributes.resource
    wanted = Access(
        "",
        group=resource.group,
        resource=resource.plural,
        subresource=attributes.subresource,
        name=attributes.name,
        namespace=attributes.namespace,
    )
    return {"authorizer": authorizer, "authorizer.requestResource": ResourceCheck(authorizer, wanted)}


def variables_of(attributes: Attributes, resource: Resource) -> Mapping[str, Any]:
    """What expressions can name. As in a review, what is empty is not there."""
    request = dict(review(attributes, resource, ("v1",)).body["request"])
    for heavy in ("object", "oldObject", "uid"):
        request.pop(heavy)
    return {
        "object": as_version(attributes.obj, resource),
        "oldObject": as_version(attributes.old, resource),
        "namespaceObject": None,
        "request": request,
    }
