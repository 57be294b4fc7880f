"""Bindings: give a pod its node, once. POST pods/NAME/binding, or the older POST bindings, which names the pod inside.

A binding is not stored: it is a change of its pod, refused where the pod is bound, gated or going.
"""

from __future__ import annotations

from typing import Any

from koord_minicluster.apiserver.bodies import decoding
from koord_minicluster.apiserver.http import Request, created
from koord_minicluster.apiserver.objects import Objects, subresource_attributes
from koord_minicluster.apiserver.registry import Registry
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.status import Cause, StatusError, bad_request, conflict, not_supported, required
from koord_minicluster.apiserver.subresources.pod_condition import set_condition
from koord_minicluster.apiserver.verbs import context_of
from koord_minicluster.apiserver.wire.answers import Answer


class Bindings:
    """The handlers of both forms."""

    def __init__(self, objects: Objects, registry: Registry) -> None:
        self._objects, self._registry = objects, registry

    async def bind(self, request: Request, pods: Resource) -> Answer:
        binding = await _binding(request)
        if binding["metadata"].get("name", "") != request.info.name:
            raise bad_request("name in URL does not match name in Binding object")
        return await self._bound(request, pods, await self._admitted(request, pods, binding))

    async def bind_named(self, request: Request, bindings: Resource) -> Answer:
        binding = await _binding(request)
        if not binding["metadata"].get("name"):
            raise bad_request("Name parameter required.")
        pods = self._registry.find("", "v1", "pods")
        assert pods is not None
        return await self._bound(request, pods, await self._admitted(request, bindings, binding))

    async def _admitted(self, request: Request, resource: Resource, binding: Obj) -> Obj:
        context, kind = context_of(request), ("", "v1", "Binding")
        attributes = subresource_attributes(resource, request.info.subresource, kind, binding, context)
        return await self._objects.admission.admit(attributes)

    async def _bound(self, request: Request, pods: Resource, binding: Obj) -> Answer:
        target, wanted = binding.get("target") or {}, binding["metadata"]
        faults = _faults(target)
        if faults:
            # No 422: the real server does not take these for faults of an object.
            said = str(faults[0]) if len(faults) == 1 else "[" + ", ".join(map(str, faults)) + "]"
            raise StatusError(500, "", said, details=False)

        def bound(pod: Obj) -> Obj:
            _check(pod, wanted)
            pod["spec"]["nodeName"] = target["name"]
            meta = pod["metadata"]
            for key in ("annotations", "labels"):
                if wanted.get(key):
                    meta[key] = {**(meta.get(key) or {}), **wanted[key]}
            set_condition(pod, {"type": "PodScheduled", "status": "True"}, self._objects.now())
            return pod

        await self._objects.rewrite(pods, request.info.namespace, wanted["name"], bound, context_of(request))
        return created()


async def _binding(request: Request) -> Obj:
    binding, _ = decoding.decode_kind("", "v1", "Binding", await request.body(), request.content_type)
    meta: dict[str, Any] = binding.setdefault("metadata", {})
    if meta.setdefault("namespace", request.info.namespace) != request.info.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    return binding


def _faults(target: Obj) -> list[Cause]:
    faults = []
    if target.get("kind", "") not in ("", "Node"):
        faults.append(not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        faults.append(required("target.name"))
    return faults


def _check(pod: Obj, wanted: Obj) -> None:
    """Raises where the pod is not the one that is meant, or cannot be bound."""
    meta, spec, name = pod["metadata"], pod["spec"], pod["metadata"]["name"]
    for key, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(key) and wanted[key] != meta[key]:
            said = f"Precondition failed: {label} in precondition: {wanted[key]}, {label} in object meta: {meta[key]}"
            where = f"/registry/pods/{meta['namespace']}/{name}"
            detail = f"StorageError: invalid object, Code: 4, Key: {where}, ResourceVersion: 0, AdditionalErrorMsg: "
            raise conflict("pods", "", name, detail + said)
    if meta.get("deletionTimestamp"):
        raise conflict("pods/binding", "", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise conflict("pods/binding", "", name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise conflict("pods/binding", "", name, f"pod {name} has non-empty .spec.schedulingGates")
