"""An answer goes into a call, and leaves alone whatever it does not name."""

from __future__ import annotations

from koord.api.machinery.messages import decode, encode
from koord.api.machinery.protobuf import text
from koord.runtime.cri import Container as Listed
from koord.runtime.cri import (
    ContainerConfig,
    ContainerMetadata,
    Device,
    KeyValue,
    LinuxContainerConfig,
    LinuxContainerResources,
    Mount,
    PodSandbox,
    PodSandboxConfig,
    PodSandboxMetadata,
    UpdateContainerResourcesRequest,
)
from koord.runtime.intercept import Answer, put_into_container, put_into_sandbox, put_into_update
from koord.runtime.records import ContainerRecord, Records, SandboxRecord, brought_in_line


def container() -> ContainerConfig:
    return ContainerConfig(
        ContainerMetadata("main"),
        [KeyValue("A", b"1"), KeyValue("B", b"\xff2")],
        [Mount("/data", "/host/data")],
        [Device("/dev/a", "/dev/host-a", "r")],
        {"kept": "yes"},
        LinuxContainerConfig(LinuxContainerResources(cpu_shares=2, cpuset_mems="0", unified={"memory.high": "5"})),
        unknown=text(11, "main.log"),
    )


def test_an_empty_answer_changes_nothing() -> None:
    config = container()
    put_into_container(config, None, Answer())
    assert encode(config) == encode(container())
    pod = PodSandboxConfig(PodSandboxMetadata("web"), {"a": "b"}, unknown=text(2, "host"))
    before = encode(pod)
    put_into_sandbox(pod, Answer())
    assert encode(pod) == before


def test_what_an_answer_names_counts_over_the_call() -> None:
    config = container()
    answer = Answer(
        annotations={"new": "1"},
        resources=LinuxContainerResources(cpu_quota=-1, cpu_shares=512, unified={"cpu.idle": "1"}),
        envs={"A": "other", "C": "3"},
        devices=[Device("/dev/a", "/dev/b", "rw")],
        mounts=[Mount("/lib/x.so", "/usr/x.so", True)],
    )
    put_into_container(config, None, answer)
    container_config = decode(ContainerConfig, encode(config))
    assert {env.key: env.value for env in container_config.envs} == {"A": b"other", "B": b"\xff2", "C": b"3"}
    assert [(device.container_path, device.host_path) for device in container_config.devices] == [("/dev/a", "/dev/b")]
    assert [mount.container_path for mount in container_config.mounts] == ["/data", "/lib/x.so"]
    assert container_config.annotations == {"kept": "yes", "new": "1"}
    assert container_config.linux is not None
    assert container_config.linux.resources == LinuxContainerResources(
        cpu_quota=-1, cpu_shares=512, cpuset_mems="0", unified={"memory.high": "5", "cpu.idle": "1"}
    )
    assert container_config.unknown == text(11, "main.log")


def test_an_update_that_names_nothing_takes_what_the_hook_wants() -> None:
    request = UpdateContainerResourcesRequest("c1")
    put_into_update(request, Answer(resources=LinuxContainerResources(cpu_quota=5)))
    assert request.linux == LinuxContainerResources(cpu_quota=5)


def test_after_a_restart_what_is_listed_is_known_and_the_rest_is_gone() -> None:
    records = Records(
        {"s1": SandboxRecord("s1", "web", cgroup_parent="/kubepods/podx"), "gone": SandboxRecord("gone")},
        {"c1": ContainerRecord("c1", "s1", envs={"A": "1"}), "gone": ContainerRecord("gone", "s1")},
    )
    found = brought_in_line(
        records,
        [PodSandbox("s1"), PodSandbox("s2", PodSandboxMetadata("new", "u2", "ns"), {"a": "b"})],
        [Listed("c1", "s1"), Listed("c2", "s2", ContainerMetadata("side", 1))],
    )
    assert found.sandboxes == {
        "s1": records.sandboxes["s1"],
        "s2": SandboxRecord("s2", "new", "u2", "ns", labels={"a": "b"}),
    }
    assert found.containers == {"c1": records.containers["c1"], "c2": ContainerRecord("c2", "s2", "side", 1)}
