"""Memory of containers that another system runs below best effort. Their CPU counts with the host application."""

from __future__ import annotations

from koord.agent.collect.round import Round
from koord.agent.host import usage
from koord.agent.series import names


def collect(this: Round) -> None:
    for uid, guest in this.state.guests.items():
        try:
            this.put(names.guest_memory(uid), usage.memory(this.cgroups, guest.directory).without_page_cache)
        except FileNotFoundError:
            continue
