"""The loop that tells every namespace whom to trust: the cluster's CA, in the ConfigMap that pods mount."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from koord.api.kinds import CONFIG_MAPS, NAMESPACES
from koord.api.kubernetes.core import ConfigMap
from koord.kube.cluster_config import ClusterConfig
from koord.kube.controller import Controller, Requeue
from koord.kube.errors import AlreadyExists, ApiError, NotFound
from koord.kube.store import Delta
from koord_minicluster.controllers.live.cluster import Cluster, refused

NAME: Final = "kube-root-ca.crt"
KEY: Final = "ca.crt"
_NOTE: Final = {"kubernetes.io/description": "The certificate authority of this cluster's API server, for pods."}


class RootCaLoop:
    """Keys are names of namespaces."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._data = {KEY: certificates(cluster.client.config)}
        self._namespaces = cluster.view(NAMESPACES)
        self._published = cluster.informers.get(CONFIG_MAPS, fields=f"metadata.name={NAME}")
        self.controller: Controller[str] = Controller("root-ca", self._reconcile)
        self.controller.watch(self._namespaces, lambda delta: (delta.key,))
        self.controller.watch(self._published, _namespace)

    async def _reconcile(self, name: str) -> Requeue | None:
        namespace = self._namespaces.get(name)
        if namespace is None or namespace.metadata.deletion_timestamp is not None or not self._data[KEY]:
            return None
        published = self._published.get(f"{name}/{NAME}")
        if published is not None and dict(published.data) == self._data:
            return None
        client = self._cluster.client
        try:
            if published is None:
                body = {"metadata": {"name": NAME, "annotations": _NOTE}, "data": self._data}
                await client.create(CONFIG_MAPS, body, namespace=name)
            else:
                stale = {key: None for key in published.data if key != KEY}
                await client.patch(CONFIG_MAPS, NAME, {"data": {**stale, **self._data}}, namespace=name, type="merge")
        except ApiError as error:
            if not isinstance(error, AlreadyExists | NotFound) and not refused(error):
                raise
        return None


def certificates(config: ClusterConfig) -> str:
    """The CA that the client itself trusts; empty where it trusts the machine's."""
    data = config.ca_data or (Path(config.ca_file).read_bytes() if config.ca_file else b"")
    return data.decode("ascii", "replace")


def _namespace(delta: Delta[ConfigMap]) -> tuple[str, ...]:
    obj = delta.new or delta.old
    return (obj.metadata.namespace,) if obj is not None else ()
