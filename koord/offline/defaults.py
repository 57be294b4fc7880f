"""What the API server would have filled in, as far as it decides where pods go: manifests are as people write them.

| left out | filled in |
| --- | --- |
| a container's request | its limit |
| a request of the pod as a whole | its limit, where no container asks for that resource |
| the host port, on the host's network | the container's port |
| a node's allocatable | its capacity |
| a claim's storage class | the default one |
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Container, PodSpec, ResourceRequirements
from koord.api.kubernetes.storage import PersistentVolumeClaim, StorageClass
from koord.scheduler.state.storage import OLD_CLASS_ANNOTATION

DEFAULT_CLASS_ANNOTATIONS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def pod_spec(spec: PodSpec) -> PodSpec:
    """The same object where nothing is left out."""
    containers, init_containers = (
        tuple([_container(each, spec.host_network) for each in part])
        for part in (spec.containers, spec.init_containers)
    )
    resources = spec.resources and _of_whole_pod(spec.resources, (*containers, *init_containers))
    if (containers, init_containers, resources) == (spec.containers, spec.init_containers, spec.resources):
        return spec
    return replace(spec, containers=containers, init_containers=init_containers, resources=resources)


def _container(container: Container, on_host_network: bool) -> Container:
    resources = container.resources
    if not resources.limits.keys() <= resources.requests.keys():
        requests = {**resources.limits, **resources.requests}
        container = replace(container, resources=replace(resources, requests=requests))
    if on_host_network and any(not port.host_port for port in container.ports):
        ports = [replace(port, host_port=port.host_port or port.container_port) for port in container.ports]
        container = replace(container, ports=tuple(ports))
    return container


def _of_whole_pod(resources: ResourceRequirements, containers: tuple[Container, ...]) -> ResourceRequirements:
    asked = {name for container in containers for name in container.resources.requests}
    missing = {name: amount for name, amount in resources.limits.items() if name not in asked}
    if missing.keys() <= resources.requests.keys():
        return resources
    return replace(resources, requests={**missing, **resources.requests})


def node(given: Node) -> Node:
    if given.status.allocatable or not given.status.capacity:
        return given
    return replace(given, status=replace(given.status, allocatable=given.status.capacity))


def is_default(given: StorageClass) -> bool:
    return any(given.metadata.annotations.get(key) == "true" for key in DEFAULT_CLASS_ANNOTATIONS)


def claim(given: PersistentVolumeClaim, classes: list[StorageClass]) -> PersistentVolumeClaim:
    """A claim with its class; of several default ones, the newest, and of these the first by name."""
    named = given.spec.storage_class_name is not None or OLD_CLASS_ANNOTATION in given.metadata.annotations
    if named or given.spec.volume_name or not classes:
        return given
    newest = max(each.metadata.creation_timestamp or "" for each in classes)
    chosen = min(each.metadata.name for each in classes if (each.metadata.creation_timestamp or "") == newest)
    return replace(given, spec=replace(given.spec, storage_class_name=chosen))
