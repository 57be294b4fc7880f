"""NodePorts: a port of the node that a pod wants must be free there.

Two ports conflict where protocol and number are the same, and so is the address, or either is 0.0.0.0.
Few pods want any, so what is in use is kept by port: the rows that have it, and how often.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import ClassVar, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from koord.api.kubernetes.pod import Pod, PodSpec
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Numbers
from koord.scheduler.framework.change import Change, listed, without_pods
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.nominating import Nominating
from koord.scheduler.framework.plugin import KeyedBy, Plugin
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Reason, Row

EVERY_ADDRESS: Final = "0.0.0.0"
_NOBODY: Final[Mapping[Row, int]] = {}


class HostPort(NamedTuple):
    ip: str
    protocol: str
    port: int


def host_ports_of(pod: Pod) -> tuple[HostPort, ...]:
    """The ports of the node that a pod takes, an address of all zeros meaning every address."""
    spec = pod.spec
    containers = [*spec.containers, *(c for c in spec.init_containers if c.is_sidecar)]
    return tuple(
        HostPort(port.host_ip or EVERY_ADDRESS, str(port.protocol), port.host_port)
        for container in containers
        for port in container.ports
        if port.host_port > 0
    )


def ports_of(record: PodRecord) -> tuple[HostPort, ...]:
    """The same of a pod that is on a node."""
    ports = record.note(PortsInUse.name)
    return ports if isinstance(ports, tuple) else ()


class Uses:
    """Which rows have which ports in use."""

    def __init__(self) -> None:
        self._uses: dict[tuple[str, int], dict[str, dict[Row, int]]] = {}
        "By protocol and number, by address, by row: how many pods."

    def pod_moved(self, record: PodRecord, row: Row, sign: int) -> None:
        for ip, protocol, number in ports_of(record):
            rows = self._uses.setdefault((protocol, number), {}).setdefault(ip, {})
            rows[row] = rows.get(row, 0) + sign
            if not rows[row]:
                del rows[row]

    def conflicts(self, wanted: HostPort) -> Iterator[tuple[str, dict[Row, int]]]:
        """By address, the rows with a port that conflicts with a wanted one, and how many pods use it."""
        by_address = self._uses.get((wanted.protocol, wanted.port))
        if by_address is None:
            return
        for ip, rows in by_address.items():
            if wanted.ip in (ip, EVERY_ADDRESS) or ip == EVERY_ADDRESS:
                yield ip, rows

    def of(self, protocol: str, number: int, ip: str) -> Mapping[Row, int]:
        """The rows with just this port, and how many pods use it."""
        return self._uses.get((protocol, number), {}).get(ip, {})


class PortsInUse(Notes):
    """The ports of all pods. A note is a pod's ports."""

    name: ClassVar[str] = "NodePorts"
    changes_views: ClassVar[bool] = False

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.uses = Uses()

    def by_spec(self, spec: PodSpec) -> bool:
        return True

    def of(self, pod: Pod) -> object | None:
        return host_ports_of(pod) or None

    def moved(self, note: object, record: PodRecord, row: Row, sign: int) -> None:
        self.uses.pod_moved(record, row, sign)


def conflict(one: HostPort, other: HostPort) -> bool:
    same = (one.protocol, one.port) == (other.protocol, other.port)
    return same and (one.ip == other.ip or EVERY_ADDRESS in (one.ip, other.ip))


def _meets(ask: Ask, promised: PodRecord) -> bool:
    return bool(ports_of(promised) and host_ports_of(ask.pod))


class NodePorts(Plugin):
    name = "NodePorts"
    notes = PortsInUse
    wakes_on = Reason.NODE | Reason.FREED
    nominating = Nominating(meets=_meets)

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.SPEC

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        return host_ports_of(ask.pod)

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        ports = host_ports_of(ask.pod)
        if not ports:
            return None
        return _Free(ports, cluster, None if ask.view is None else ask.view.keep(Uses))


class _Free(Judge):
    filters_on = Reason.NODE | Reason.PODS
    eased = True

    def __init__(self, wanted: tuple[HostPort, ...], cluster: Cluster, hidden: Uses | None) -> None:
        self._wanted, self._ports, self._hidden = wanted, cluster.notes(PortsInUse).uses, hidden
        self._cluster, self._table = cluster, cluster.table

    def feasible(self, cells: Cells) -> Numbers:
        if isinstance(cells.rows, int):
            return int(any(self._is_taken(port, cells.rows) for port in self._wanted))
        taken = np.zeros(self._table.capacity, np.bool_)
        for port in self._wanted:
            for rows, hidden in self._taken(port):
                taken[[row for row, uses in rows.items() if uses > hidden.get(row, 0)] if hidden else list(rows)] = True
        return taken[cells.rows]

    def _is_taken(self, port: HostPort, row: Row) -> bool:
        return any(rows.get(row, 0) > hidden.get(row, 0) for rows, hidden in self._taken(port))

    def _taken(self, port: HostPort) -> Iterator[tuple[Mapping[Row, int], Mapping[Row, int]]]:
        """How many pods use a port that conflicts, by row: all of them, and those that are hidden."""
        for ip, rows in self._ports.conflicts(port):
            yield rows, _NOBODY if self._hidden is None else self._hidden.of(port.protocol, port.port, ip)

    def fixes(self, ask: Ask, row: Row) -> list[Change]:
        taken = [port for port in self._wanted if self._is_taken(port, row)]
        there = list(self._cluster.pods_on[row].values())
        holders = [
            record.key
            for record in (there if self.view is None else self.view.visible(there, row))
            if any(conflict(mine, its) for mine in taken for its in ports_of(record))
        ]
        named = f"port{'s' if len(taken) > 1 else ''} {listed(f'{port}/{protocol}' for _, protocol, port in taken)}"
        numbers = {(protocol, port) for _, protocol, port in taken}
        spec = ask.pod.spec
        containers, inits = (
            tuple(
                replace(
                    container,
                    ports=tuple(
                        replace(port, host_port=0) if (port.protocol, port.host_port) in numbers else port
                        for port in container.ports
                    ),
                )
                for container in group
            )
            for group in (spec.containers, spec.init_containers)
        )
        pod = replace(ask.pod, spec=replace(spec, containers=containers, init_containers=inits))
        return [Change(f"the host {named} left out", pod=pod), without_pods(holders, f"to free {named}")]

    def reasons(self, mask: int) -> list[str]:
        return ["node(s) didn't have free ports for the requested pod ports"]
