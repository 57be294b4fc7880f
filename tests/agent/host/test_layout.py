"""Directories of pods and containers, both ways."""

import pytest

from koord.agent.host.layout import ContainerIdError, Owner, container_dir, owner_of, pod_dir
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS

SYSTEMD, CGROUPFS = CgroupDriver.SYSTEMD, CgroupDriver.CGROUPFS
SLICE = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod9c1e_77.slice"


def test_a_burstable_pod_of_containerd() -> None:
    systemd = pod_dir("9c1e-77", KubeQoS.BURSTABLE, SYSTEMD)
    assert container_dir(systemd, "containerd://ab12", SYSTEMD) == f"{SLICE}/cri-containerd-ab12.scope"
    cgroupfs = pod_dir("9c1e-77", KubeQoS.BURSTABLE, CGROUPFS)
    assert container_dir(cgroupfs, "containerd://ab12", CGROUPFS) == "kubepods/burstable/pod9c1e-77/ab12"


@pytest.mark.parametrize(
    ("runtime", "scope"),
    [("docker", "docker-x"), ("cri-o", "crio-x"), ("pouch", "pouch-x"), ("containerd", "cri-containerd-x")],
)
def test_each_runtime_has_its_scope_and_is_recognised(runtime: str, scope: str) -> None:
    directory = container_dir(SLICE, f"{runtime}://x", SYSTEMD)
    assert directory == f"{SLICE}/{scope}.scope"
    assert owner_of(directory, SYSTEMD) == Owner(KubeQoS.BURSTABLE, "9c1e_77", "x")


@pytest.mark.parametrize("id", ["", "ab12", "rkt://ab12", "containerd://", "://ab12"])
def test_other_container_ids_are_refused(id: str) -> None:
    with pytest.raises(ContainerIdError, match="RUNTIME://ID"):
        container_dir("kubepods/podx", id, CGROUPFS)


@pytest.mark.parametrize("qos", list(KubeQoS))
@pytest.mark.parametrize("driver", list(CgroupDriver))
def test_a_pods_directory_leads_back_to_it(qos: KubeQoS, driver: CgroupDriver) -> None:
    uid = "0a1b-2c3d"
    owner = owner_of(pod_dir(uid, qos, driver), driver)
    assert owner == Owner(qos, uid if driver is CGROUPFS else "0a1b_2c3d")


@pytest.mark.parametrize(
    ("directory", "driver"),
    [
        ("kubepods/besteffort/hadoop-yarn", CGROUPFS),
        ("kubepods/besteffort", CGROUPFS),
        ("kubepods", CGROUPFS),
        ("system.slice/kubelet.service", SYSTEMD),
        (f"{SLICE}/other-ab12.scope", SYSTEMD),
        (f"{SLICE}/cri-containerd-ab12.scope/below", SYSTEMD),
        ("kubepods.slice/kubepods-podx.scope", SYSTEMD),
        ("kubepods/podx/c/below", CGROUPFS),
    ],
)
def test_somebody_elses_directory_belongs_to_no_pod(directory: str, driver: CgroupDriver) -> None:
    assert owner_of(directory, driver) is None
