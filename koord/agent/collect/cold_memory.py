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
    sampling = this.cold
    if not this.state.gates[AgentGate.COLD_PAGE_COLLECTOR]:
        sampling.source, sampling.is_asked = None, False
        return
    if not this.is_thorough:
        return
    if not sampling.is_asked:
        from koord.agent.host.cold.sources import source_of

        sampling.source, sampling.is_asked = source_of(this.cgroups), True
        if sampling.source is None:
            log.warning("cold memory is not available: this kernel does not tell hot and cold page cache apart")
    if sampling.source is None:
        return
    places = _places(this)
    try:
        reading = sampling.source.look(set(places.values()), this.now_s)
    except ValueError as error:
        _complain(this, str(error))
        return
    sampling.complaint = ""
    if reading is None:
        return
    for series, directory in places.items():
        if directory in reading.by_directory:
            this.put_slowly(series, reading.by_directory[directory])
    if reading.node is not None:
        this.put(names.NODE_COLD, reading.node)
        _hot(this, reading.node, names.NODE_MEMORY_WITH_CACHE, names.NODE_MEMORY_HOT)
        of_others = sum(reading.by_directory.get(directory, 0) for directory in _others(this))
        of_system = max(reading.node - of_others, 0)
        _hot(this, of_system, names.SYSTEM_MEMORY_WITH_CACHE, names.SYSTEM_MEMORY_HOT)


def _hot(this: Round, cold: float, with_cache: Series, hot: Series) -> None:
    used = this.samples.last(with_cache, this.now_s, OLDEST_S)
    if used is not None:
        this.put(hot, max(used - cold, 0.0))


def _places(this: Round) -> dict[Series, str]:
    directories = {names.pod_cold(uid): pod.directory for uid, pod in this.state.pods.items()}
    for pod in this.state.pods.values():
        directories |= {
            names.container_cold(container.id): container.directory
            for container in pod.containers
            if container.directory
        }
    for app in host_applications(this.state.slo):
        directories[names.host_application_cold(app.name)] = directory_of(app, this.state.driver)
    return directories


def _others(this: Round) -> set[str]:
    """The cgroups whose memory does not count as the system's."""
    applications = host_applications(this.state.slo)
    return {
        *(pod.directory for pod in this.state.pods.values()),
        *(directory_of(app, this.state.driver) for app in applications),
    }


def _complain(this: Round, text: str) -> None:
    if this.cold.complaint != text:
        this.cold.complaint = text
        log.warning("cold memory is not known: %s", text)
