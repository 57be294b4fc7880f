"""The node as a whole. Where a cgroup is the node, that cgroup."""

from __future__ import annotations

from koord.agent.collect.round import Round
from koord.agent.host import proc, usage
from koord.agent.series import names


def collect(this: Round) -> None:
    if this.cgroups.root:
        memory = usage.memory(this.cgroups, "")
        this.cpu(names.NODE_CPU, usage.cpu_ns(this.cgroups, ""))
        this.put(names.NODE_MEMORY, memory.without_page_cache)
        this.put(names.NODE_MEMORY_WITH_CACHE, memory.with_page_cache)
        return
    ticks_ns = int(proc.busy_ticks(this.cgroups.files) * proc.JIFFY_S * 1e9)
    this.cpu(names.NODE_CPU, ticks_ns)
    memory_of_host = proc.memory(this.cgroups.files)
    this.put(names.NODE_MEMORY, memory_of_host.used)
    this.put(names.NODE_MEMORY_WITH_CACHE, memory_of_host.total - memory_of_host.free)
    if len(this.state.topology.nodes) > 1:
        _by_numa_node(this)


def _by_numa_node(this: Round) -> None:
    ticks = proc.busy_ticks_by_cpu(this.cgroups.files)
    for node, cpus in this.state.topology.nodes.items():
        busy = sum(ticks.get(cpu, 0) for cpu in cpus)
        this.cpu(names.numa_cpu(node), int(busy * proc.JIFFY_S * 1e9))
        this.put(names.numa_memory(node), proc.memory_of_numa_node(this.cgroups.files, node).used)
