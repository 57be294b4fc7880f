"""namespaces/NAME/finalize: set spec.finalizers; the last one gone, the namespace goes."""

from __future__ import annotations

from koord_minicluster.apiserver.bodies import decoding
from koord_minicluster.apiserver.http import Request, json_answer
from koord_minicluster.apiserver.objects import Objects
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.status import MODIFIED, conflict
from koord_minicluster.apiserver.verbs import check_name, context_of
from koord_minicluster.apiserver.wire.answers import Answer


class NamespaceFinalizers:
    """The handler."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def finalize(self, request: Request, resource: Resource) -> Answer:
        obj, _ = decoding.decode_kind("", "v1", "Namespace", await request.body(), request.content_type)
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
