"""The machine's CPUs: which are threads of one core, which share a socket, a NUMA node, a last-level cache.

Read from sysfs, which every kernel has. Cores are numbered through the machine, since sysfs starts again on each
socket, and on some machines on each die: the lists of threads tell which of them share a core.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from koord.agent.host.files import Files
from koord.api.text.cpuset import CPUSet

_CPUS: Final = "sys/devices/system/cpu"
_NODES: Final = "sys/devices/system/node"
_OF_A_CORE: Final = ("core_cpus_list", "thread_siblings_list", "core_id")


class Cpu(NamedTuple):
    id: int
    core: int
    socket: int
    node: int
    "The NUMA node."
    cache: int
    "The last-level cache; -1 where the machine does not say."


@dataclass(frozen=True)
class Topology:
    cpus: tuple[Cpu, ...]
    "Those online, ascending."
    model: str = ""
    vendor: str = ""
    turbo: bool = False

    @cached_property
    def all(self) -> CPUSet:
        return CPUSet(cpu.id for cpu in self.cpus)

    @cached_property
    def by_id(self) -> dict[int, Cpu]:
        return {cpu.id: cpu for cpu in self.cpus}

    @cached_property
    def siblings(self) -> dict[int, CPUSet]:
        """By core, its threads."""
        return self._grouped([(cpu.core, cpu.id) for cpu in self.cpus])

    @cached_property
    def nodes(self) -> dict[int, CPUSet]:
        """By NUMA node, its CPUs."""
        return self._grouped([(cpu.node, cpu.id) for cpu in self.cpus])

    def first(self, count: int) -> CPUSet:
        """The first `count` CPUs, as kubelet would reserve them: whole cores, all of one socket before the next."""
        ordered = sorted(self.cpus, key=lambda cpu: (cpu.socket, cpu.node, cpu.core, cpu.id))
        return CPUSet(cpu.id for cpu in ordered[: max(count, 0)])

    @property
    def hyper_threads(self) -> bool:
        return any(len(threads) > 1 for threads in self.siblings.values())

    @staticmethod
    def _grouped(pairs: list[tuple[int, int]]) -> dict[int, CPUSet]:
        groups: dict[int, list[int]] = {}
        for key, cpu in pairs:
            groups.setdefault(key, []).append(cpu)
        return {key: CPUSet(cpus) for key, cpus in sorted(groups.items())}


def topology(files: Files) -> Topology:
    node_of = _node_of_cpu(files)
    cores: dict[tuple[int, str], int] = {}
    cpus = []
    for cpu in CPUSet.parse(_text(files, f"{_CPUS}/online", "0")):
        # Machines that do not tell say -1.
        socket = max(_number(files, f"{_CPUS}/cpu{cpu}/topology/physical_package_id", 0), 0)
        number = cores.setdefault((socket, _core(files, cpu)), len(cores))
        cpus.append(Cpu(cpu, number, socket, node_of.get(cpu, 0), _last_level_cache(files, cpu)))
    about = _cpuinfo(_text(files, "proc/cpuinfo", ""))
    return Topology(tuple(cpus), about.get("model name", ""), about.get("vendor_id", ""), _turbo(files))


def _core(files: Files, cpu: int) -> str:
    """What a core's threads have in common: the list of them, by its present or former name, else a number."""
    texts = (_text(files, f"{_CPUS}/cpu{cpu}/topology/{name}", "") for name in _OF_A_CORE)
    return next(filter(None, texts), str(cpu))


def _node_of_cpu(files: Files) -> dict[int, int]:
    """Machines without NUMA may have no nodes at all: then all is node 0."""
    names = [name for name in files.directories(_NODES) if name.startswith("node") and name[4:].isdigit()]
    lists = {int(name[4:]): CPUSet.parse(_text(files, f"{_NODES}/{name}/cpulist", "")) for name in names}
    return {cpu: node for node, cpus in lists.items() for cpu in cpus}


def _last_level_cache(files: Files, cpu: int) -> int:
    best_level, best_id = 0, -1
    for index in files.directories(f"{_CPUS}/cpu{cpu}/cache"):
        if index.startswith("index"):
            level = _number(files, f"{_CPUS}/cpu{cpu}/cache/{index}/level", 0)
            if level > best_level:
                best_level, best_id = level, _number(files, f"{_CPUS}/cpu{cpu}/cache/{index}/id", -1)
    return best_id


def _turbo(files: Files) -> bool:
    """Intel says when it is off, the others when it is on."""
    if (off := _text(files, f"{_CPUS}/intel_pstate/no_turbo", "")) != "":
        return off == "0"
    return _text(files, f"{_CPUS}/cpufreq/boost", "0") == "1"


def _cpuinfo(text: str) -> dict[str, str]:
    """Of the first CPU."""
    pairs = (line.partition(":") for line in text.split("\n\n", 1)[0].splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


def _text(files: Files, name: str, default: str) -> str:
    try:
        return files.once(name).decode().strip()
    except OSError:
        return default


def _number(files: Files, name: str, default: int) -> int:
    try:
        return int(_text(files, name, str(default)))
    except ValueError:
        return default
