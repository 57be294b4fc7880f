"""Nodes: one a line; in a recording with times, the last line of a node counts and its system use is averaged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from koord.sim.minutes import NodeColumns
from koord.sim.traces.table.chunks import Chunk
from koord.sim.traces.table.columns import NODES, layout
from koord.sim.traces.trace import Repairs


@dataclass(slots=True)
class _Node:
    cpu: float = 0
    memory: float = 0
    pool: str = ""
    system: list[float] = field(default_factory=lambda: [0.0, 0.0])
    "Sum and count."


def read_nodes(chunks: Iterable[Chunk], repairs: Repairs) -> tuple[NodeColumns | None, NDArray[np.float64] | None]:
    """The nodes, and what each uses outside of pods; None if the file does not say it: a recording may lack sizes."""
    nodes: dict[str, _Node] = {}
    form = None
    for chunk in chunks:
        form = form or layout(chunk, NODES)
        cpu, memory = form.quantity(chunk, "cpu"), form.quantity(chunk, "memory")
        system = form.optional_quantity(chunk, "system_cpu", repairs)
        pools = form.optional_names(chunk, "pool")
        for line, name in enumerate(chunk.names("node")):
            if name in nodes and not form.has("time"):
                raise chunk.fault(line, "node", f"node {name} stands twice")
            for quantity, values in (("cpu", cpu), ("memory", memory)):
                if values[line] <= 0:
                    raise chunk.fault(line, form.columns[quantity], "must be above 0")
            node = nodes.setdefault(name, _Node())
            node.cpu, node.memory, node.pool = float(cpu[line]), float(memory[line]), pools[line]
            if not np.isnan(system[line]):
                node.system[0] += float(system[line])
                node.system[1] += 1
    if not nodes:
        return None, None
    columns = NodeColumns(
        names=tuple(nodes),
        cpu_milli=np.array([round(node.cpu) for node in nodes.values()], np.int64),
        memory_bytes=np.array([round(node.memory) for node in nodes.values()], np.int64),
        pool=tuple(node.pool for node in nodes.values()),
    )
    if not any(node.system[1] for node in nodes.values()):
        return columns, None
    return columns, np.array([node.system[0] / max(1.0, node.system[1]) for node in nodes.values()])
