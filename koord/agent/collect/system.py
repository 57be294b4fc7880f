"""Usage of the system: the node's usage less that of pods and host applications.

Sums of samples of different times would tell nothing: what is older than the round's `expires_s` does not count, and
without a fresh sample of the node there is none of the system.
"""

from __future__ import annotations

from collections.abc import Callable

from koord.agent.collect.round import Round
from koord.agent.host_applications import host_applications
from koord.agent.series import names
from koord.agent.series.samples import Series


def collect(this: Round) -> None:
    _rest(this, names.SYSTEM_CPU, names.NODE_CPU, names.pod_cpu, names.host_application_cpu)
    rest = _rest(this, names.SYSTEM_MEMORY, names.NODE_MEMORY, names.pod_memory, names.host_application_memory)
    if rest is not None and this.is_thorough:
        _with_cache(this, rest)


def _rest(
    this: Round, series: Series, node: Series, pod: Callable[[str], Series], application: Callable[[str], Series]
) -> float | None:
    total = this.samples.last(node, this.now_s, this.expires_s)
    if total is None:
        return None
    rest = max(total - _of_others(this, pod, application), 0.0)
    this.put(series, rest)
    return rest


def _of_others(this: Round, pod: Callable[[str], Series], application: Callable[[str], Series]) -> float:
    applications = host_applications(this.state.slo)
    parts = [*map(pod, this.state.pods), *(application(app.name) for app in applications)]
    values = [this.samples.last(series, this.now_s, this.expires_s) for series in parts]
    return sum(value for value in values if value is not None)


def _with_cache(this: Round, memory: float) -> None:
    """Page cache of pods is looked at now and then, so this is too."""
    used, with_cache = (
        this.samples.last(series, this.now_s, this.expires_s)
        for series in (names.NODE_MEMORY, names.NODE_MEMORY_WITH_CACHE)
    )
    if used is not None and with_cache is not None:
        cache = with_cache - used - _of_others(this, names.pod_page_cache, names.host_application_page_cache)
        this.put(names.SYSTEM_MEMORY_WITH_CACHE, memory + max(cache, 0.0))
