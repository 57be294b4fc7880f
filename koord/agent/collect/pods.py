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
    try:
        this.cpu(names.container_cpu(container.id), usage.cpu_ns(this.cgroups, container.directory))
        memory = usage.memory(this.cgroups, container.directory)
        this.put(names.container_memory(container.id), memory.without_page_cache)
        if container.limits.get("cpu", 0) > 0:
            _throttled(this, container)
    except FileNotFoundError:
        return


def _throttled(this: Round, container: AgentContainer) -> None:
    """Only who has a limit can be throttled."""
    found = usage.throttling(this.cgroups, container.directory)
    series = names.container_throttled(container.id)
    periods = this.rates.growth(series._replace(kind="container_periods"), found.periods, this.now_s)
    throttled = this.rates.growth(series, found.throttled, this.now_s)
    if periods is not None and throttled is not None:
        this.put(series, throttled / periods if periods > 0 else 0.0)
