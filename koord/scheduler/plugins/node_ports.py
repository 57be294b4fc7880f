"""NodePorts: a port of the node that a pod wants must be free there.

Two ports conflict where protocol and number are the same, and so is the address, or either is 0.0.0.0.
Few pods want any, so what is in use is kept by port: the rows that have it, and how often.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final

import numpy as np
from msgspec.structs import replace

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Numbers
from koord.scheduler.framework.change import Change, listed, without_pods
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import HostPort, PodRecord
from koord.scheduler.state.table import Reason, Row
from koord.scheduler.state.watchers import Index

EVERY_ADDRESS: Final = "0.0.0.0"


class PortsInUse(Index):
    """Which rows have which ports in use."""

    special = True

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._uses: dict[tuple[str, int], dict[str, dict[Row, int]]] = {}
        "By protocol and number, by address, by row: how many pods."
        for record, row in cluster.pods.values():
            self.pod_moved(record, row, +1)

    def pod_moved(self, record: PodRecord, row: Row, sign: int) -> None:
        for ip, protocol, number in record.ports:
            rows = self._uses.setdefault((protocol, number), {}).setdefault(ip, {})
            rows[row] = rows.get(row, 0) + sign
            if not rows[row]:
                del rows[row]

    def conflicts(self, wanted: HostPort) -> Iterator[dict[Row, int]]:
        """The rows with a port that conflicts with a wanted one."""
        by_address = self._uses.get((wanted.protocol, wanted.port))
        if by_address is None:
            return
        for ip, rows in by_address.items():
            if wanted.ip in (ip, EVERY_ADDRESS) or ip == EVERY_ADDRESS:
                yield rows


def conflict(one: HostPort, other: HostPort) -> bool:
    same = (one.protocol, one.port) == (other.protocol, other.port)
    return same and (one.ip == other.ip or EVERY_ADDRESS in (one.ip, other.ip))


class NodePorts(Plugin):
    name = "NodePorts"
    wakes_on = Reason.NODE | Reason.FREED

    def attach(self, cluster: Cluster) -> None:
        cluster.index(PortsInUse)

    def keyed_by_spec(self, ask: Ask) -> bool:
        return True

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        return ask.ports

    def meets(self, ask: Ask, promised: PodRecord) -> bool:
        return bool(promised.ports and ask.ports)

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        return _Free(ask.ports, cluster) if ask.ports else None


class _Free(Judge):
    filters_on = Reason.NODE | Reason.PODS
    eased = True

    def __init__(self, wanted: tuple[HostPort, ...], cluster: Cluster) -> None:
        self._wanted, self._ports = wanted, cluster.index(PortsInUse)
        self._cluster, self._table = cluster, cluster.table

    def feasible(self, cells: Cells) -> Numbers:
        taken = [rows for port in self._wanted for rows in self._ports.conflicts(port)]
        if isinstance(cells.rows, int):
            return int(any(cells.rows in rows for rows in taken))
        found = np.zeros(self._table.capacity, np.bool_)
        for rows in taken:
            found[list(rows)] = True
        return found[cells.rows]

    def mend(self, ask: Ask, row: Row) -> list[Change]:
        taken = [port for port in self._wanted if any(row in rows for rows in self._ports.conflicts(port))]
        holders = [
            key
            for key, record in self._cluster.pods_on[row].items()
            if any(conflict(mine, its) for mine in taken for its in record.ports)
        ]
        named = f"port{'s' if len(taken) > 1 else ''} {listed(f'{port}/{protocol}' for _, protocol, port in taken)}"
        numbers = {(protocol, port) for _, protocol, port in taken}
        spec = ask.pod.spec
        containers, inits = (
            tuple(
                replace(
                    each,
                    ports=tuple(
                        replace(port, host_port=0) if (port.protocol, port.host_port) in numbers else port
                        for port in each.ports
                    ),
                )
                for each in group
            )
            for group in (spec.containers, spec.init_containers)
        )
        pod = replace(ask.pod, spec=replace(spec, containers=containers, init_containers=inits))
        return [Change(f"the host {named} left out", pod=pod), without_pods(holders, f"to free {named}")]

    def reasons(self, mask: int) -> list[str]:
        return ["node(s) didn't have free ports for the requested pod ports"]
