"""Pods and containers: CPU, memory, throttling. One that vanishes between two reads has no sample, and no error."""

from __future__ import annotations

from koord.agent.collect.round import Round
from koord.agent.host import usage
from koord.agent.pods import AgentContainer
from koord.agent.series import names


def collect(this: Round) -> None:
    for uid, pod in this.state.pods.items():
        try:
            this.cpu(names.pod_cpu(uid), usage.cpu_ns(this.cgroups, pod.directory))
            this.put(names.pod_memory(uid), usage.memory(this.cgroups, pod.directory).without_page_cache)
        except FileNotFoundError:
            continue
        for container in pod.containers:
            if container.directory:
                _container(this, container)


def _container(this: Round, container: AgentContainer) -> None:
    directory, series = container.directory, names.container_cpu(container.id)
    try:
        if container.limits.get("cpu", 0) > 0:
            used_ns, throttling = usage.cpu_and_throttling(this.cgroups, directory)
            this.cpu(series, used_ns)
            _throttled(this, container.id, throttling)
        else:
            this.cpu(series, usage.cpu_ns(this.cgroups, directory))
        if this.asks_containers_memory:
            memory = usage.memory(this.cgroups, directory)
            this.put(names.container_memory(container.id), memory.without_page_cache)
    except FileNotFoundError:
        return


def _throttled(this: Round, container_id: str, found: usage.Throttling) -> None:
    """Only who has a limit can be throttled."""
    series = names.container_throttled(container_id)
    periods = this.rates.growth(names.container_periods(container_id), found.periods, this.now_s)
    throttled = this.rates.growth(series, found.throttled, this.now_s)
    if periods is not None and throttled is not None:
        this.put(series, throttled / periods if periods > 0 else 0.0)
