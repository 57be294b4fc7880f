"""openb: GPU nodes of a production cluster and the pods that came and went in 149 days (nodes, GPU pods).

`openb_node_list_gpu_node.csv` has a node a line, a pod list a pod a line. Pod lists that were made from the recorded
one have no times: their pods begin and end at 0.
"""

from __future__ import annotations

from typing import BinaryIO, Final

import numpy as np

from koord.sim.minutes import NodeColumns
from koord.sim.traces.rows import Row, rows
from koord.sim.traces.trace import GpuNode, GpuPod, Repairs, Streams, Trace, TraceFault

NODES: Final = "openb_node_list_gpu_node.csv"
PODS: Final = "openb_pod_list_default.csv"
MIB: Final = 1 << 20
WHOLE: Final = 1000
"A GPU, in thousandths."
NEVER_ENDED: Final = "pod that ends before it begins is kept for one second"


def read(streams: Streams) -> Trace:
    repairs = Repairs()
    nodes = read_nodes(streams[NODES], NODES)
    return Trace(
        nodes=NodeColumns(
            names=tuple(node.name for node in nodes),
            cpu_milli=np.array([node.cpu_milli for node in nodes], np.int64),
            memory_bytes=np.array([node.memory_mib * MIB for node in nodes], np.int64),
            pool=tuple(node.model for node in nodes),
        ),
        gpu_nodes=tuple(nodes),
        gpu_pods=tuple(read_pods(streams[PODS], PODS, repairs)),
        repairs=repairs.listed(),
    )


def read_nodes(stream: BinaryIO, file: str) -> list[GpuNode]:
    nodes: dict[str, GpuNode] = {}
    for row in rows(stream, file, ("sn", "model", "gpu", "cpu_milli", "memory_mib")):
        name = row.text("sn")
        if name in nodes:
            raise row.fault(f"node {name} stands twice")
        nodes[name] = GpuNode(
            name,
            row.optional_text("model"),
            _whole(row, "gpu"),
            round(row.positive("cpu_milli")),
            round(row.positive("memory_mib")),
        )
    if not nodes:
        raise TraceFault(file, None, "has no nodes")
    return list(nodes.values())


def read_pods(stream: BinaryIO, file: str, repairs: Repairs) -> list[GpuPod]:
    pods: dict[str, GpuPod] = {}
    for row in rows(stream, file, ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")):
        name = row.text("name")
        if name in pods:
            raise row.fault(f"pod {name} stands twice")
        gpus, gpu_milli = _whole(row, "num_gpu"), _whole(row, "gpu_milli")
        if gpu_milli > WHOLE or (gpus and not gpu_milli):
            raise row.fault(f"column gpu_milli: must be 1 to {WHOLE} for a pod with GPUs, not {gpu_milli}")
        begin_s, end_s = _time(row, "creation_time"), _time(row, "deletion_time")
        if end_s < begin_s:
            repairs.add(NEVER_ENDED, row.file, row.line)
            end_s = begin_s + 1
        pods[name] = GpuPod(
            name=name,
            cpu_milli=_whole(row, "cpu_milli"),
            memory_mib=_whole(row, "memory_mib"),
            gpus=gpus,
            gpu_milli=gpu_milli if gpus else 0,
            models=frozenset(filter(None, row.optional_text("gpu_spec").split("|"))),
            begin_s=begin_s,
            end_s=end_s,
        )
    if not pods:
        raise TraceFault(file, None, "has no pods")
    return list(pods.values())


def _whole(row: Row, column: str) -> int:
    return round(row.not_negative(column))


def _time(row: Row, column: str) -> int:
    return round(row.not_negative(column)) if row.has(column) else 0
