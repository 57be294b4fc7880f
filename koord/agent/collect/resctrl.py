"""What the groups of resctrl hold of the last-level cache, and move to and from memory. Every ten seconds, by gate.

The kernel counts for each group, so a class or pod without one has no figures. Bytes moved are counted from when the
group was made, as Koordinator tells them.
"""

from __future__ import annotations

from koord.agent.collect.round import Round
from koord.agent.host import resctrl
from koord.agent.series import names
from koord.api.configuration.features import AgentGate


def collect(this: Round) -> None:
    if not this.is_thorough or not this.state.gates[AgentGate.RESCTRL_COLLECTOR]:
        return
    for group in resctrl.groups(this.cgroups.files):
        own = group.removeprefix(resctrl.OF_POD)
        if group in resctrl.CLASSES or own in this.state.pods:
            for cache, counter, amount in resctrl.counters(this.cgroups.files, group):
                this.put_slowly(names.resctrl(own, cache, counter), amount)
