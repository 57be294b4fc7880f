"""Applications that run beside Kubernetes, in cgroups that the settings name."""

from __future__ import annotations

from koord.agent.collect.round import Round
from koord.agent.host import usage
from koord.agent.host_applications import directory_of, host_applications
from koord.agent.series import names


def collect(this: Round) -> None:
    for application in host_applications(this.state.slo):
        directory = directory_of(application, this.state.driver)
        try:
            this.cpu(names.host_application_cpu(application.name), usage.cpu_ns(this.cgroups, directory))
            memory = usage.memory(this.cgroups, directory)
        except FileNotFoundError:
            continue
        this.put(names.host_application_memory(application.name), memory.without_page_cache)
        this.put(names.host_application_page_cache(application.name), memory.page_cache)
