"""Hosts made of plain files: /proc and /sys trees as kernels of several kinds show them.

| part      | kinds                                                                                             |
| --------- | ------------------------------------------------------------------------------------------------- |
| cgroup    | v1 (one tree per controller), v2 (one tree)                                                       |
| driver    | cgroupfs, systemd                                                                                 |
| runtime   | containerd, cri-o, docker, pouch                                                                  |
| kernel    | mainline; anolis (adds group identity, watermarks, memory priorities; on v1 also memory.min, ...) |
| CPUs      | sockets x cores x threads, numbered as Linux does: first threads of all cores, then the second    |

A plain file keeps what was written to it and refuses nothing: what the kernel itself would do is shown by the tests on
real cgroups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.files import Files
from koord.agent.host.layout import container_dir, pod_dir, qos_dir
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS

GIB = 1 << 30

_V1: Mapping[str, Mapping[str, str]] = {
    "cpu": {
        "cpu.shares": "1024",
        "cpu.cfs_quota_us": "-1",
        "cpu.cfs_period_us": "100000",
        "cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
        "cgroup.procs": "",
        "tasks": "",
    },
    "cpuacct": {"cpuacct.usage": "0"},
    "cpuset": {"cpuset.cpus": "", "cgroup.procs": ""},
    "net_cls": {"net_cls.classid": "0"},
    "memory": {
        "memory.limit_in_bytes": "9223372036854771712",
        "memory.usage_in_bytes": "0",
        "memory.stat": "total_inactive_anon 0\ntotal_active_anon 0\ntotal_unevictable 0\n"
        "total_active_file 0\ntotal_inactive_file 0\n",
        "memory.numa_stat": "total=0 N0=0\n",
    },
}
_V2: Mapping[str, str] = {
    "cpu.weight": "100",
    "cpu.max": "max 100000",
    "cpu.stat": "usage_usec 0\nuser_usec 0\nsystem_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
    "cgroup.procs": "",
    "cgroup.threads": "",
    "cpuset.cpus": "",
    "cpuset.cpus.effective": "",
    "memory.max": "max",
    "memory.current": "0",
    "memory.min": "0",
    "memory.low": "0",
    "memory.high": "max",
    "memory.oom.group": "0",
    "memory.stat": "anon 0\nfile 0\ninactive_anon 0\nactive_anon 0\nactive_file 0\ninactive_file 0\nunevictable 0\n",
    "memory.numa_stat": "anon N0=0\nfile N0=0\n",
    "cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    "memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    "io.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
}
_MAINLINE_CPU = {"v1": {"cpu.cfs_burst_us": "0", "cpu.idle": "0"}, "v2": {"cpu.max.burst": "0", "cpu.idle": "0"}}
_ANOLIS_CPU = {"cpu.bvt_warp_ns": "0"}
_ANOLIS_MEMORY = {
    "memory.wmark_ratio": "0",
    "memory.wmark_scale_factor": "50",
    "memory.wmark_min_adj": "0",
    "memory.priority": "0",
    "memory.use_priority_oom": "0",
}
_ANOLIS_V1_MEMORY = {"memory.min": "0", "memory.low": "0", "memory.high": str(2**63 - 1), "memory.oom.group": "0"}
_ANOLIS_V2_MEMORY = {
    "memory.pagecache_limit.enable": "0",
    "memory.pagecache_limit.size": "0",
    "memory.pagecache_limit.sync": "0",
}


@dataclass
class Tree:
    """A composed host. Directories of pods are made as kubelet and a runtime would make them."""

    root: Path
    version: Version = Version.V2
    driver: CgroupDriver = CgroupDriver.SYSTEMD
    runtime: str = "containerd"
    anolis: bool = False
    bare: bool = False
    "An old kernel: no burst, no idle class."
    sockets: int = 1
    cores: int = 4
    threads: int = 2
    memory_bytes: int = 16 * GIB
    made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.version is Version.V2:
            self.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")
        self.cgroup("")
        for qos in KubeQoS:
            self.cgroup(qos_dir(qos, self.driver))
        self._cpus()
        self.node_usage(busy_ticks=0, memory_used_bytes=0)

    @property
    def files(self) -> Files:
        return Files(str(self.root))

    @property
    def cgroups(self) -> Cgroups:
        cgroups = Cgroups.of(self.files)
        cgroups.look_for_pods_in(qos_dir(KubeQoS.GUARANTEED, self.driver))
        return cgroups

    @property
    def cpu_count(self) -> int:
        return self.sockets * self.cores * self.threads

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def read(self, name: str) -> str:
        return (self.root / name).read_text()

    def pod(self, uid: str, qos: KubeQoS, *containers: str) -> str:
        """Makes a pod's directory and its containers', by their ids; gives the pod's."""
        directory = self.cgroup(pod_dir(uid, qos, self.driver))
        for container in containers:
            self.cgroup(container_dir(directory, f"{self.runtime}://{container}", self.driver))
        return directory

    def cgroup(self, directory: str) -> str:
        self.made.append(directory)
        if self.version is Version.V2:
            extra = {} if self.bare else _MAINLINE_CPU["v2"]
            anolis = {**_ANOLIS_CPU, **_ANOLIS_MEMORY, **_ANOLIS_V2_MEMORY} if self.anolis else {}
            self._make("", directory, {**_V2, **extra, **anolis})
            return directory
        for controller, names in _V1.items():
            extra = dict(_MAINLINE_CPU["v1"]) if controller == "cpu" and not self.bare else {}
            if self.anolis and controller == "cpu":
                extra |= _ANOLIS_CPU
            if self.anolis and controller == "memory":
                extra |= _ANOLIS_MEMORY | _ANOLIS_V1_MEMORY
            self._make(controller, directory, {**names, **extra})
        return directory

    def _make(self, controller: str, directory: str, names: Mapping[str, str]) -> None:
        parts = [part for part in ("sys/fs/cgroup", controller, directory) if part]
        for name, text in names.items():
            self.write("/".join([*parts, name]), text)

    def used(self, directory: str, *, cpu_ns: int = 0, anon: int = 0, file: int = 0) -> None:
        """What a cgroup has used: CPU time so far, bytes now."""
        if self.version is Version.V1:
            self.write(f"sys/fs/cgroup/cpuacct/{directory}/cpuacct.usage", f"{cpu_ns}\n")
            text = f"total_inactive_anon {anon}\ntotal_active_anon 0\ntotal_unevictable 0\n"
            text += f"total_active_file {file}\ntotal_inactive_file 0\n"
            self.write(f"sys/fs/cgroup/memory/{directory}/memory.stat", text)
            self.write(f"sys/fs/cgroup/memory/{directory}/memory.usage_in_bytes", f"{anon + file}\n")
            return
        text = f"usage_usec {cpu_ns // 1000}\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"
        self.write(f"sys/fs/cgroup/{directory}/cpu.stat", text)
        text = f"anon {anon}\nfile {file}\ninactive_anon {anon}\nactive_anon 0\n"
        text += f"active_file {file}\ninactive_file 0\nunevictable 0\n"
        self.write(f"sys/fs/cgroup/{directory}/memory.stat", text)
        self.write(f"sys/fs/cgroup/{directory}/memory.current", f"{anon + file}\n")

    def node_usage(self, *, busy_ticks: int, memory_used_bytes: int, page_cache_bytes: int = 0) -> None:
        lines = [f"cpu  {busy_ticks} 0 0 100 0 0 0 0 0 0"]
        share = busy_ticks // self.cpu_count
        lines += [f"cpu{cpu} {share} 0 0 100 0 0 0 0 0 0" for cpu in range(self.cpu_count)]
        self.write("proc/stat", "\n".join([*lines, "intr 0", "ctxt 0"]) + "\n")
        available_kb = (self.memory_bytes - memory_used_bytes) // 1024
        free_kb = available_kb - page_cache_bytes // 1024
        total_kb = self.memory_bytes // 1024
        self.write("proc/meminfo", f"MemTotal: {total_kb} kB\nMemFree: {free_kb} kB\nMemAvailable: {available_kb} kB\n")

    def _cpus(self) -> None:
        per_node: dict[int, list[int]] = {}
        all_cores = self.sockets * self.cores
        for cpu in range(self.cpu_count):
            core = cpu % all_cores
            socket = core // self.cores
            base = f"sys/devices/system/cpu/cpu{cpu}"
            self.write(f"{base}/topology/physical_package_id", f"{socket}\n")
            self.write(f"{base}/topology/core_id", f"{core % self.cores}\n")
            self.write(f"{base}/cache/index3/level", "3\n")
            self.write(f"{base}/cache/index3/id", f"{socket}\n")
            per_node.setdefault(socket, []).append(cpu)
        self.write("sys/devices/system/cpu/online", f"0-{self.cpu_count - 1}\n")
        for node, cpus in per_node.items():
            self.write(f"sys/devices/system/node/node{node}/cpulist", ",".join(map(str, cpus)) + "\n")
            share_kb = self.memory_bytes // self.sockets // 1024
            text = f"Node {node} MemTotal: {share_kb} kB\nNode {node} MemFree: {share_kb} kB\n"
            self.write(f"sys/devices/system/node/node{node}/meminfo", text)
        self.write("proc/cpuinfo", "processor : 0\nvendor_id : GenuineIntel\nmodel name : Test CPU @ 2.50GHz\n\n")
