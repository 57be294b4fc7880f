"""Which methods a path of a resource takes: 404 where the path does not exist, 405 where it does not take the method.

A collection is listed and created in, an object is read and changed, a subresource takes its own verbs. Custom
resources are more lenient, as the real server routes them by hand.
"""

from __future__ import annotations

from typing import Final

from koord.api.text import formats
from koord.api.text.go_format import go_quoted
from koord_minicluster.apiserver.discovery import subresource_verbs
from koord_minicluster.apiserver.request_info import RequestInfo
from koord_minicluster.apiserver.resource import Resource
from koord_minicluster.apiserver.status import StatusError, bad_request, object_not_found

_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_ACROSS_NAMESPACES: Final = ("list", "watch")
_CREATE_ONLY: Final = ("create",)
_READS: Final = ("get", "list", "watch")
_NO_WAY_IN: Final = (
    "hollow nodes have no network; a pod of a local node listens on this machine's own addresses: connect to it there, "
    "or use kubectl port-forward"
)
LEFT_OUT: Final = {
    ("pods", "proxy"): _NO_WAY_IN,
    ("services", "proxy"): _NO_WAY_IN,
    ("nodes", "proxy"): "ask the node itself; its address is in its status",
}
"""What kubectl may ask for and this server does not have, with the reason that it gets."""

_NO_NETWORK: Final = "nothing here routes traffic into pods; their addresses are in the EndpointSlices of a Service"
NOT_SERVED: Final = {
    ("autoscaling", "horizontalpodautoscalers"): "nothing here scales workloads by load; set spec.replicas",
    ("networking.k8s.io", "ingresses"): _NO_NETWORK,
    ("networking.k8s.io", "ingressclasses"): _NO_NETWORK,
    ("networking.k8s.io", "networkpolicies"): _NO_NETWORK,
    ("certificates.k8s.io", "certificatesigningrequests"): "koord makes its certificates itself",
    ("apiregistration.k8s.io", "apiservices"): "add kinds by a CustomResourceDefinition",
}
"""Kinds that manifests often have and this server does not serve, with the way out."""


class Unrouted(StatusError):
    """A path or method that does not exist: nothing more is said of the resource, not even that it is deprecated."""


class NoPage(Exception):
    """A path that nothing serves. Definitions come and go, so the real server says no more of theirs."""


def check_route(resource: Resource, info: RequestInfo, method: str) -> None:
    """Raises unless the path exists and takes the method, and its name could be one."""
    collection = not info.name or info.verb in _ACROSS_NAMESPACES
    # The path of a namespace names itself as the namespace.
    misplaced = bool(info.namespace) != resource.namespaced and resource.collection != "namespaces"
    if info.subresource:
        _check_subresource(resource, info, method, misplaced)
    elif misplaced and (info.namespace or not collection or resource.verbs == _CREATE_ONLY):
        raise NoPage if resource.custom else no_such_path()
    elif misplaced and info.verb not in _ACROSS_NAMESPACES:
        raise no_such_path() if resource.custom else not_allowed()
    elif not resource.custom and not collection and resource.verbs == _CREATE_ONLY:
        raise no_such_path()
    elif not resource.custom and (method not in _METHODS or info.verb in _wrong_verbs(collection)):
        raise not_allowed()
    if info.verb in _READS and method not in ("GET", "HEAD"):
        # The old paths of watches say the verb themselves, whatever the method is.
        raise not_allowed()
    if not info.subresource and info.verb not in resource.verbs:
        if info.verb == "watch" and "list" in resource.verbs:
            text = f'watch is not supported on resources of kind "{resource.plural}"'
            raise StatusError(405, "MethodNotAllowed", text, kind=resource.plural)
        raise not_allowed()
    if info.namespace in (".", ".."):
        raise StatusError(500, "", f'invalid key: "/{resource.plural}/{info.namespace}"', details=False)
    if not collection and (texts := formats.path_segment(info.name)):
        raise bad_request(f"Name parameter invalid: {go_quoted(info.name)}: {';'.join(texts)}")


def _wrong_verbs(collection: bool) -> tuple[str, ...]:
    return ("update", "patch") if collection else ("create",)


def _check_subresource(resource: Resource, info: RequestInfo, method: str, misplaced: bool) -> None:
    first = info.subresource.partition("/")[0]
    why = "" if resource.custom else LEFT_OUT.get((resource.collection, first), "")
    if why:
        raise not_implemented(f"{resource.plural}/{first}", why)
    if resource.custom and info.subresource not in resource.subresources:
        raise object_not_found(resource.plural, resource.group, info.name)
    if misplaced or info.subresource not in resource.subresources:
        raise no_such_path()
    if info.verb not in subresource_verbs(info.subresource) or method not in _METHODS:
        raise not_allowed()


def no_such_path() -> StatusError:
    return Unrouted(404, "NotFound", "the server could not find the requested resource")


def not_served(group: str, plural: str) -> StatusError | None:
    """The error for a kind that other clusters serve and this server does not; None for any other kind."""
    why = NOT_SERVED.get((group, plural))
    if why is None:
        return None
    text = f"koord's API server does not serve {plural}.{group}: {why}, or use another cluster for this object"
    return Unrouted(404, "NotFound", text, group=group, kind=plural)


def not_allowed() -> StatusError:
    return Unrouted(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def not_implemented(what: str, why: str) -> StatusError:
    return StatusError(501, "NotImplemented", f"{what} is left out of koord's API server: {why}")
