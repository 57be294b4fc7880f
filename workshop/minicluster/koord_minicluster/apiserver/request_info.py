"""What a request asks for, read from its method, path and query alone.

    GET /apis/apps/v1/namespaces/shop/deployments/web/scale
      -> verb get, group apps, version v1, namespace shop, resource deployments, name web, subresource scale

Authorisation, admission and the handlers all speak in these terms: this is the only place that reads a path, so that
what was allowed is what is done. Paths outside /api and /apis are `path` only.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from koord.api.text import formats
from koord.api.text.field_selector import FieldSelectorError, parse_fields
from koord_minicluster.apiserver.list_options import query_flag

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

# A namespace is an object, yet its name stands where a namespace does; these are its subresources.
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


class RequestInfo(msgspec.Struct, frozen=True, gc=False):
    verb: str
    path: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    "Of a list or watch: the one object that it is about. Nothing else may be shown."
    subresource: str = ""

    @property
    def is_resource(self) -> bool:
        return bool(self.resource)


def request_info(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """Never fails: what is not a resource request keeps its path, and the HTTP method in lower case as its verb."""
    # An empty part stays one: `//` in the middle of a path is no name.
    parts = ["", *path[1:].split("/")] if path.startswith("//") else path.strip("/").split("/")
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(method.lower(), path)

    verb = _VERBS.get(method, "")
    if rest[0] == "watch" and len(rest) > 1:
        # The old form of watching, which some clients still use.
        verb, rest = "watch", rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource = rest[0]
    name = rest[1] if len(rest) > 1 else ""
    subresource = "/".join(rest[2:])

    if not name and verb in ("get", "watch"):
        verb = "watch" if verb == "watch" or query_flag(query, "watch") else "list"
        name = _named(query.get("fieldSelector", ""))
    elif not name and verb == "delete":
        verb = "deletecollection"
    return RequestInfo(verb, path, group, version, namespace, resource, name, subresource)


def _named(field_selector: str) -> str:
    """The name that a field selector pins down, if it does only that or more."""
    if "metadata.name" not in field_selector:
        return ""
    try:
        name = parse_fields(field_selector).exact("metadata.name") or ""
    except FieldSelectorError:
        # Refused where it is acted on; until then the request is about all objects.
        return ""
    return "" if formats.path_segment(name) else name
