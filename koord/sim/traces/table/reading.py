"""All files of a folder in the table form, as one trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from koord.sim.columns import ServiceCurves
from koord.sim.minutes import NodeColumns
from koord.sim.traces.table.batch import read_batch
from koord.sim.traces.table.chunks import Chunk
from koord.sim.traces.table.nodes import read_nodes
from koord.sim.traces.table.services import read_services
from koord.sim.traces.trace import Content, Repairs, Trace

ELSEWHERE: Final = "pod on a node that is not in nodes placed by the scheduler"
FILES: Final[tuple[Content, ...]] = ("services", "batch", "nodes")


def read_table(files: Mapping[Content, Iterable[Chunk]]) -> Trace:
    """Chunks by what a file has. Times of batch pods count from the beginning of the services."""
    repairs = Repairs()
    services = tasks = nodes = system = begin_s = None
    if "services" in files:
        services, begin_s = read_services(files["services"], repairs)
    if "batch" in files:
        tasks = read_batch(files["batch"], begin_s, repairs)
    if "nodes" in files:
        nodes, system = read_nodes(files["nodes"], repairs)
    if services is not None and nodes is not None:
        _note_unknown_nodes(services, nodes, repairs)
    return Trace(services, tasks, nodes, repairs.listed(), system)


def _note_unknown_nodes(services: ServiceCurves, nodes: NodeColumns, repairs: Repairs) -> None:
    names = {"", *nodes.names}
    for service, node in zip(services.ids, services.node or (), strict=False):
        if node not in names:
            repairs.add(ELSEWHERE, f"services, pod {service} on {node}", None)
