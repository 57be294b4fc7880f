"""pods/NAME/eviction: delete a pod if its disruption budget allows it.

The budget is spent before the pod goes, so that two evictions cannot take the same disruption.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from koord.api.kubernetes.access import MASTERS, UserInfo
from koord.api.machinery.codec import convert
from koord.api.text.selector import NOTHING, LabelSelector, compile_labels
from koord_minicluster.apiserver import deletion
from koord_minicluster.apiserver.bodies import decoding
from koord_minicluster.apiserver.http import Request, created
from koord_minicluster.apiserver.objects import Context, Objects, subresource_attributes
from koord_minicluster.apiserver.registry import Registry
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.status import Cause, StatusError, bad_request, object_not_found, too_many_requests
from koord_minicluster.apiserver.subresources.pod_condition import set_condition
from koord_minicluster.apiserver.verbs import context_of
from koord_minicluster.apiserver.wire.answers import Answer

KIND = ("policy", "v1", "Eviction")
SERVER = UserInfo("system:apiserver", groups=(MASTERS,))
PDB_RETRY_S = 10
MOST_DISRUPTED = 2000
DISRUPTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


class Evictions:
    """The handler."""

    def __init__(self, objects: Objects, registry: Registry) -> None:
        self._objects, self._registry = objects, registry

    async def evict(self, request: Request, resource: Resource) -> Answer:
        info, context = request.info, context_of(request)
        group, version, kind = KIND
        eviction, _ = decoding.decode_kind(group, version, kind, await request.body(), request.content_type)
        if (eviction.get("metadata") or {}).get("name", "") != info.name:
            raise bad_request("name in URL does not match name in Eviction object")
        eviction["metadata"]["namespace"] = info.namespace
        attributes = subresource_attributes(resource, info.subresource, KIND, eviction, context)
        eviction = await self._objects.admission.admit(attributes)
        options = eviction.get("deleteOptions") or {}
        if options.get("dryRun"):
            context = replace(context, dry_run=True)
        entry = self._objects.collection(resource).head(resource.key(info.namespace, info.name))
        if entry is None:
            raise object_not_found("pods", "", info.name)
        pod: Obj = msgspec.json.decode(entry.value)
        if not _ignores_budget(pod):
            await self._spend_budget(pod, context)
        if not context.dry_run:
            options = await self._mark_disrupted(resource, pod, options, context)
        await self._objects.delete(resource, info.namespace, info.name, options, context)
        return created()

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
            text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise StatusError(500, "", text, details=False)
        budget = matching[0]
        if _is_unready(pod) and _unready_may_go(budget):
            return
        if context.dry_run:
            _spent(budget, name, self._objects.now())
            return
        await self._objects.update(
            budgets,
            namespace,
            budget["metadata"]["name"],
            lambda live: _spent(live, name, self._objects.now()),
            Context(SERVER, "kube-apiserver"),
            subresource="status",
        )

    async def _mark_disrupted(self, resource: Resource, pod: Obj, options: Obj, context: Context) -> Obj:
        """Say on the pod why it goes. Gives the options of the delete, which may name the version before that."""
        wanted, meta = options.get("preconditions") or {}, pod["metadata"]

        def marked(live: Obj) -> Obj:
            deletion.check_preconditions(resource, options, live)
            set_condition(live, DISRUPTED, self._objects.now())
            return live

        written = await self._objects.rewrite(resource, meta["namespace"], meta["name"], marked, context)
        if not wanted.get("resourceVersion"):
            return options
        version = msgspec.json.decode(written.value)["metadata"]["resourceVersion"]
        return {**options, "preconditions": {**wanted, "resourceVersion": version}}


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
    allowed, disrupted = status.get("disruptionsAllowed", 0), status.setdefault("disruptedPods", {})
    if allowed < 0:
        raise _forbidden(name, "pdb disruptions allowed is negative")
    if len(disrupted) > MOST_DISRUPTED:
        raise _forbidden(name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller")
    if allowed == 0:
        message = f"The disruption budget {name} {_why_none(status)}"
        raise StatusError(429, "TooManyRequests", violated, causes=[Cause("", "DisruptionBudget", message)])
    status["disruptionsAllowed"] = allowed - 1
    disrupted[pod] = now
    if allowed == 1:
        _say_none_left(budget, now)
    return budget


def _why_none(status: Obj) -> str:
    desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    condition = _allowed_condition(status)
    message, reason = condition.get("message", ""), condition.get("reason", "")
    if message and reason == "SyncFailed":
        return f"does not allow evicting pods currently because it failed sync: {message}"
    if current <= desired:
        return f"needs {desired} healthy pods and has {current} currently"
    said = f" ({reason}): {message}" if message else ""
    return f"does not allow evicting pods currently{said}"


def _allowed_condition(status: Obj) -> Obj:
    """The condition that says why no disruption is allowed, if it does."""
    allowed = (c for c in status.get("conditions") or () if c.get("type") == "DisruptionAllowed")
    condition: Obj = next(allowed, {})
    return condition if condition.get("status") == "False" else {}


def _say_none_left(budget: Obj, now: str) -> None:
    status = budget["status"]
    since = _allowed_condition(status).get("lastTransitionTime", now)
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": budget["metadata"].get("generation", 0),
        "lastTransitionTime": since,
        "reason": "InsufficientPods",
        "message": "",
    }
    others = [c for c in status.get("conditions") or () if c.get("type") != "DisruptionAllowed"]
    status["conditions"] = [*others, condition]


def _forbidden(name: str, detail: str) -> StatusError:
    message = f'poddisruptionbudget.policy "{name}" is forbidden: {detail}'
    return StatusError(403, "Forbidden", message, name=name, group="policy", kind="poddisruptionbudget")
