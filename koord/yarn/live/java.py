"""Hadoop's own ResourceManager and NodeManager, run as children of this process.

Their jars lie in one folder, or in an unpacked distribution. A child ends with its parent, however that ended.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import shutil
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import aiohttp

from koord.api.machinery.faults import BadInput
from koord.yarn.hadoop.configuration import SITE, properties, resolved
from koord.yarn.hadoop.one_machine import HOST, PORTS, files
from koord.yarn.live.processes import ProcessTable

log = logging.getLogger(__name__)

Daemon = Literal["resourcemanager", "nodemanager"]
MAIN: Final[Mapping[Daemon, str]] = {
    "resourcemanager": "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager",
    "nodemanager": "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
}
_WEB: Final[Mapping[Daemon, tuple[str, str, str]]] = {
    "resourcemanager": ("yarn.resourcemanager.webapp.address", "/ws/v1/cluster/info", "clusterInfo"),
    "nodemanager": ("yarn.nodemanager.webapp.address", "/ws/v1/node/info", "nodeInfo"),
}
_IN_A_DISTRIBUTION: Final = tuple(
    f"share/hadoop/{folder}" for folder in ("common", "common/lib", "hdfs", "hdfs/lib", "yarn", "yarn/lib", "mapreduce")
)
_JAR: Final = "hadoop-yarn-server-{}-*.jar"
_SHUFFLE: Final = "hadoop-mapreduce-client-shuffle-*.jar"
_OPTIONS: Final = (
    "-Xmx300m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
    # Needed from Java 16 on, unknown to Java 8.
    "-XX:+IgnoreUnrecognizedVMOptions", "--add-opens=java.base/java.lang=ALL-UNNAMED",
)  # fmt: skip
STARTED_WITHIN_S: Final = 120.0
STOPPED_WITHIN_S: Final = 5.0
LOOK_S: Final = 0.25
_SET_DEATH_SIGNAL: Final = 1


class HadoopMissing(BadInput):
    """Java or Hadoop's jars are not there: says what to do."""


class HadoopFailed(BadInput):
    """A daemon that ended by itself, or does not answer."""


@dataclass(frozen=True, slots=True)
class Installed:
    java: str
    classpath: str
    has_mapreduce: bool = False
    "Whether NodeManagers can serve MapReduce's reducers."

    @property
    def environment(self) -> dict[str, str]:
        """Of daemons: MapReduce's containers look for Java there."""
        return {"JAVA_HOME": str(Path(self.java).resolve().parent.parent), **os.environ}


def installed(directory: str) -> Installed:
    """Java, and the jars of a folder. Raises HadoopMissing."""
    home = os.environ.get("JAVA_HOME", "")
    java = shutil.which("java", path=f"{home}/bin") if home else None
    java = java or shutil.which("java")
    if java is None:
        raise HadoopMissing("YARN needs Java, and there is no java on PATH nor in JAVA_HOME: install Java 11 or 17")
    how = "give the folder of an unpacked Hadoop 3.3 or 3.4, or of its jars, with --hadoop or KOORD_HADOOP"
    if not directory:
        raise HadoopMissing(f"YARN needs Hadoop's jars: {how}; docs/run-hadoop-jobs.md says how to get them")
    root = Path(directory).absolute()
    for folders in ((root,), tuple(root / folder for folder in _IN_A_DISTRIBUTION)):
        if all(any(any(folder.glob(_JAR.format(daemon))) for folder in folders) for daemon in MAIN):
            has_mapreduce = any(any(folder.glob(_SHUFFLE)) for folder in folders)
            return Installed(java, ":".join(f"{folder}/*" for folder in folders), has_mapreduce)
    raise HadoopMissing(f"{directory} has no {_JAR.format('resourcemanager')} and its like: {how}")


def configure(directory: Path, hadoop: Installed) -> Path:
    """Writes a configuration for this machine, and gives its folder. Ports are kept while they are free."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = directory / "ports.json"
    ports = _free(_read_ports(kept))
    kept.write_text(json.dumps(ports))
    conf = directory / "conf"
    conf.mkdir(exist_ok=True)
    (directory / "tmp").mkdir(exist_ok=True)
    mapreduce = hadoop.classpath if hadoop.has_mapreduce else ""
    for name, text in files(ports, str(directory), mapreduce=mapreduce).items():
        (conf / name).write_text(text)
    return conf


def _read_ports(file: Path) -> dict[str, int]:
    try:
        ports = json.loads(file.read_text())
        return {name: int(ports[name]) for name in PORTS}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _free(wanted: Mapping[str, int]) -> dict[str, int]:
    """The wanted ports if all are free, else any."""
    if wanted:
        with suppress(OSError):
            free_ports(len(wanted), tuple(wanted.values()))
            return dict(wanted)
    return dict(zip(PORTS, free_ports(len(PORTS)), strict=True))


def free_ports(count: int, wanted: Sequence[int] = ()) -> list[int]:
    """Free ports of loopback, `count` of them or exactly those `wanted`. Raises OSError."""
    with ExitStack() as held:
        ports = []
        for port in wanted or [0] * count:
            one = held.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((HOST, port))
            ports.append(int(one.getsockname()[1]))
        return ports


@dataclass(frozen=True, slots=True)
class DaemonInfo:
    """What a running daemon reports about itself."""

    web: str
    about: Mapping[str, Any]

    @property
    def node_id(self) -> str:
        """Of a NodeManager, under which its ResourceManager knows it."""
        return str(self.about.get("id", ""))


async def run_daemon(
    daemon: Daemon, hadoop: Installed, conf: Path, on_ready: Callable[[DaemonInfo], None] = lambda _: None
) -> None:
    """Runs one until cancelled, and ends it then. Raises HadoopFailed where it ends by itself."""
    key, path, inside = _WEB[daemon]
    address = resolved(properties((conf / SITE).read_text(), SITE), key)
    process = await asyncio.create_subprocess_exec(
        *command(daemon, hadoop, conf),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=2,
        env={**hadoop.environment, "HADOOP_CONF_DIR": str(conf)},
        preexec_fn=_end_with_parent,
    )
    waiting = asyncio.create_task(process.wait())
    try:
        async with asyncio.timeout(STARTED_WITHIN_S):
            about = None
            while about is None and not waiting.done():
                await asyncio.wait({waiting}, timeout=LOOK_S)
                about = await _about(f"http://{address}{path}", inside)
        if about is not None:
            on_ready(DaemonInfo(f"http://{address}", about))
        # Not `await waiting`: a cancelled await cancels the task, and the process would count as ended.
        await asyncio.wait({waiting})
        raise HadoopFailed(f"Hadoop's {daemon} ended with code {process.returncode}: its log says why")
    except TimeoutError:
        raise HadoopFailed(f"Hadoop's {daemon} does not answer at {address}: its log may say why") from None
    finally:
        await _end(process, waiting)


def command(daemon: Daemon, hadoop: Installed, conf: Path) -> list[str]:
    # Jetty unpacks its pages there.
    temporary = f"-Djava.io.tmpdir={conf.parent / 'tmp'}"
    return [hadoop.java, *_OPTIONS, temporary, "-cp", f"{conf}:{hadoop.classpath}", MAIN[daemon]]


async def _end(process: asyncio.subprocess.Process, waiting: asyncio.Task[int]) -> None:
    """A NodeManager ends its containers within a moment, and then waits for their logs to be old enough to go."""
    if process.returncode is None:
        process.terminate()
        done, _ = await asyncio.wait({waiting}, timeout=STOPPED_WITHIN_S)
        if not done:
            left = ProcessTable.read().descendants(process.pid)
            process.kill()
            await waiting
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


async def _about(url: str, inside: str) -> Mapping[str, Any] | None:
    try:
        timeout = aiohttp.ClientTimeout(total=5.0)
        headers = {"Accept": "application/json"}
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url, headers=headers) as answer:
            data = await answer.json(content_type=None) if answer.status == 200 else None
    except (OSError, aiohttp.ClientError, TimeoutError, ValueError):
        return None
    about = data.get(inside) if isinstance(data, dict) else None
    return about if isinstance(about, dict) else None


def _end_with_parent() -> None:
    """Linux tells the child when its parent is gone, also by SIGKILL: a NodeManager then still ends its containers."""
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
