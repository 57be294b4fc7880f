"""Where kubelet puts a pod in the cgroup tree. It uses Kubernetes' QoS alone, whatever koord's QoS class is.

A pod that has only batch or mid resources asks for no cpu or memory, and hence lies below best effort.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from koord.api.kubernetes.words import KubeQoS


class CgroupDriver(StrEnum):
    SYSTEMD = "systemd"
    CGROUPFS = "cgroupfs"


_TIERS: Final = {KubeQoS.GUARANTEED: "", KubeQoS.BURSTABLE: "burstable", KubeQoS.BEST_EFFORT: "besteffort"}


def qos_dir(qos: KubeQoS, driver: CgroupDriver) -> str:
    """The directory of all pods of a QoS, below a cgroup hierarchy's root."""
    tier = _TIERS[qos]
    if driver is CgroupDriver.SYSTEMD:
        return f"kubepods.slice/kubepods-{tier}.slice" if tier else "kubepods.slice"
    return f"kubepods/{tier}" if tier else "kubepods"


def pod_dir(uid: str, qos: KubeQoS, driver: CgroupDriver) -> str:
    """A pod's directory, which is the parent of its containers' ones."""
    if driver is CgroupDriver.CGROUPFS:
        return f"{qos_dir(qos, driver)}/pod{uid}"
    tier = _TIERS[qos]
    # In a slice's name a dash means one level down.
    return f"{qos_dir(qos, driver)}/kubepods{f'-{tier}' if tier else ''}-pod{uid.replace('-', '_')}.slice"
