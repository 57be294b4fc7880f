"""What kubelet would set on the cgroups of QoS classes, pods and containers. Batch amounts are the agent's to set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from koord.agent.host.convert import LEAST_SHARES, UNLIMITED, quota_of_milli, shares_of_milli
from koord.agent.host.knobs import CPU_QUOTA, CPU_SHARES, MEMORY_LIMIT, Knob
from koord.agent.pods import CPU, MEMORY, AgentContainer, AgentPod
from koord.api.kubernetes.cgroup import CgroupDriver, qos_dir
from koord.api.kubernetes.words import KubeQoS

Setting = tuple[Knob, str, int]


def class_settings(pods: Iterable[AgentPod], capacity_cpu_milli: int, driver: CgroupDriver) -> Iterator[Setting]:
    """Burstable pods together weigh what they asked for; best effort weighs next to nothing."""
    burstable = sum(pod.requests.get(CPU, 0) for pod in pods if pod.kube_qos is KubeQoS.BURSTABLE)
    yield CPU_SHARES, qos_dir(KubeQoS.GUARANTEED, driver), shares_of_milli(capacity_cpu_milli)
    yield CPU_SHARES, qos_dir(KubeQoS.BURSTABLE, driver), shares_of_milli(burstable)
    yield CPU_SHARES, qos_dir(KubeQoS.BEST_EFFORT, driver), LEAST_SHARES


def pod_settings(pod: AgentPod, capacity_cpu_milli: int) -> Iterator[Setting]:
    """A limit holds for the pod only where every container has one."""
    yield CPU_SHARES, pod.directory, shares_of_milli(pod.requests.get(CPU, 0))
    all_cpu = all(container.limits.get(CPU, 0) > 0 for container in pod.containers)
    all_memory = all(container.limits.get(MEMORY, 0) > 0 for container in pod.containers)
    yield CPU_QUOTA, pod.directory, _quota(pod.limits, capacity_cpu_milli) if all_cpu else UNLIMITED
    yield MEMORY_LIMIT, pod.directory, pod.limits.get(MEMORY, 0) or UNLIMITED if all_memory else UNLIMITED


def container_settings(container: AgentContainer, directory: str, capacity_cpu_milli: int) -> Iterator[Setting]:
    requested = container.requests.get(CPU, container.limits.get(CPU, 0))
    yield CPU_SHARES, directory, shares_of_milli(requested)
    yield CPU_QUOTA, directory, _quota(container.limits, capacity_cpu_milli)
    yield MEMORY_LIMIT, directory, container.limits.get(MEMORY, 0) or UNLIMITED


def _quota(limits: Mapping[str, int], capacity_cpu_milli: int) -> int:
    """Never more than the node has: the kernel refuses a quota above the parent's."""
    return quota_of_milli(min(limits.get(CPU, 0), capacity_cpu_milli))


def oom_score(pod: AgentPod, container: AgentContainer, capacity_memory_bytes: int) -> int:
    """As kubelet rates a container: the less it asked for of the node, the sooner it goes."""
    if pod.kube_qos is KubeQoS.GUARANTEED:
        return -997
    if pod.kube_qos is KubeQoS.BEST_EFFORT:
        return 1000
    requested = container.requests.get(MEMORY, 0)
    return min(max(1000 - 1000 * requested // max(capacity_memory_bytes, 1), 3), 999)
