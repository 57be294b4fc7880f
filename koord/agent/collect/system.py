"""What nobody accounts for: the node's usage less that of pods and host applications.

Sums of samples of different times would tell nothing: what is older than the round's `expires_s` does not count, and
without a fresh sample of the node there is none of the system.
"""

from __future__ import annotations

from collections.abc import Callable

from koord.agent.collect.round import Round
from koord.agent.series import names
from koord.agent.series.samples import Series


def collect(this: Round) -> None:
    _rest(this, names.SYSTEM_CPU, names.NODE_CPU, names.pod_cpu, names.host_application_cpu)
    _rest(this, names.SYSTEM_MEMORY, names.NODE_MEMORY, names.pod_memory, names.host_application_memory)


def _rest(
    this: Round, series: Series, node: Series, pod: Callable[[str], Series], application: Callable[[str], Series]
) -> None:
    total = this.samples.last(node, this.now_s, this.expires_s)
    if total is None:
        return
    applications = this.state.slo.host_applications if this.state.slo else ()
    parts = [*map(pod, this.state.pods), *(application(each.name) for each in applications)]
    known = [this.samples.last(each, this.now_s, this.expires_s) for each in parts]
    this.put(series, max(total - sum(value for value in known if value is not None), 0.0))
