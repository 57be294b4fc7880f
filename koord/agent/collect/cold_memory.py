"""Cold memory: page cache that was not used for some minutes, of the node, pods, containers and host applications.

If the kernel cannot measure it, the agent logs that once, and reports usage without page cache instead of with the hot
part of it.
"""

from __future__ import annotations

import logging
from typing import Final

from koord.agent.collect.round import Round
from koord.agent.host_applications import directory_of, host_applications
from koord.agent.series import names
from koord.agent.series.samples import Series
from koord.api.configuration.features import AgentGate

log = logging.getLogger(__name__)

OLDEST_S: Final = 10.0


def collect(this: Round) -> None:
    known = this.cold
    if not this.state.gates[AgentGate.COLD_PAGE_COLLECTOR]:
        known.source, known.is_asked = None, False
        return
    if not this.is_thorough:
        return
    if not known.is_asked:
        from koord.agent.host.cold.sources import source_of

        known.source, known.is_asked = source_of(this.cgroups), True
        if known.source is None:
            log.warning("cold memory is not available: this kernel does not tell hot and cold page cache apart")
    if known.source is None:
        return
    places = _places(this)
    try:
        found = known.source.look(set(places.values()), this.now_s)
    except ValueError as error:
        _complain(this, str(error))
        return
    known.complaint = ""
    if found is None:
        return
    for series, directory in places.items():
        if directory in found.by_directory:
            this.put_slowly(series, found.by_directory[directory])
    if found.node is not None:
        this.put(names.NODE_COLD, found.node)
        _hot(this, found.node, names.NODE_MEMORY_WITH_CACHE, names.NODE_MEMORY_HOT)
        of_others = sum(found.by_directory.get(each, 0) for each in _others(this))
        of_system = max(found.node - of_others, 0)
        _hot(this, of_system, names.SYSTEM_MEMORY_WITH_CACHE, names.SYSTEM_MEMORY_HOT)


def _hot(this: Round, cold: float, with_cache: Series, hot: Series) -> None:
    used = this.samples.last(with_cache, this.now_s, OLDEST_S)
    if used is not None:
        this.put(hot, max(used - cold, 0.0))


def _places(this: Round) -> dict[Series, str]:
    found = {names.pod_cold(uid): pod.directory for uid, pod in this.state.pods.items()}
    for pod in this.state.pods.values():
        found |= {names.container_cold(each.id): each.directory for each in pod.containers if each.directory}
    for app in host_applications(this.state.slo):
        found[names.host_application_cold(app.name)] = directory_of(app, this.state.driver)
    return found


def _others(this: Round) -> set[str]:
    """The cgroups whose memory does not count as the system's."""
    applications = host_applications(this.state.slo)
    return {
        *(pod.directory for pod in this.state.pods.values()),
        *(directory_of(each, this.state.driver) for each in applications),
    }


def _complain(this: Round, text: str) -> None:
    if this.cold.complaint != text:
        this.cold.complaint = text
        log.warning("cold memory is not known: %s", text)
