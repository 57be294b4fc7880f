"""Machines for tests: sockets x NUMA nodes per socket x cores per NUMA node x threads per core."""

from koord.api.protocol.annotations.cpu import CPUInfo
from koord.api.text.cpuset import CPUSet
from koord.scheduler.plugins.numa.topology import Topology, topology_of


def details(shape: str, *, siblings_apart: bool = False) -> tuple[CPUInfo, ...]:
    """CPUs are numbered core by core, or with `siblings_apart` all first threads before all second ones."""
    sockets, nodes, cores, threads = (int(each) for each in shape.split("x"))
    total = sockets * nodes * cores
    found = []
    for core in range(total):
        node = core // cores
        for thread in range(threads):
            id_ = core + thread * total if siblings_apart else core * threads + thread
            found.append(CPUInfo(id=id_, core=core % (nodes * cores), socket=node // nodes, node=node))
    return tuple(found)


def machine(shape: str, *, siblings_apart: bool = False) -> Topology:
    found = topology_of(details(shape, siblings_apart=siblings_apart))
    assert found is not None
    return found


def mask(cpus: str) -> int:
    return CPUSet.parse(cpus).mask


def told(cpus: int | None) -> str | None:
    return None if cpus is None else str(CPUSet.from_mask(cpus))
