"""The components that `koord up` runs: one list, in reverse order of stopping."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from koord.api.configuration.slo_config import SloConfig
from koord.api.machinery.faults import BadInput
from koord_minicluster.up.data_dir import CONSOLE_LINK
from koord_minicluster.up.installed import grafana_command

HEALTH: Final = ("--metrics-address", "127.0.0.1:0")
SERVER_PORTS: Final = range(20_000, 32_000)
TRIES: Final = 20
LOCAL_NODE: Final = "local"
FIRST_HOLLOW: Final = "hollow-0001"
LOCAL_STOP_S: Final = 20.0
"""A local node that is killed leaves its pods behind, and it takes a while to end many of them."""
LOCAL_GATES: Final = "BEMemoryEvict=true,CgroupReconcile=true,PSICollector=true,Accelerators=true,RDMADevices=true"
"""Feature gates that this machine's agent enables beyond its defaults: here a user is watching."""
YARN_STOP_S: Final = 20.0
"""Java takes its time to stop, and a NodeManager ends its containers first."""
MONITORING_STOP_S: Final = 15.0
"""Prometheus writes what it has to disk first."""
YARN_PACE_S: Final = "5"
"""Short, since a user is watching."""
WEBHOOKS: Final = ("--webhook-address", "127.0.0.1:0", "--webhook-host", "127.0.0.1")


@dataclass(frozen=True, slots=True)
class Component:
    """One child process: `koord NAME ARGS`, or another command of koord's."""

    name: str
    args: tuple[str, ...]
    stop_within_s: float = 3.0
    "How long it may take to stop before it is killed."
    late: bool = False
    "Whether it starts after all others are ready, so that startup does not wait for it."
    command: tuple[str, ...] = ()
    "Set if it differs from the name."
    program: tuple[str, ...] = ()
    "Set if it runs in another version of koord."
    environment: Mapping[str, str] = field(default_factory=dict)
    "In addition to the supervisor's own."


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    data_dir: Path | None = None
    nodes: int = 5
    port: int = 0
    durability: Literal["full", "fast"] = "full"
    fleet_args: tuple[str, ...] = ()
    "Further options of `koord hollow`: sizes, load, seed."
    descheduler: Literal["off", "report", "on"] = "report"
    "Whether the descheduler looks for badly placed pods, and whether it also moves them."
    descheduler_config: Path | None = None
    scheduler_config: Path | None = None
    colocation: SloConfig | None = None
    "Content of slo-controller-config in a new cluster, if not the default."
    local_args: tuple[str, ...] | None = None
    "Options of `koord local`, if this machine will be a node too."
    agent_gates: str = ""
    "Gates of this machine's agent, in addition to LOCAL_GATES; they take precedence."
    hadoop: str | None = None
    "The folder of Hadoop's jars, if YARN will run too."
    monitoring: bool = False
    "Whether Prometheus runs too, and Grafana where it is installed."

    @property
    def first_node(self) -> str:
        """The node that YARN's NodeManager belongs to."""
        return LOCAL_NODE if self.local_args is not None else FIRST_HOLLOW


def components(options: UpOptions, path: Path, port: int) -> tuple[Component, ...]:
    """Everything, the API server first: the others need it from their start to their end."""
    kubeconfig = ("--kubeconfig", str(path / "kubeconfig"))
    api = ("--data-dir", str(path), "--port", str(port), "--durability", options.durability)
    fleet = ("--nodes", str(options.nodes), *options.fleet_args)
    descheduler = (*kubeconfig, *HEALTH, "--alone", *_descheduler_args(options))
    everywhere = (
        Component("apiserver", api),
        Component("controllers", ("--kubeconfig", str(path / "pki" / "controllers.kubeconfig"), *HEALTH)),
        Component("scheduler", (*kubeconfig, *HEALTH, "--alone", *_config(options.scheduler_config))),
        Component("manager", (*kubeconfig, *HEALTH, *WEBHOOKS)),
        *((Component("descheduler", descheduler, late=True),) if options.descheduler != "off" else ()),
        Component("hollow", (*kubeconfig, *HEALTH, *fleet)),
        *_watchers(options, path, kubeconfig),
    )
    yarn = _yarn(options, path, port, kubeconfig) if options.hadoop is not None else ()
    if options.local_args is None:
        return (*everywhere, *yarn)
    # The cgroup is this run's own, so that several can be on one machine.
    here = ("--node-name", LOCAL_NODE, *_own_cgroup(port))
    local = (*kubeconfig, *HEALTH, *here, "--logs", str(path / "pods"), *options.local_args)
    socket = () if options.hadoop is None else ("--yarn-copilot", str(_copilot_socket(path)))
    gates = ("--feature-gates", ",".join(filter(None, (LOCAL_GATES, options.agent_gates))))
    agent = (*kubeconfig, *HEALTH, *here, "--state-dir", str(path / "agent"), *gates, *socket)
    return (*everywhere, Component("local", local, LOCAL_STOP_S), Component("agent", agent), *yarn)


def _watchers(options: UpOptions, path: Path, kubeconfig: tuple[str, str]) -> Iterator[Component]:
    """The console, and what keeps and shows metrics over time."""
    over_time: tuple[str, ...] = ()
    if options.monitoring:
        ports = [str(_free(0)) for _ in range(2)]
        over_time = ("--prometheus", f"http://127.0.0.1:{ports[0]}")
        if grafana_command(path) is not None:
            over_time += ("--grafana", f"http://127.0.0.1:{ports[1]}")
        where = ("--data-dir", str(path), "--prometheus-port", ports[0], "--grafana-port", ports[1])
        yield Component("monitoring", where, MONITORING_STOP_S, late=True)
    yield Component("console", (*kubeconfig, "--link-file", str(path / CONSOLE_LINK), *over_time), late=True)


def _own_cgroup(port: int) -> tuple[str, str]:
    return ("--cgroup-root", f"koord-local-{port}")


def _copilot_socket(path: Path) -> Path:
    return path / "yarn" / "copilot.sock"


def _yarn(options: UpOptions, path: Path, port: int, kubeconfig: tuple[str, ...]) -> tuple[Component, ...]:
    """Hadoop's own daemons, and koord's beside them. Java starts slowly, so startup does not wait for it."""
    conf = ("--hadoop-conf-dir", str(path / "yarn" / "conf"))
    hadoop = (*conf, "--hadoop", str(options.hadoop))
    declared = ("--node", options.first_node, *kubeconfig)
    arguments = (*kubeconfig, *HEALTH, *conf, "--no-leader-elect", "--pace", YARN_PACE_S)
    parts = [
        _late("yarn resourcemanager", hadoop, YARN_STOP_S),
        _late("yarn nodemanager", (*hadoop, *declared), YARN_STOP_S),
        _late("yarn operator", arguments),
    ]
    if options.local_args is not None:
        placed = (*conf, *_own_cgroup(port), "--socket", str(_copilot_socket(path)))
        parts.append(_late("yarn copilot", placed))
    return tuple(parts)


def _late(command: str, args: tuple[str, ...], stop_within_s: float = 3.0) -> Component:
    return Component(command.replace(" ", "-"), args, stop_within_s, late=True, command=tuple(command.split()))


def _descheduler_args(options: UpOptions) -> tuple[str, ...]:
    return (*_config(options.descheduler_config), *(() if options.descheduler == "on" else ("--dry-run",)))


def _config(file: Path | None) -> tuple[str, ...]:
    return () if file is None else ("--config", str(file))


def _random_port() -> int:
    """A port below those that the kernel gives to clients: none can take it before the server listens."""
    return secrets.choice(SERVER_PORTS)


def choose_port(wanted: int, last: int) -> int:
    """The port for the API server, which keeps it over restarts: the wanted one, else the last one, else a free one."""
    if wanted:
        if not _free(wanted):
            raise BadInput(f"--port {wanted}: another program listens on it; give another port, or 0 for a free one")
        return wanted
    for port in (last or _random_port(), *(_random_port() for _ in range(TRIES)), 0):
        if free := _free(port):
            return free
    raise OSError("no free port on 127.0.0.1")


def _free(port: int) -> int:
    """The port, if a server can listen on it; for 0, one that the kernel chooses. 0 if not."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
        return int(probe.getsockname()[1])
