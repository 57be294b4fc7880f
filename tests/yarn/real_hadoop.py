"""A real ResourceManager and a real NodeManager of Hadoop, on loopback, for tests.

`python -m tests.yarn.real_hadoop DIR` brings Hadoop's jars into a directory, by Maven; tests find it by $KOORD_HADOOP.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

VERSION = "3.4.1"
ARTIFACTS = (
    "hadoop-yarn-server-resourcemanager",
    "hadoop-yarn-server-nodemanager",
    "hadoop-yarn-server-timelineservice",
    "hadoop-yarn-client",
    "hadoop-common",
)
RESOURCE_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
NODE_MANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
STOPPED_WITHIN_S = 20.0


def missing_yarn() -> str | None:
    """What to do for the tests to run; None where nothing is missing."""
    if shutil.which("java") is None:
        return "install Java 17"
    directory = os.environ.get("KOORD_HADOOP", "")
    if directory and any(Path(directory).glob("hadoop-yarn-server-resourcemanager-*.jar")):
        return None
    return "python -m tests.yarn.real_hadoop DIR (needs Maven), and set KOORD_HADOOP=DIR"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def site(properties: Mapping[str, str]) -> str:
    lines = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items()]
    return "<configuration>\n" + "\n".join(lines) + "\n</configuration>\n"


@dataclass
class Hadoop:
    directory: Path
    ports: dict[str, int] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def conf(self) -> Path:
        return self.directory / "conf"

    @property
    def web(self) -> str:
        return f"http://127.0.0.1:{self.ports['web']}"

    @property
    def node_manager_web(self) -> str:
        return f"127.0.0.1:{self.ports['nm-web']}"

    @property
    def node_id(self) -> str:
        return f"localhost:{self.ports['nm']}"

    @property
    def local_dir(self) -> Path:
        return self.directory / "nm-local-dir"

    def configure(self) -> None:
        names = ("rpc", "scheduler", "tracker", "admin", "web", "nm", "localizer", "nm-web")
        self.ports = {name: free_port() for name in names}
        at = {name: f"127.0.0.1:{port}" for name, port in self.ports.items()}
        self.conf.mkdir()
        (self.conf / "core-site.xml").write_text(site({"hadoop.tmp.dir": str(self.directory)}))
        yarn = {
            "yarn.resourcemanager.address": at["rpc"],
            "yarn.resourcemanager.scheduler.address": at["scheduler"],
            "yarn.resourcemanager.resource-tracker.address": at["tracker"],
            "yarn.resourcemanager.admin.address": at["admin"],
            "yarn.resourcemanager.webapp.address": at["web"],
            "yarn.nodemanager.address": at["nm"],
            "yarn.nodemanager.localizer.address": at["localizer"],
            "yarn.nodemanager.webapp.address": at["nm-web"],
            # Little: until the operator has spoken, a NodeManager that starts has what it says itself.
            "yarn.nodemanager.resource.memory-mb": "256",
            "yarn.nodemanager.resource.cpu-vcores": "1",
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.nodemanager.log-dirs": str(self.directory / "logs"),
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.enable": "false",
            "yarn.nm.liveness-monitor.expiry-interval-ms": "4000",
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "500",
            "yarn.resourcemanager.am.max-attempts": "5",
            "yarn.resourcemanager.scheduler.class": "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity"
            ".CapacityScheduler",
        }
        (self.conf / "yarn-site.xml").write_text(site(yarn))
        queues = {
            "yarn.scheduler.capacity.root.queues": "default",
            "yarn.scheduler.capacity.root.default.capacity": "100",
            "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
            "yarn.scheduler.capacity.root.default.user-limit-factor": "10",
            "yarn.scheduler.capacity.resource-calculator": "org.apache.hadoop.yarn.util.resource"
            ".DominantResourceCalculator",
        }
        (self.conf / "capacity-scheduler.xml").write_text(site(queues))
        (self.conf / "log4j.properties").write_text(
            "log4j.rootLogger=INFO,A\nlog4j.appender.A=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.A.layout=org.apache.log4j.PatternLayout\n"
            "log4j.appender.A.layout.ConversionPattern=%d %p %c{1}: %m%n\n"
        )

    def start(self, main: str) -> None:
        jars = os.environ["KOORD_HADOOP"]
        command = [
            "java", "-Xmx300m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
            "--add-opens", "java.base/java.lang=ALL-UNNAMED", "-cp", f"{self.conf}:{jars}/*", main,
        ]  # fmt: skip
        environment = {**os.environ, "HADOOP_CONF_DIR": str(self.conf)}
        with (self.directory / f"{main.rpartition('.')[2]}.log").open("ab") as log:
            self.processes[main] = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def stop(self, main: str, *, kill: bool = False) -> None:
        process = self.processes.pop(main)
        if kill:
            process.kill()
        else:
            process.terminate()
        try:
            process.wait(STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def hadoop() -> Iterator[Hadoop]:
    """One of each, being started; both gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="koord-hadoop-") as directory:
        found = Hadoop(Path(directory))
        found.configure()
        try:
            found.start(RESOURCE_MANAGER)
            found.start(NODE_MANAGER)
            yield found
        finally:
            for main in list(found.processes):
                found.stop(main)


def bring(directory: Path) -> None:
    """Hadoop's jars and all that they need, from where Maven is told to look."""
    listed = "".join(
        f"<dependency><groupId>org.apache.hadoop</groupId><artifactId>{each}</artifactId>"
        f"<version>{VERSION}</version></dependency>"
        for each in ARTIFACTS
    )
    with tempfile.TemporaryDirectory() as project:
        Path(project, "pom.xml").write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>koord</groupId><artifactId>hadoop</artifactId>"
            f"<version>1</version><packaging>pom</packaging><dependencies>{listed}</dependencies></project>"
        )
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={directory.absolute()}"]
        subprocess.run(["mvn", "-q", "-B", *goal], cwd=project, check=True)


if __name__ == "__main__":
    bring(Path(sys.argv[1]))
