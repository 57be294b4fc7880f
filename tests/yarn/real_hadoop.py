"""Real ResourceManagers and a real NodeManager of Hadoop, on loopback, for tests.

Tests find Hadoop's jars by $KOORD_HADOOP; examples/yarn/pom.xml says how to get them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from koord.api.machinery.protobuf import integer, message
from koord.yarn.amount import NOTHING, Amount, of_yarn
from koord.yarn.hadoop.messages import HA_SERVICE
from koord.yarn.hadoop.one_machine import PORTS, files, resource_manager_addresses
from koord.yarn.live import rpc
from koord.yarn.live.java import Daemon, HadoopMissing, command, free_ports, installed
from koord.yarn.live.processes import ProcessTable, written

STOPPED_WITHIN_S = 20.0
COMMAND_S = 240.0
QUICK = {
    "yarn.nm.liveness-monitor.expiry-interval-ms": "15000",
    "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "500",
    "yarn.resourcemanager.am.max-attempts": "5",
    "yarn.acl.enable": "true",
    "yarn.admin.acl": "root",
    "yarn.resourcemanager.opportunistic-container-allocation.enabled": "true",
    "yarn.nodemanager.opportunistic-containers-max-queue-length": "10",
    "yarn.client.failover-sleep-base-ms": "100",
    "yarn.client.failover-sleep-max-ms": "500",
    "yarn.resourcemanager.connect.retry-interval.ms": "500",
}


def missing_yarn() -> str | None:
    """What to do for the tests to run; None where nothing is missing."""
    if shutil.which("javac") is None:
        return "install a Java development kit, version 17"
    try:
        installed(os.environ.get("KOORD_HADOOP", ""))
    except HadoopMissing:
        return "mvn -f examples/yarn/pom.xml dependency:copy-dependencies -DoutputDirectory=DIR; set KOORD_HADOOP=DIR"
    return None


async def rest(url: str, body: object = None) -> Any:
    """The answer, None where there is none."""
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.request("POST" if body else "GET", url, json=body) as answer,
        ):
            return await answer.json(content_type=None) if answer.status == 200 else None
    except (aiohttp.ClientError, OSError):
        return None


async def submit(web: str, name: str, command: str, mib: int, *, queue: str = "default", label: str = "") -> str:
    """An application whose master is one command of a shell. `label` of the nodes that it may run on."""
    made = await rest(f"{web}/ws/v1/cluster/apps/new-application?user.name=root", {"a": 1})
    id_ = str(made["application-id"])
    spec = {
        "application-id": id_,
        "application-name": name,
        "max-app-attempts": 5,
        "am-container-spec": {"commands": {"command": command}},
        "application-type": "SHELL",
        "queue": queue,
        "am-container-node-label-expression": label,
        "resource": {"memory": mib, "vCores": 1},
    }
    url = f"{web}/ws/v1/cluster/apps?user.name=root"
    async with aiohttp.ClientSession() as session, session.post(url, json=spec) as answer:
        assert answer.status == 202, await answer.text()
    return id_


async def state_of(web: str, application: str) -> str:
    found = await rest(f"{web}/ws/v1/cluster/apps/{application}")
    return str(found["app"]["state"]) if found else ""


@dataclass
class Hadoop:
    directory: Path
    rm_ids: tuple[str, ...] = ("",)
    properties: Mapping[str, str] = field(default_factory=dict)
    "Further ones of yarn-site.xml."
    scheduler: str = ""
    "Another capacity-scheduler.xml."
    ports: dict[str, dict[str, int]] = field(default_factory=dict)
    "Of each ResourceManager; the NodeManager's are among the first one's."
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def conf(self) -> Path:
        return self.directory / "conf"

    @property
    def node_manager_web(self) -> str:
        return f"127.0.0.1:{self.ports[self.rm_ids[0]]['nm-web']}"

    @property
    def node_id(self) -> str:
        return f"localhost:{self.ports[self.rm_ids[0]]['nm']}"

    @property
    def local_dir(self) -> Path:
        return self.directory / "local"

    def web(self, rm_id: str = "") -> str:
        return f"http://127.0.0.1:{self.ports[rm_id or self.rm_ids[0]]['web']}"

    def configure(self) -> None:
        free = free_ports(len(PORTS) * len(self.rm_ids))
        self.ports = {
            rm_id: dict(zip(PORTS, free[n * len(PORTS) :], strict=False)) for n, rm_id in enumerate(self.rm_ids)
        }
        further: dict[str, str] = {**QUICK, **self.properties}
        if len(self.rm_ids) > 1:
            further |= {
                "yarn.resourcemanager.ha.enabled": "true",
                "yarn.resourcemanager.ha.automatic-failover.enabled": "false",
                "yarn.resourcemanager.ha.rm-ids": ",".join(self.rm_ids),
                "yarn.resourcemanager.cluster-id": "one",
                "yarn.resourcemanager.recovery.enabled": "true",
                "yarn.resourcemanager.store.class": "org.apache.hadoop.yarn.server.resourcemanager.recovery"
                ".FileSystemRMStateStore",
                "yarn.resourcemanager.fs.state-store.uri": f"file://{self.directory}/state",
            }
            for rm_id in self.rm_ids:
                further |= resource_manager_addresses(self.ports[rm_id], rm_id)
        (self.directory / "tmp").mkdir()
        self._write(self.conf, further)
        for rm_id in self.rm_ids:
            self._write(self._conf_of(rm_id), {**further, "yarn.resourcemanager.ha.id": rm_id} if rm_id else further)

    def _conf_of(self, rm_id: str) -> Path:
        return self.directory / f"conf-{rm_id}"

    def _write(self, conf: Path, further: Mapping[str, str]) -> None:
        conf.mkdir()
        jars = installed(os.environ["KOORD_HADOOP"])
        mapreduce = jars.classpath if jars.has_mapreduce else ""
        written = files(self.ports[self.rm_ids[0]], str(self.directory), further, mapreduce)
        if self.scheduler:
            written["capacity-scheduler.xml"] = self.scheduler
        for name, text in written.items():
            (conf / name).write_text(text)

    def administrate(self, *arguments: str) -> None:
        """`yarn rmadmin`, as Hadoop's script runs it."""
        self.run("org.apache.hadoop.yarn.client.cli.RMAdminCLI", *arguments)

    def run(self, main: str, *arguments: str) -> None:
        """A program of Hadoop's, as a client of this cluster."""
        jars = installed(os.environ["KOORD_HADOOP"])
        line = [jars.java, "-Xmx100m", "-XX:TieredStopAtLevel=1", "--add-opens=java.base/java.lang=ALL-UNNAMED"]
        where = ["-cp", f"{self.conf}:{jars.classpath}", main]
        subprocess.run([*line, *where, *arguments], check=True, timeout=COMMAND_S, stdout=subprocess.DEVNULL)

    def start(self, daemon: Daemon, rm_id: str = "") -> None:
        conf = self.conf if daemon == "nodemanager" else self._conf_of(rm_id)
        jars = installed(os.environ["KOORD_HADOOP"])
        environment = {**jars.environment, "HADOOP_CONF_DIR": str(conf)}
        line = command(daemon, jars, conf)
        with (self.directory / f"{daemon}{rm_id}.log").open("ab") as log:
            self.processes[daemon + rm_id] = subprocess.Popen(line, stdout=log, stderr=log, env=environment)

    def stop(self, daemon: str, *, kill: bool = False) -> None:
        process = self.processes.pop(daemon)
        if kill:
            process.kill()
        else:
            process.terminate()
        try:
            process.wait(STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def end_containers(self) -> None:
        """A NodeManager that takes long to end leaves them behind."""
        table = ProcessTable.read()
        for file in self.local_dir.glob("nmPrivate/*/*/*.pid"):
            named = written(file)
            if table.is_of(named, file.stem):
                for pid in table.family(named.pid):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

    async def make(self, rm_id: str, state: str) -> None:
        """`rmadmin -transitionToActive` or `-transitionToStandby`, as the administrator's command sends it."""
        by_user = message(1, integer(1, 0))
        address = f"127.0.0.1:{self.ports[rm_id]['admin']}"
        await rpc.call(address, "root", HA_SERVICE, f"transitionTo{state}", by_user, answer_s=60.0)

    async def cap(self, rm_id: str = "") -> Amount:
        """What the ResourceManager lets the NodeManager use; nothing where it does not run."""
        found = await rest(f"{self.web(rm_id)}/ws/v1/cluster/nodes")
        nodes = ((found or {}).get("nodes") or {}).get("node", [])
        for node in nodes:
            if node["id"] == self.node_id and node["state"] == "RUNNING":
                return of_yarn(node["totalResource"]["vCores"], node["totalResource"]["memory"])
        return NOTHING

    async def running(self) -> list[str]:
        return sorted(
            container["id"] for container in await containers(self.node_manager_web) if container["state"] == "RUNNING"
        )


async def containers(node_manager_web: str) -> list[dict[str, Any]]:
    found = await rest(f"http://{node_manager_web}/ws/v1/node/containers")
    listed = ((found or {}).get("containers") or {}).get("container", [])
    return list(listed)


@contextmanager
def hadoop(*rm_ids: str, properties: Mapping[str, str] | None = None, scheduler: str = "") -> Iterator[Hadoop]:
    """One of each, being started; with ids, N ResourceManagers. All gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="koord-hadoop-") as directory:
        # Containers may be another user's.
        os.chmod(directory, 0o755)
        found = Hadoop(Path(directory), rm_ids or ("",), properties or {}, scheduler=scheduler)
        found.configure()
        try:
            for rm_id in found.rm_ids:
                found.start("resourcemanager", rm_id)
            found.start("nodemanager")
            yield found
        finally:
            # First those that would run containers again.
            for process in sorted(found.processes, reverse=True):
                found.end_containers()
                found.stop(process)
            _end_within(Path(directory))


def _end_within(directory: Path) -> None:
    """A container that was being started when its NodeManager ended has no file of its own yet: it runs in here."""
    for entry in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if Path(os.readlink(entry)).is_relative_to(directory):
                os.kill(int(entry.parent.name), signal.SIGKILL)
