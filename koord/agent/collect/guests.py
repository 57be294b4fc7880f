"""Containers that another system runs below best effort: memory, and CPU now and then. For all that is decided by the
second, their CPU counts with the host application."""

from __future__ import annotations

from koord.agent.collect.round import Round
from koord.agent.host import usage
from koord.agent.series import names


def collect(this: Round) -> None:
    for uid, guest in this.state.guests.items():
        try:
            if this.is_thorough:
                this.cpu_slowly(names.guest_cpu(uid), usage.cpu_ns(this.cgroups, guest.directory))
            this.put(names.guest_memory(uid), usage.memory(this.cgroups, guest.directory).without_page_cache)
        except FileNotFoundError:
            continue
