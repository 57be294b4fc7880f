"""pods/NAME/eviction: delete a pod if its disruption budget allows it.

The budget is spent before the pod goes, so that two evictions cannot take the same disruption.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from koord.api.codec import convert
from koord.api.selector import NOTHING, LabelSelector, compile_labels
from koord.apiserver.http import Answer, Request, json_answer
from koord.apiserver.objects import Context, Objects, subresource_attributes
from koord.apiserver.registry import Registry
from koord.apiserver.resource import Obj, Resource
from koord.apiserver.status import Cause, StatusError, internal_error, object_not_found, too_many_requests
from koord.apiserver.subresources.pod_condition import set_condition
from koord.apiserver.subresources.posted import CREATED, object_in
from koord.apiserver.verbs import check_name, context_of

PDB_RETRY_S = 10
MOST_DISRUPTED = 2000


class Evictions:
    """The handler."""

    def __init__(self, objects: Objects, registry: Registry) -> None:
        self._objects, self._registry = objects, registry

    async def evict(self, request: Request, resource: Resource) -> Answer:
        """POST pods/NAME/eviction: delete a pod if its disruption budget allows it."""
        eviction = await object_in(request)
        info, context = request.info, context_of(request)
        check_name(eviction, info.name, info.namespace)
        kind = ("policy", "v1", "Eviction")
        attributes = subresource_attributes(resource, info.subresource, kind, eviction, context)
        eviction = await self._objects.admission.admit(attributes)
        options = eviction.get("deleteOptions") or {}
        if options.get("dryRun"):
            context = replace(context, dry_run=True)
        pods = self._objects.collection(resource)
        entry = pods.head(resource.key(info.namespace, info.name))
        if entry is None:
            raise object_not_found("pods", "", info.name)
        pod: Obj = msgspec.json.decode(entry.value)
        if not _ignores_budget(pod):
            await self._spend_budget(pod, context)
            if not context.dry_run:
                await self._mark_disrupted(resource, pod, context)
        await self._objects.delete(resource, info.namespace, info.name, options, context)
        return json_answer(CREATED, status=201)

    async def _spend_budget(self, pod: Obj, context: Context) -> None:
        """Take one disruption from the pod's budget, or refuse."""
        budgets = self._registry.find("policy", "v1", "poddisruptionbudgets")
        if budgets is None:
            return
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        labels = pod["metadata"].get("labels") or {}
        matching = []
        for entry in self._objects.collection(budgets).entries(f"{namespace}/"):
            budget: Obj = msgspec.json.decode(entry.value)
            selector = budget["spec"].get("selector")
            matcher = compile_labels(convert(LabelSelector, selector) if selector is not None else None, absent=NOTHING)
            if matcher.matches(labels):
                matching.append(budget)
        if not matching:
            return
        if len(matching) > 1:
            raise internal_error(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            )
        budget = matching[0]
        if _is_unready(pod) and _unready_may_go(budget):
            return
        if context.dry_run:
            _spent(budget, name, self._objects.now())
            return
        await self._objects.rewrite(
            budgets,
            namespace,
            budget["metadata"]["name"],
            lambda live: _spent(live, name, self._objects.now()),
            context,
        )

    async def _mark_disrupted(self, resource: Resource, pod: Obj, context: Context) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }

        def marked(live: Obj) -> Obj:
            set_condition(live, condition, self._objects.now())
            return live

        meta = pod["metadata"]
        await self._objects.rewrite(resource, meta["namespace"], meta["name"], marked, context)


def _ignores_budget(pod: Obj) -> bool:
    """A pod that does not serve disrupts nothing."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def _is_unready(pod: Obj) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return not any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _unready_may_go(budget: Obj) -> bool:
    status = budget.get("status") or {}
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    return bool(current >= desired > 0)


def _spent(budget: Obj, pod: str, now: str) -> Obj:
    """The budget with one disruption taken, or the refusal."""
    name, status = budget["metadata"]["name"], budget.setdefault("status", {})
    violated = "Cannot evict pod as it would violate the pod's disruption budget."
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        message = f"The disruption budget {name} is still being processed by the server."
        raise too_many_requests(violated, PDB_RETRY_S, [Cause("", "DisruptionBudget", message)])
    allowed = status.get("disruptionsAllowed", 0)
    if allowed <= 0:
        desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        message = f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
        raise StatusError(429, "TooManyRequests", violated, causes=[Cause("", "DisruptionBudget", message)])
    disrupted = status.setdefault("disruptedPods", {})
    if len(disrupted) > MOST_DISRUPTED:
        raise StatusError(
            403, "Forbidden", "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        )
    status["disruptionsAllowed"] = allowed - 1
    disrupted[pod] = now
    return budget
