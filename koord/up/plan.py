"""What `koord up` runs: the one list of components, in the order in which they stop last."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

HEALTH: Final = ("--metrics-address", "127.0.0.1:0")
WEBHOOKS: Final = ("--webhook-address", "127.0.0.1:0", "--webhook-host", "127.0.0.1")


@dataclass(frozen=True, slots=True)
class Component:
    """One child process: `koord NAME ARGS`."""

    name: str
    args: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    data_dir: Path | None = None
    nodes: int = 5
    port: int = 0
    durability: Literal["full", "fast"] = "full"
    fleet_args: tuple[str, ...] = ()
    "Further options of `koord hollow`: sizes, load, seed."


def components(options: UpOptions, path: Path, port: int) -> tuple[Component, ...]:
    """Everything, the API server first: the others need it from their start to their end."""
    kubeconfig = ("--kubeconfig", str(path / "kubeconfig"))
    api = ("--data-dir", str(path), "--port", str(port), "--durability", options.durability)
    fleet = ("--nodes", str(options.nodes), *options.fleet_args)
    return (
        Component("apiserver", api),
        Component("controllers", (*kubeconfig, *HEALTH)),
        Component("scheduler", (*kubeconfig, *HEALTH, "--alone")),
        Component("manager", (*kubeconfig, *HEALTH, *WEBHOOKS)),
        Component("hollow", (*kubeconfig, *HEALTH, *fleet)),
    )


def choose_port(wanted: int, last: int) -> int:
    """The port for the API server, which keeps it over restarts: the wanted one, else the last one, else a free one."""
    if wanted:
        return wanted
    for port in (last, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("no free port on 127.0.0.1")
