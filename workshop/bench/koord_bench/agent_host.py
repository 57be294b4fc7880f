"""A node for the agent's benchmark: pods as kubelet tells them, and cgroups in which half of the containers are busy.

As root they are cgroups of this machine's kernel, below a directory that is gone afterwards: what reading them costs is
the kernel's to say. Otherwise they are plain files that look like a kernel's, whose counters go on.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.files import Files
from koord.agent.pods import AgentPod, pods_of
from koord.api.kubernetes.cgroup import CgroupDriver, qos_dir
from koord.api.kubernetes.runnable import RunnablePod
from koord.api.kubernetes.words import KubeQoS
from koord.api.machinery.codec import convert
from koord_bench import pods as bench_pods

DRIVER: Final = CgroupDriver.CGROUPFS
CPUS: Final = 16
CONTROLLERS: Final = ("cpu", "cpuacct", "cpuset", "memory")
_SPIN_S: Final = 0.0002


def pods(number: int) -> list[dict[str, Any]]:
    """Five containers for two pods; every third pod is a batch pod."""
    made = []
    for i in range(number):
        pod = bench_pods.pod(i)
        containers, statuses = pod["spec"]["containers"], pod["status"]["containerStatuses"]
        if i % 2:
            containers.append({**containers[1], "name": "proxy"})
            statuses.append({**statuses[1], "name": "proxy", "containerID": f"{statuses[1]['containerID'][:-4]}beef"})
        if i % 3 == 0:
            for sidecar in containers[1:]:
                sidecar["resources"] = {}
        made.append(pod)
    return made


def agent_pods(made: list[dict[str, Any]]) -> dict[str, AgentPod]:
    return pods_of([convert(RunnablePod, raw) for raw in made], DRIVER)


def directories(here: dict[str, AgentPod]) -> list[str]:
    """Of the node, its classes, pods and containers, parents first."""
    paths = ["", *(qos_dir(qos, DRIVER) for qos in KubeQoS)]
    for pod in here.values():
        paths += [pod.directory, *(container.directory for container in pod.containers)]
    return paths


class ComposedHost:
    """Plain files below a directory: a v2 tree, /proc and the CPUs."""

    cgroup_root = ""

    def __init__(self, root: Path, here: dict[str, AgentPod]) -> None:
        self.host_root = str(root)
        self._root = root
        self._busy = _busy(here)
        self._turns = 0
        self._write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n")
        for directory in directories(here):
            for name, text in _FILES.items():
                self._write(f"sys/fs/cgroup/{directory}/{name}", text)
        for cpu in range(CPUS):
            base = f"sys/devices/system/cpu/cpu{cpu}"
            self._write(f"{base}/topology/physical_package_id", "0\n")
            self._write(f"{base}/topology/core_id", f"{cpu}\n")
            (self._root / base / "node0").mkdir()
        self._write("sys/devices/system/cpu/online", f"0-{CPUS - 1}\n")
        self._write("proc/meminfo", "MemTotal: 67108864 kB\nMemFree: 33554432 kB\nMemAvailable: 33554432 kB\n")
        self.turn()

    def turn(self) -> None:
        """A second passes: a busy container uses a tenth of a core."""
        self._turns += 1
        used_us = self._turns * 100_000
        stat = f"usage_usec {used_us}\nuser_usec {used_us}\nsystem_usec 0\n"
        stat += f"nr_periods {self._turns * 10}\nnr_throttled {self._turns // 4}\nthrottled_usec 0\n"
        for directory in self._busy:
            _overwrite(self._root / "sys/fs/cgroup" / directory / "cpu.stat", stat)
        ticks = self._turns * 10 * len(self._busy)
        lines = ["cpu ", *(f"cpu{cpu}" for cpu in range(CPUS))]
        _overwrite(self._root / "proc/stat", "".join(f"{line} {ticks} 0 0 100 0 0 0 0 0 0\n" for line in lines))

    def _write(self, name: str, text: str) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _overwrite(path: Path, text: str) -> None:
    """In place and in one write, like a kernel's counters: a reader never finds the file empty."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(fd, text.encode(), 0)
    finally:
        os.close(fd)


_FILES: Final = {
    "cpu.weight": "100",
    "cpu.max": "max 100000",
    "cpu.max.burst": "0",
    "cpu.idle": "0",
    "cpu.stat": "usage_usec 0\nuser_usec 0\nsystem_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
    "cgroup.procs": "",
    "cpuset.cpus": f"0-{CPUS - 1}",
    "cpuset.cpus.effective": f"0-{CPUS - 1}",
    "memory.max": "max",
    "memory.current": "67108864",
    "memory.min": "0",
    "memory.low": "0",
    "memory.high": "max",
    "memory.oom.group": "0",
    # As long as a kernel's.
    "memory.stat": "anon 50331648\nfile 16777216\n"
    + "".join(f"counter_{i} {i * 4096}\n" for i in range(20))
    + "inactive_anon 50331648\nactive_anon 0\ninactive_file 8388608\nactive_file 8388608\nunevictable 0\n"
    + "".join(f"workingset_{i} {i * 4096}\n" for i in range(25)),
    **{
        f"{resource}.pressure": "".join(
            f"{kind} avg10=0.12 avg60=0.34 avg300=0.56 total=123456\n" for kind in ("some", "full")
        )
        for resource in ("cpu", "memory", "io")
    },
}


class RealHost:
    """Cgroups of this machine's kernel. One process goes from container to container and leaves a trace in each."""

    host_root = "/"

    def __init__(self, name: str) -> None:
        self._files = Files("/")
        self.cgroup_root = f"koord-bench-{os.getpid()}-{name}"
        self._cgroups = Cgroups(self._files, Cgroups.of(self._files).version, self.cgroup_root)
        self._directories: list[str] = []
        self._busy: list[str] = []
        lines = self._files.once("proc/self/cgroup").decode().splitlines()
        own = next(line.split(":", 2)[2] for line in lines if "cpuacct" in line.split(":")[1].split(","))
        self._home = f"sys/fs/cgroup/cpuacct{own}"

    def make(self, here: dict[str, AgentPod]) -> None:
        self._directories, self._busy = directories(here), _busy(here)
        for directory in self._directories:
            self._make(directory)

    @staticmethod
    def is_possible() -> bool:
        """As root, with v1 hierarchies. On v2 the top would have to hand its controllers down, which is others' say."""
        return os.geteuid() == 0 and Cgroups.of(Files("/")).version is Version.V1

    def turn(self) -> None:
        """Only the thread that calls it wanders, and comes back."""
        thread = str(threading.get_native_id())
        for directory in self._busy:
            Path("/", self._cgroups.name("cpuacct", directory), "tasks").write_text(thread)
            began_s = time.thread_time()
            while time.thread_time() - began_s < _SPIN_S:
                pass
        Path("/", self._home, "tasks").write_text(thread)

    def _make(self, directory: str) -> None:
        for controller in CONTROLLERS:
            path = Path("/", self._cgroups.name(controller, directory))
            path.mkdir()
            if controller == "cpuset":
                for name in ("cpuset.cpus", "cpuset.mems"):
                    (path / name).write_text((path.parent / name).read_text())

    def remove(self) -> None:
        self._files.close()
        for directory in reversed(self._directories):
            for controller in CONTROLLERS:
                with suppress(OSError):
                    Path("/", self._cgroups.name(controller, directory)).rmdir()


def _busy(here: dict[str, AgentPod]) -> list[str]:
    """Every second container."""
    containers = [container.directory for pod in here.values() for container in pod.containers]
    return containers[::2]


@contextmanager
def going_on(turn: Callable[[], None], every_s: float = 1.0) -> Iterator[None]:
    """A turn each second, in a thread."""
    done = threading.Event()

    def work() -> None:
        while not done.wait(every_s):
            turn()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(30)


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """An agent that is killed does not close its connections."""


@contextmanager
def kubelet(made: list[dict[str, Any]]) -> Iterator[str]:
    """Says these pods, where the address says."""
    answers = {
        "/pods": json.dumps({"kind": "PodList", "apiVersion": "v1", "items": made}).encode(),
        "/configz": json.dumps({"kubeletconfig": {"cpuManagerPolicy": "none"}}).encode(),
    }

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = answers.get(self.path, b"")
            self.send_response(200 if body else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(30)
        server.server_close()
