"""Where pods and containers lie in the cgroup tree, and whose directory one is.

Kubelet names the directories of QoS classes and pods (`kubernetes.cgroup`), the container runtime those of containers.
A name that no rule explains is a foreign directory and None, never an error: a tree has guests.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from koord.agent.host.cgroups import Cgroups
from koord.api.kubernetes.cgroup import CgroupDriver, pod_dir, qos_dir
from koord.api.kubernetes.words import KubeQoS

_SCOPES: Final = {"docker": "docker", "containerd": "cri-containerd", "cri-o": "crio", "pouch": "pouch"}
"""Runtime, as a container's status names it, and how systemd's unit begins."""

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
"""Not more than that: it becomes a part of a path."""
_POD_SLICE: Final = re.compile(r"kubepods(?:-burstable|-besteffort)?-pod(?P<uid>[^/]+)\.slice")
_SCOPE: Final = re.compile(r"(?:docker|cri-containerd|crio|pouch)-(?P<id>[^/]+)\.scope")


class ContainerIdError(ValueError):
    """A container id that no known runtime gives."""


class Container(NamedTuple):
    runtime: str
    id: str


class Owner(NamedTuple):
    """The owner of a directory. Systemd cannot write the dashes of a uid: they appear as underscores."""

    qos: KubeQoS
    pod: str
    container: str = ""


def container_of(container_id: str) -> Container:
    """`containerd://ab12` of a pod's status."""
    runtime, separator, name = container_id.partition("://")
    if not separator or not _ID.fullmatch(name) or runtime not in _SCOPES:
        raise ContainerIdError(
            f"{container_id!r} is no container id: valid is RUNTIME://ID with RUNTIME one of {', '.join(_SCOPES)}"
            " and ID of letters, digits, '-', '_' and '.'"
        )
    return Container(runtime, name)


def container_dir(pod: str, container_id: str, driver: CgroupDriver) -> str:
    """A container's directory in its pod's."""
    runtime, name = container_of(container_id)
    return f"{pod}/{_SCOPES[runtime]}-{name}.scope" if driver is CgroupDriver.SYSTEMD else f"{pod}/{name}"


def owner_of(directory: str, driver: CgroupDriver) -> Owner | None:
    """The pod or container whose directory this is."""
    for qos in (KubeQoS.BURSTABLE, KubeQoS.BEST_EFFORT, KubeQoS.GUARANTEED):
        above = qos_dir(qos, driver) + "/"
        if not directory.startswith(above):
            continue
        pod, _, container = directory[len(above) :].partition("/")
        if driver is CgroupDriver.SYSTEMD:
            return _owner_in_slices(qos, pod, container)
        if not pod.startswith("pod") or pod == "pod" or "/" in container:
            return None
        return Owner(qos, pod.removeprefix("pod"), container)
    return None


def _owner_in_slices(qos: KubeQoS, pod: str, container: str) -> Owner | None:
    named = _POD_SLICE.fullmatch(pod)
    if named is None:
        return None
    if not container:
        return Owner(qos, named["uid"])
    scope = _SCOPE.fullmatch(container)
    return Owner(qos, named["uid"], scope["id"]) if scope else None


def sandbox_dir(cgroups: Cgroups, pod: str, containers: Collection[str]) -> str | None:
    """The directory of a pod's sandbox: the one child that is no container's. `containers` are directories."""
    others = [name for name in cgroups.children(pod, "cpuset") if f"{pod}/{name}" not in containers]
    return f"{pod}/{others[0]}" if len(others) == 1 else None


def driver_of(cgroups: Cgroups) -> CgroupDriver | None:
    """By the directory of all pods, if kubelet has made it."""
    drivers = [driver for driver in CgroupDriver if qos_dir(KubeQoS.GUARANTEED, driver) in cgroups.children("")]
    return drivers[0] if len(drivers) == 1 else None


def pods_in(cgroups: Cgroups, driver: CgroupDriver) -> Iterable[tuple[str, Owner]]:
    """Directories of pods that exist, with what their names say."""
    for qos in KubeQoS:
        above = qos_dir(qos, driver)
        for name in cgroups.children(above):
            owner = owner_of(f"{above}/{name}", driver)
            if owner is not None:
                yield f"{above}/{name}", owner


__all__ = [
    "Container",
    "ContainerIdError",
    "Owner",
    "container_dir",
    "container_of",
    "driver_of",
    "owner_of",
    "pod_dir",
    "pods_in",
    "qos_dir",
    "sandbox_dir",
]
