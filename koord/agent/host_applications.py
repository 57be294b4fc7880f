"""Where an application that runs beside Kubernetes has its cgroup. The agent looks there, and never makes it."""

from __future__ import annotations

from collections.abc import Sequence

from koord.api.kubernetes.cgroup import CgroupDriver, qos_dir
from koord.api.kubernetes.words import KubeQoS
from koord.api.protocol.crd.node_slo import HostApplicationSpec, NodeSLOSpec
from koord.api.protocol.priority import QoSClass

_BASES = {
    "Kubepods": KubeQoS.GUARANTEED,
    "KubepodsBurstable": KubeQoS.BURSTABLE,
    "KubepodsBesteffort": KubeQoS.BEST_EFFORT,
}


def host_applications(slo: NodeSLOSpec | None) -> Sequence[HostApplicationSpec]:
    return slo.host_applications if slo else ()


def lies_in_best_effort(application: HostApplicationSpec) -> bool:
    """Only an application in best effort is suppressed with best-effort pods, and yields like them."""
    path = application.cgroup_path
    return path is not None and path.base == "KubepodsBesteffort"


def directory_of(application: HostApplicationSpec, driver: CgroupDriver) -> str:
    path = application.cgroup_path
    if path is None:
        parent = "host-best-effort" if application.qos == QoSClass.BE else "host-latency-sensitive"
        return f"{parent}/{application.name}"
    base = qos_dir(_BASES[path.base], driver) if path.base in _BASES else ""
    return "/".join(part.strip("/") for part in (base, path.parent_dir, path.relative_path) if part.strip("/"))
