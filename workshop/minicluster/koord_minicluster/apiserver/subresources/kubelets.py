"""The ports of nodes, for what the API server passes on to them: logs, and streams."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from koord_minicluster.apiserver.request_info import RequestInfo
from koord_minicluster.apiserver.resource import Obj
from koord_minicluster.apiserver.status import StatusError, bad_request, object_not_found
from koord_minicluster.apiserver.store import Collection

CONNECT_WITHIN_S: Final = 10
MOST_QUOTED: Final = 2000
"""Characters of a node's answer that are shown to the client."""
_REASONS: Final = {400: "BadRequest", 403: "Forbidden", 404: "NotFound", 501: "NotImplemented"}


@dataclass(frozen=True, slots=True)
class NodePort:
    """Where a kubelet listens."""

    host: str
    port: int

    @property
    def authority(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"https://{self.authority}"


@dataclass(frozen=True, slots=True)
class Kubelets:
    """`identity` is how the server shows itself to nodes."""

    pods: Collection
    nodes: Collection
    identity: ssl.SSLContext

    def pod(self, info: RequestInfo) -> Obj:
        """The pod that a request names. Raises StatusError."""
        entry = self.pods.get(f"{info.namespace}/{info.name}")
        if entry is None:
            raise object_not_found("pods", "", info.name)
        pod: Obj = msgspec.json.decode(entry.value)
        return pod

    def port_of(self, node: str) -> NodePort:
        """Raises StatusError."""
        entry = self.nodes.get(node)
        if entry is None:
            # Of "pods", in the real server's words: it looks for the place of the pod.
            raise object_not_found("pods", "", node)
        status: dict[str, Any] = msgspec.json.decode(entry.value).get("status") or {}
        port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
        addresses = {address["type"]: address["address"] for address in status.get("addresses") or ()}
        host = addresses.get("InternalIP") or addresses.get("ExternalIP") or addresses.get("Hostname")
        if not host or not port:
            raise StatusError(500, "InternalError", f'node "{node}" does not say where its kubelet listens')
        return NodePort(host, int(port))


def refused_by_node(status: int, text: str) -> StatusError:
    """A node's answer, for the client."""
    text = text[:MOST_QUOTED].strip()
    return StatusError(status, _REASONS.get(status, "InternalError"), text, details=False)


def container_of(pod: Obj, asked: str) -> str:
    """The container that a request names or means. Raises StatusError."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    main = [container["name"] for container in spec.get("containers") or ()]
    groups = ("initContainers", "containers", "ephemeralContainers")
    names = [container["name"] for group in groups for container in spec.get(group) or ()]
    if asked:
        if asked not in names:
            raise bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    if len(main) == 1:
        return str(main[0])
    annotated = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    if annotated in names:
        return str(annotated)
    listed = " ".join(names)
    raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{listed}]")
