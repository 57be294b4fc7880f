"""ResourceQuotas at work: what would leave a namespace with more than its quotas allow is refused.

A quota counts from when its status says how much there is (`hard`) and is used (`used`): a controller sees to that.
What is admitted is added to `used` at once, so that many writers together cannot take more than there is.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping

from koord.api.kubernetes.quota_usage import Amounts, countable, counts, grown, over, unsaid, usage
from koord.api.text.quantity import canonical, plus
from koord_minicluster.apiserver.admission.attributes import Attributes, refusal
from koord_minicluster.apiserver.resource import Obj

Charge = Callable[[str, str, Mapping[str, str]], Awaitable[None]]
"""Stores what is used of a quota (namespace, name, used)."""


class Quotas:
    """`within` gives the quotas of a namespace; `charge` is set by the server once it can write."""

    def __init__(self, within: Callable[[str], list[Obj]]) -> None:
        self._within = within
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.charge: Charge | None = None

    async def admit(self, attributes: Attributes) -> None:
        namespace = attributes.namespace
        if not namespace or not _handled(attributes) or not self._within(namespace):
            return
        async with self._locks[namespace]:
            for quota, used in self._charges(attributes, self._within(namespace)):
                if self.charge is not None and not attributes.dry_run:
                    await self.charge(namespace, quota["metadata"]["name"], used)

    def _charges(self, attributes: Attributes, quotas: list[Obj]) -> list[tuple[Obj, dict[str, str]]]:
        """The quotas that count the object, and what is used of each with it; 403 where that is too much."""
        obj, old = attributes.obj, attributes.old
        which = attributes.resource.group, attributes.resource.plural
        assert obj is not None
        interested = [
            quota
            for quota in quotas
            if countable(*which, (quota.get("status") or {}).get("hard") or ()) and counts(quota, *which, obj)
        ]
        for quota in interested:
            _refuse_unsaid(attributes, quota)
        now = usage(*which, obj)
        charges = []
        for quota in interested:
            counted = old is not None and counts(quota, *which, old)
            more = grown(now, usage(*which, old) if counted and old is not None else {})
            hard, used = quota["status"].get("hard") or {}, quota["status"].get("used") or {}
            more = {name: amount for name, amount in more.items() if name in hard}
            if not more:
                continue
            then = {name: plus(used.get(name, "0"), amount) for name, amount in more.items()}
            _refuse_excess(attributes, quota, more, then)
            charges.append((quota, {**{name: canonical(amount) for name, amount in used.items()}, **then}))
        return charges


def _handled(attributes: Attributes) -> bool:
    resource, operation = attributes.resource, attributes.operation
    if attributes.obj is None or operation not in ("CREATE", "UPDATE"):
        return False
    if resource.collection == "pods" and operation == "UPDATE":
        old = attributes.old or {"spec": {}}
        deadline = "activeDeadlineSeconds"
        ends_now = (attributes.obj["spec"].get(deadline) is None) != (old["spec"].get(deadline) is None)
        return attributes.subresource == "resize" or (not attributes.subresource and ends_now)
    if attributes.subresource:
        return False
    return operation == "CREATE" or resource.collection in ("services", "persistentvolumeclaims")


def _refuse_unsaid(attributes: Attributes, quota: Obj) -> None:
    hard, used = quota["status"].get("hard") or {}, quota["status"].get("used") or {}
    resource = attributes.resource
    limited, name = countable(resource.group, resource.plural, hard), quota["metadata"]["name"]
    assert attributes.obj is not None
    if resource.collection == "pods" and (text := unsaid(attributes.obj, limited)):
        raise refusal(attributes, f"failed quota: {name}: {text}")
    if any(name not in used for name in limited):
        raise refusal(attributes, f"status unknown for quota: {name}, resources: {','.join(sorted(limited))}")


def _refuse_excess(attributes: Attributes, quota: Obj, more: Amounts, then: Amounts) -> None:
    hard, used = quota["status"].get("hard") or {}, quota["status"].get("used") or {}
    if names := over(then, hard):
        requested, taken, limited = (_listed(amounts, names) for amounts in (more, used, hard))
        text = f"exceeded quota: {quota['metadata']['name']}"
        raise refusal(attributes, f"{text}, requested: {requested}, used: {taken}, limited: {limited}")


def _listed(amounts: Mapping[str, str], names: list[str]) -> str:
    return ",".join(f"{name}={canonical(amounts[name])}" for name in sorted(names) if name in amounts)
