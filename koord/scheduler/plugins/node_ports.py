"""NodePorts: a port of the node that a pod wants must be free there.

Two ports conflict where protocol and number are the same, and so is the address, or either is 0.0.0.0.
Few pods want any, so what is in use is kept by port: the rows that have it, and how often.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final

import numpy as np

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.plugin import Cells, Judge, Numbers, Plugin
from koord.scheduler.state.cluster import Cluster, Index
from koord.scheduler.state.pods import HostPort, PodRecord
from koord.scheduler.state.table import Reason, Row

EVERY_ADDRESS: Final = "0.0.0.0"


class PortsInUse(Index):
    """Which rows have which ports in use."""

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


class NodePorts(Plugin):
    name = "NodePorts"
    wakes_on = Reason.NODE | Reason.FREED

    def attach(self, cluster: Cluster) -> None:
        cluster.index(PortsInUse)

    def keyed_by_spec(self, ask: Ask) -> bool:
        return True

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        return ask.ports

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        return _Free(ask.ports, cluster) if ask.ports else None


class _Free(Judge):
    filters_on = Reason.NODE | Reason.PODS

    def __init__(self, wanted: tuple[HostPort, ...], cluster: Cluster) -> None:
        self._wanted, self._table, self._ports = wanted, cluster.table, cluster.index(PortsInUse)

    def feasible(self, cells: Cells) -> Numbers:
        taken = [rows for port in self._wanted for rows in self._ports.conflicts(port)]
        if isinstance(cells.rows, int):
            return int(any(cells.rows in rows for rows in taken))
        found = np.zeros(self._table.capacity, np.bool_)
        for rows in taken:
            found[list(rows)] = True
        return found[cells.rows]

    def reasons(self, mask: int) -> list[str]:
        return ["node(s) didn't have free ports for the requested pod ports"]
