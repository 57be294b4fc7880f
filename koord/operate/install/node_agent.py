"""The agent's DaemonSet: its host mounts and its capabilities. Two tables, each line with its reason; a gate that is
off removes its lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from koord.api.configuration.features import AgentGate
from koord.api.protocol.pod_resources import DIRECTORY as POD_RESOURCES_DIR
from koord.operate.install.manifest import Json, made
from koord.operate.install.settings import AGENT, Settings
from koord.operate.install.workloads import common, environment, image, probes, pull_secrets, selector, template

HOST: Final = "/host"
STATE_DIR: Final = "/var/lib/koord/agent"
COPILOT_DIR: Final = "/var/run/yarn-copilot"


@dataclass(frozen=True, slots=True)
class Capability:
    name: str
    why: str
    gates: tuple[AgentGate, ...] = ()
    "Needed only with one of these gates; always if there are none."


_INJECTED: Final = (AgentGate.GPU_ENV_INJECT, AgentGate.RDMA_DEVICE_INJECT)

CAPABILITIES: Final = (
    Capability("DAC_OVERRIDE", "write to cgroups that a container's own user owns, and to oom_score_adj"),
    Capability("KILL", "end the processes of a pod that must go at once, when the node is out of memory"),
    Capability("SYS_PTRACE", "read what tasks of other users wait for"),
    Capability("SYS_NICE", "choose the time slices of tasks of other users"),
    Capability("SYS_RESOURCE", "lower oom_score_adj; open a file for each pod", (AgentGate.OOM_SCORE_ADJ,)),
    Capability(
        "PERFMON",
        "count cycles and see who holds a CPU",
        (AgentGate.CPI_COLLECTOR, AgentGate.SCHED_SWITCH_SAMPLER, AgentGate.INTERFERENCE_DETECTION),
    ),
    Capability("BPF", "let pods use their GPUs and RDMA cards", _INJECTED),
    Capability(
        "NET_ADMIN",
        "attach that rule to a pod's cgroup",
        _INJECTED,
    ),
    Capability("SYS_ADMIN", "change what only the machine's owner may", (AgentGate.SYSTEM_CONFIG,)),
)


@dataclass(frozen=True, slots=True)
class Mount:
    name: str
    host: str
    path: str
    why: str
    read_only: bool = False
    create: bool = False
    gates: tuple[AgentGate, ...] = ()


MOUNTS: Final = (
    Mount("proc", "/proc", f"{HOST}/proc", "measure; write oom_score_adj, and sysctls with the gate SystemConfig"),
    Mount("sys", "/sys", f"{HOST}/sys", "read and write cgroups; read topology"),
    Mount(
        "kubelet", "/var/lib/kubelet", f"{HOST}/var/lib/kubelet", "read which CPUs kubelet gave away", read_only=True
    ),
    Mount("state", STATE_DIR, STATE_DIR, "keep what was there before the first write, and the audit", create=True),
    Mount("copilot", COPILOT_DIR, COPILOT_DIR, "ask YARN's copilot", create=True),
    Mount(
        "pod-resources",
        POD_RESOURCES_DIR,
        POD_RESOURCES_DIR,
        "serve kubelet's pod resources with what the scheduler gave",
        create=True,
        gates=(AgentGate.POD_RESOURCES_PROXY,),
    ),
    Mount(
        "dev",
        "/dev",
        f"{HOST}/dev",
        "find disks and devices",
        read_only=True,
        gates=(AgentGate.BLKIO_RECONCILE, AgentGate.ACCELERATORS, AgentGate.RDMA_DEVICES),
    ),
)


def capabilities(settings: Settings) -> tuple[Capability, ...]:
    return tuple(capability for capability in CAPABILITIES if _called_for(capability.gates, settings))


def mounts(settings: Settings) -> tuple[Mount, ...]:
    return tuple(mount for mount in MOUNTS if _called_for(mount.gates, settings))


def _called_for(gates: tuple[AgentGate, ...], settings: Settings) -> bool:
    return not gates or any(settings.is_on(gate) for gate in gates)


def daemon_set(settings: Settings) -> Json:
    return _daemon_set(settings, [container(settings)], [])


def restoring(settings: Settings) -> Json:
    """The same DaemonSet with pods that restore what agents changed, become ready when done, and wait. They run on all
    nodes at once: a node that does not answer does not delay the others."""
    restore = [AGENT.name, *_host_options(), "restore"]
    first = {**container(settings), "name": "restore", "args": restore, "ports": []}
    then = {**container(settings), "args": [*restore, "--stay"], "ports": []}
    for copy in (first, then):
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            copy.pop(probe, None)
    return _daemon_set(settings, [then], [first], at_once="100%")


def container(settings: Settings) -> Json:
    return {
        "name": AGENT.name,
        **image(settings),
        "args": [AGENT.name, *_host_options(), *common(AGENT, settings)],
        "env": [environment("NODE_NAME", "spec.nodeName"), environment("POD_NAMESPACE", "metadata.namespace")],
        "ports": [{"name": "health", "containerPort": AGENT.port, "hostPort": AGENT.port, "protocol": "TCP"}],
        **probes(AGENT),
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "runAsUser": 0,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": [capability.name for capability in capabilities(settings)]},
        },
        "volumeMounts": [_volume_mount(mount) for mount in mounts(settings)] + [{"name": "tmp", "mountPath": "/tmp"}],
    }


def _host_options() -> list[str]:
    return ["--host-root", HOST, "--state-dir", STATE_DIR]


def _volume_mount(mount: Mount) -> Json:
    volume_mount: Json = {"name": mount.name, "mountPath": mount.path}
    if mount.read_only:
        volume_mount["readOnly"] = True
    if mount.name == "sys":
        # Later mounts of the host below it (resctrl) are visible too.
        volume_mount["mountPropagation"] = "HostToContainer"
    return volume_mount


def _daemon_set(settings: Settings, containers: list[Json], first: list[Json], at_once: str = "10%") -> Json:
    volumes: list[Json] = [
        {"name": mount.name, "hostPath": {"path": mount.host, "type": "DirectoryOrCreate" if mount.create else ""}}
        for mount in mounts(settings)
    ]
    pod: Json = {
        "serviceAccountName": AGENT.full_name,
        "priorityClassName": "system-node-critical",
        "hostNetwork": True,
        "hostPID": True,
        "dnsPolicy": "ClusterFirstWithHostNet",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 10,
        **({"initContainers": first} if first else {}),
        "containers": containers,
        "volumes": [*volumes, {"name": "tmp", "emptyDir": {}}],
        **pull_secrets(settings),
    }
    return made(
        "apps/v1",
        "DaemonSet",
        AGENT.full_name,
        settings.namespace,
        component=AGENT.name,
        spec={
            "selector": selector(AGENT),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": at_once}},
            "template": template(AGENT, settings, pod),
        },
    )
