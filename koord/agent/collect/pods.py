"""Pods and containers: CPU, memory, throttling. A pod that vanishes between two reads has no sample, and no error.

Short files are read first. If a cgroup used no CPU, or its memory is unchanged, its long files would give the same
values again; they are half the cost of a round.
"""

from __future__ import annotations

from typing import Final

from koord.agent.collect.round import Round
from koord.agent.host import usage
from koord.agent.pods import AgentContainer
from koord.agent.series import names
from koord.agent.series.samples import Series

SAME_WITHIN_S: Final = 5.0


def collect(this: Round) -> None:
    for uid, pod in this.state.pods.items():
        try:
            this.cpu(names.pod_cpu(uid), usage.cpu_ns(this.cgroups, pod.directory))
            _memory(this, uid, pod.directory)
        except FileNotFoundError:
            continue
        for container in pod.containers:
            if container.directory:
                _container(this, container)


def _memory(this: Round, uid: str, directory: str) -> None:
    series = names.pod_memory(uid)
    if _is_same(this, names.pod_charged(uid), directory) and not this.is_thorough:
        before = this.samples.last(series, this.now_s, SAME_WITHIN_S)
        if before is not None:
            this.put(series, before)
            return
    memory = usage.memory(this.cgroups, directory)
    this.put(series, memory.without_page_cache)
    if this.is_thorough:
        this.put_slowly(names.pod_page_cache(uid), memory.page_cache)


def _is_same(this: Round, charged: Series, directory: str) -> bool:
    try:
        return this.rates.growth(charged, usage.memory_charged(this.cgroups, directory), this.now_s) == 0
    except FileNotFoundError:
        return False


def _container(this: Round, container: AgentContainer) -> None:
    directory, series = container.directory, names.container_cpu(container.id)
    try:
        if container.limits.get("cpu", 0) > 0:
            used_ns, throttling = usage.cpu_and_throttling(this.cgroups, directory, this.rates.stood(series))
            this.cpu(series, used_ns)
            _throttled(this, container.id, throttling)
        else:
            this.cpu(series, usage.cpu_ns(this.cgroups, directory))
        if this.is_thorough:
            memory = usage.memory(this.cgroups, directory)
            this.put_slowly(names.container_memory(container.id), memory.without_page_cache)
            this.put_slowly(names.container_page_cache(container.id), memory.page_cache)
    except FileNotFoundError:
        return


def _throttled(this: Round, container_id: str, throttling: usage.Throttling | None) -> None:
    """Only who has a limit can be throttled, and who runs. Nobody asks for more than the last of it."""
    series, periods_series = names.container_throttled(container_id), names.container_periods(container_id)
    if throttling is None:
        this.rates.stands(series, this.now_s)
        this.rates.stands(periods_series, this.now_s)
        this.put_slowly(series, 0.0)
        return
    periods = this.rates.growth(periods_series, throttling.periods, this.now_s)
    throttled = this.rates.growth(series, throttling.throttled, this.now_s)
    if periods is not None and throttled is not None:
        this.put_slowly(series, throttled / periods if periods > 0 else 0.0)
