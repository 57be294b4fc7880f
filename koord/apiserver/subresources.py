"""Subresources with a behaviour of their own: eviction, scale, finalize, log.

Each is a change of an object with rules around it. Status is not here: it is a change like any other, of which only the
status is kept.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgspec

from koord.api.codec import convert
from koord.api.selector import NOTHING, LabelSelector, compile_labels
from koord.apiserver import schemas
from koord.apiserver.bodies import decoding
from koord.apiserver.http import Answer, Request, json_answer
from koord.apiserver.list_options import query_flag
from koord.apiserver.objects import Context, Objects, subresource_attributes
from koord.apiserver.patch import json_patch, managed_fields, merge_patch, scale_fields
from koord.apiserver.registry import Registry
from koord.apiserver.resource import Obj, Resource
from koord.apiserver.status import (
    MODIFIED,
    Cause,
    StatusError,
    bad_request,
    conflict,
    internal_error,
    invalid,
    object_not_found,
    too_many_requests,
    unprocessable,
)
from koord.apiserver.verbs import check_name, context_of

Handler = Callable[[Request, Resource], Awaitable[Answer]]

SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
PDB_RETRY_S = 10
MOST_DISRUPTED = 2000


class Subresources:
    """Handlers by (collection, subresource), for `Verbs`."""

    def __init__(self, objects: Objects, registry: Registry, node_log: Handler) -> None:
        self._objects, self._registry, self._node_log = objects, registry, node_log

    def handlers(self) -> dict[tuple[str, str], Handler]:
        return {
            ("pods", "eviction"): self.evict,
            ("pods", "log"): self._node_log,
            ("namespaces", "finalize"): self.finalize,
            ("*", "scale"): self.scale,
        }

    async def evict(self, request: Request, resource: Resource) -> Answer:
        """POST pods/NAME/eviction: delete a pod if its disruption budget allows it."""
        eviction = await _body(request)
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
        return json_answer(SUCCESS, status=201)

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

    async def finalize(self, request: Request, resource: Resource) -> Answer:
        """PUT namespaces/NAME/finalize: set spec.finalizers; the last one gone, the namespace goes."""
        obj = await _body(request)
        check_name(obj, request.info.name, "")

        def finalized(live: Obj) -> Obj:
            version = (obj.get("metadata") or {}).get("resourceVersion")
            if version and version != live["metadata"]["resourceVersion"]:
                raise conflict("namespaces", "", request.info.name, MODIFIED)
            live["spec"] = {"finalizers": (obj.get("spec") or {}).get("finalizers") or []}
            if not live["spec"]["finalizers"]:
                live["spec"] = {}
            return live

        written = await self._objects.rewrite(resource, "", request.info.name, finalized, context_of(request))
        return json_answer(written.value)

    async def scale(self, request: Request, resource: Resource) -> Answer:
        """get, update and patch of NAME/scale: the number of replicas, for any kind that has one."""
        info = request.info
        entry = self._objects.collection(resource).get(resource.key(info.namespace, info.name))
        if entry is None:
            raise object_not_found(resource.plural, resource.group, info.name)
        if info.verb == "get":
            return json_answer(scale_of(resource, msgspec.json.decode(entry.value)))
        context, body = context_of(request), await request.body()
        written = await self._objects.update(
            resource,
            info.namespace,
            info.name,
            lambda live: self._scaled(request, resource, live, body, context),
            context,
            subresource="scale",
            tracked=True,
        )
        return json_answer(scale_of(resource, msgspec.json.decode(written.value)))

    def _scaled(self, request: Request, resource: Resource, live: Obj, body: bytes, context: Context) -> Obj:
        """The object with the replicas, and the owners of the replicas, that a write to its Scale gives it."""
        info, entries = request.info, live["metadata"].get("managedFields")
        mappings = scale_fields.mappings_of({resource.api_version: _replicas_path(resource)})
        before = scale_of(resource, live)
        before["metadata"]["managedFields"] = scale_fields.to_scale(entries, mappings)
        after = self._scale_after(request, before, body, context)
        check_name(after, info.name, info.namespace)
        replicas = (after.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
            cause = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
            raise unprocessable("Scale", "autoscaling", info.name, [cause])
        version = (after.get("metadata") or {}).get("resourceVersion")
        if version and version != live["metadata"]["resourceVersion"]:
            raise conflict(resource.plural, resource.group, info.name, MODIFIED)
        owners = scale_fields.from_scale(
            entries, after["metadata"].get("managedFields"), resource.api_version, mappings
        )
        live["metadata"]["managedFields"] = owners
        _put_at(live, tuple(_replicas_path(resource).strip(".").split(".")), replicas)
        return live

    def _scale_after(self, request: Request, before: Obj, body: bytes, context: Context) -> Obj:
        content_type = request.content_type.partition(";")[0].strip()
        schema = schemas.schema_for("autoscaling", "v1", "Scale")
        now = self._objects.now()
        if request.info.verb == "patch" and content_type == "application/apply-patch+yaml":
            applied = decoding.decode_any(body, "application/yaml")
            force = query_flag(request.query, "force")
            return managed_fields.apply(
                before,
                applied,
                manager=context.manager,
                force=force,
                schema=schema,
                api_version="autoscaling/v1",
                now=now,
                subresource="scale",
                kind="Scale",
            )
        if request.info.verb == "update":
            after, _ = decoding.decode_kind("autoscaling", "v1", "Scale", body, request.content_type)
        elif content_type == "application/json-patch+json":
            after = json_patch.apply(before, decoding.decode_any(body))
        else:
            after = merge_patch.apply(before, decoding.decode_any(body))
        after.setdefault("metadata", {})
        managed_fields.track(
            before,
            after,
            manager=context.manager,
            operation_api_version="autoscaling/v1",
            schema=schema,
            now=now,
            subresource="scale",
        )
        return after


def scale_of(resource: Resource, obj: Obj) -> Obj:
    """The Scale that an object shows."""
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    spec: Obj = {}
    if replicas := _get_at(obj, _path(resource, "specReplicas", ".spec.replicas")):
        spec["replicas"] = replicas
    status: Obj = {"replicas": _get_at(obj, _path(resource, "statusReplicas", ".status.replicas")) or 0}
    if selector := _selector_text(resource, obj):
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": spec,
        "status": status,
    }


def _selector_text(resource: Resource, obj: Obj) -> str:
    if resource.custom:
        path = resource.scale_paths.get("labelSelector")
        found = _get_at(obj, tuple(path.strip(".").split("."))) if path else ""
        return found if isinstance(found, str) else ""
    selector = obj["spec"].get("selector")
    if selector is None:
        return ""
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        selector = {"matchLabels": selector}
    return str(compile_labels(convert(LabelSelector, selector), absent=NOTHING))


def _replicas_path(resource: Resource) -> str:
    return resource.scale_paths.get("specReplicas", ".spec.replicas")


def _path(resource: Resource, name: str, fallback: str) -> tuple[str, ...]:
    return tuple(resource.scale_paths.get(name, fallback).strip(".").split("."))


def _get_at(obj: Obj, path: tuple[str, ...]) -> Any:
    found: Any = obj
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _put_at(obj: Obj, path: tuple[str, ...], value: object) -> None:
    for part in path[:-1]:
        obj = obj.setdefault(part, {})
    obj[path[-1]] = value


async def _body(request: Request) -> Obj:
    decoded = decoding.decode_any(await request.body(), request.content_type)
    if not isinstance(decoded, dict):
        raise bad_request("the body must be an object")
    return decoded


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


def set_condition(obj: Obj, condition: Obj, now: str) -> None:
    conditions = obj.setdefault("status", {}).setdefault("conditions", [])
    for i, existing in enumerate(conditions):
        if existing.get("type") == condition["type"]:
            same = existing.get("status") == condition["status"]
            time_ = existing.get("lastTransitionTime") if same else now
            conditions[i] = {"lastProbeTime": None, "lastTransitionTime": time_ or now, **condition}
            return
    conditions.append({"lastProbeTime": None, "lastTransitionTime": now, **condition})
