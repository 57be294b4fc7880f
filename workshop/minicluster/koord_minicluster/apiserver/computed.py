"""Answers about objects that are not stored but worked out when asked for: metrics, statuses of components."""

from __future__ import annotations

import time
from collections.abc import Iterable

from koord_minicluster.apiserver import tables
from koord_minicluster.apiserver.http import Request, json_answer
from koord_minicluster.apiserver.listing import parse_filter
from koord_minicluster.apiserver.negotiation import as_yaml
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.status import object_not_found
from koord_minicluster.apiserver.store import Entry, Index
from koord_minicluster.apiserver.wire.answers import Answer


def answer(request: Request, resource: Resource, items: Iterable[Obj], called: str = "") -> Answer:
    """The one object that was named, or all that were selected, in the form that was asked for.

    Items have no kind of their own. `called`: how the real server calls the resource in a refusal, if otherwise.
    """
    head = {"kind": resource.kind, "apiVersion": resource.api_version}
    if request.info.verb == "get":
        for item in items:
            if item["metadata"]["name"] == request.info.name:
                return _shown(request, resource, [{**head, **item}], whole={**head, **item})
        raise object_not_found(called or resource.plural, resource.group, request.info.name)
    wanted = parse_filter(resource, request.info, request.query)
    kept = [item for item in items if wanted.all or wanted.matches(_as_entry(item))]
    whole = {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": {}, "items": kept}
    return _shown(request, resource, [{**head, **item} for item in kept], whole)


def _shown(request: Request, resource: Resource, objs: list[Obj], whole: Obj) -> Answer:
    form, is_list = request.form, "items" in whole
    if form.shape == "table":
        include = request.query.get("includeObject") or "Metadata"
        whole = tables.table(resource, objs, time.time(), include, form.meta_version, {} if is_list else None)
        whole["metadata"] = {}
    elif form.shape == "partial":
        items = [tables.partial(obj, form.meta_version) for obj in objs]
        api_version = f"meta.k8s.io/{form.meta_version}"
        listed = {"kind": "PartialObjectMetadataList", "apiVersion": api_version, "metadata": {}, "items": items}
        whole = listed if is_list else items[0]
    return json_answer(as_yaml(whole) if form.yaml else whole, content_type=form.content_type)


def _as_entry(item: Obj) -> Entry:
    meta = item["metadata"]
    fields = {"metadata.name": meta["name"], "metadata.namespace": meta.get("namespace", "")}
    return Entry(meta["name"], 0, b"", Index(meta.get("labels") or {}, fields, ""))
