"""Best effort as a whole: what it uses, what it asked for, and what it may really use."""

from __future__ import annotations

from koord.agent.collect.round import Round
from koord.agent.guests import requested_milli
from koord.agent.host import usage
from koord.agent.host.convert import PERIOD_US
from koord.agent.host.knobs import CPUSET_CPUS
from koord.agent.pods import BATCH_CPU
from koord.agent.series import names
from koord.api.kubernetes.cgroup import qos_dir
from koord.api.kubernetes.words import KubeQoS
from koord.api.protocol.priority import QoSClass
from koord.api.text.cpuset import CPUSet


def collect(this: Round) -> None:
    directory = qos_dir(KubeQoS.BEST_EFFORT, this.state.driver)
    try:
        this.cpu(names.BE_CPU, usage.cpu_ns(this.cgroups, directory))
        this.put(names.BE_CPU_LIMIT, real_limit_milli(this, directory))
        if this.is_thorough:
            this.cpu_slowly(names.BE_THROTTLED, usage.throttling(this.cgroups, directory).throttled_ns)
    except FileNotFoundError:
        return
    pods = [pod for pod in this.state.pods.values() if pod.labelled_qos is QoSClass.BE and pod.is_active]
    this.put(
        names.BE_CPU_REQUEST, sum(pod.requests.get(BATCH_CPU, 0) for pod in pods) + requested_milli(this.state.guests)
    )


def real_limit_milli(this: Round, directory: str) -> int:
    """The smallest CPU set of all, or the quota; never more than the node has."""
    containers = [
        container.directory
        for pod in this.state.pods.values()
        if pod.kube_qos is KubeQoS.BEST_EFFORT
        for container in pod.containers
        if container.directory
    ]
    smallest = this.state.cpus
    for group in (directory, *containers):
        try:
            cpus = this.cgroups.get(CPUSET_CPUS, group)
        except FileNotFoundError:
            continue
        if isinstance(cpus, CPUSet) and cpus:
            smallest = min(smallest, len(cpus))
    quota = usage.cpu_quota_us(this.cgroups, directory)
    limit = min(smallest * 1000, this.state.capacity_cpu_milli)
    return min(limit, quota * 1000 // PERIOD_US) if quota > 0 else limit
