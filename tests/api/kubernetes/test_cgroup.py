from __future__ import annotations

import pytest

from koord.api.kubernetes.cgroup import CgroupDriver, pod_dir, qos_dir
from koord.api.kubernetes.words import KubeQoS

UID = "7712555c-ce62-454a-9e18-9ff0217b8941"
SYSTEMD_UID = "7712555c_ce62_454a_9e18_9ff0217b8941"


@pytest.mark.parametrize(
    ("driver", "qos", "expected"),
    [
        ("systemd", "Guaranteed", f"kubepods.slice/kubepods-pod{SYSTEMD_UID}.slice"),
        (
            "systemd",
            "Burstable",
            f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SYSTEMD_UID}.slice",
        ),
        (
            "systemd",
            "BestEffort",
            f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{SYSTEMD_UID}.slice",
        ),
        ("cgroupfs", "Guaranteed", f"kubepods/pod{UID}"),
        ("cgroupfs", "Burstable", f"kubepods/burstable/pod{UID}"),
        ("cgroupfs", "BestEffort", f"kubepods/besteffort/pod{UID}"),
    ],
)
def test_a_pods_directory_lies_below_its_qos_directory(driver: str, qos: str, expected: str) -> None:
    directory = pod_dir(UID, KubeQoS(qos), CgroupDriver(driver))
    assert directory == expected
    assert directory.startswith(qos_dir(KubeQoS(qos), CgroupDriver(driver)) + "/")
